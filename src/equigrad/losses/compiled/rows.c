/* The hottest passes over float32 logits, for CPUs; `rows.py` calls them, `hatch_build.py` compiles them.

   A row stays in the L1 cache while its loss and gradient are formed; the logits are read once and the gradient is
   written once. The formulas are those of `softmax_pass.py` and `sigmoid_pass.py`. Threads take fixed ranges of rows
   and their sums are added up in order, so that the same number of threads gives the same bits. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if !defined(__GNUC__) || defined(__clang__)
#error "needs gcc: LLVM's OpenMP ends a process in which torch has brought another copy of it"
#endif

/* One copy of a row's loop for each of three generations of x86, chosen when the library is loaded: glibc can do that.
   gcc before 12 does not know the generations by name. Tests define it as nothing. */
#ifndef EACH_ISA
#if !defined(__x86_64__) || !defined(__GLIBC__)
#define EACH_ISA
#elif __GNUC__ >= 12
#define EACH_ISA __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define EACH_ISA __attribute__((target_clones("avx512f", "avx2", "default")))
#endif
#endif
#define INLINED static inline __attribute__((always_inline))

#define IGNORE (-100)

/* float32 sums of so many entries, and of so many rows, are moved to float64 sums. */
#define ENTRIES_AT_ONCE 512
#define ROWS_AT_ONCE 64

/* Whoever loads the library compares it with the source it knows. */
const char *equigrad_source(void) { return SOURCE; }

/* What `rows.py` fills in. Vectors are (C,), and NULL where there are none. */
typedef struct {
    const float *logits;    /* (N, C) with `stride` between rows; or contiguous (N, C, M) */
    const int64_t *labels;  /* (N,) or (N, M) */
    const double *margin;   /* m_j of s z + m */
    const double *weight;   /* w_j of a sample with this label, or r_j of the negative entries of this category */
    const double *label_margin; /* taken from the own logit of a sample */
    const double *focus;
    float *gradient;  /* divided, contiguous, in the logits' shape; NULL if nobody asked for it */
    double *positive; /* added to, undivided */
    double *negative; /* zeros at first, undivided */
    float *prepared;  /* (5, C) what the functions below make of margin, focus and weight */
    int64_t stride, num_rows, num_classes, num_positions; /* N, C and M, which is -1 for rows */
    double divisor, loss; /* `loss` is added to, undivided */
    float scale;
    int32_t is_constant, num_threads; /* `is_constant`: the factor |y' - p|^gamma is not differentiated */
} Pass;

/* What a thread adds up, (C,) each. */
typedef struct {
    double loss;
    double *positive, *negative;
    float *columns; /* negative, of the last rows */
    float *row;     /* a gradient that nobody asked for */
    float *margin;  /* that of the pass, rounded; a row may change it and put it back */
} Sums;

typedef void AddPart(const Pass *pass, int64_t part, Sums *sums);

/* What a thread needs; the first adds to the sums of the pass itself. 1 if there is not enough memory. */
static int make_sums(const Pass *pass, int64_t thread, Sums *sums)
{
    size_t num_classes = (size_t)pass->num_classes;
    double *totals = thread ? calloc(2 * num_classes, sizeof(double)) : NULL;
    float *rows = malloc(3 * num_classes * sizeof(float));
    Sums made = {
        .positive = thread ? totals : pass->positive,
        .negative = thread ? totals + num_classes : pass->negative,
        .columns = rows,
        .row = rows + num_classes,
        .margin = rows + 2 * num_classes,
    };
    *sums = made;
    if (!rows || !made.positive)
        return 1;
    memset(made.columns, 0, num_classes * sizeof(float));
    for (size_t j = 0; pass->margin && j < num_classes; j++)
        made.margin[j] = (float)pass->margin[j];
    return 0;
}

/* Call `add_part` for each part, a row or a block of a map; 1 if there is not enough memory. */
static int add_up(Pass *pass, int64_t num_parts, AddPart *add_part)
{
    int64_t num_classes = pass->num_classes, num_threads = pass->num_threads;
    Sums *sums = calloc((size_t)num_threads, sizeof(Sums));
    int failed = !sums;
    if (failed)
        return failed;
    /* After a fork the threads of the parent are gone: one thread must not ask OpenMP for any. */
#pragma omp parallel for num_threads((int)num_threads) schedule(static, 1) reduction(| : failed) if (num_threads > 1)
    for (int64_t thread = 0; thread < num_threads; thread++) {
        Sums own;
        failed |= make_sums(pass, thread, &own);
        int64_t first = num_parts * thread / num_threads, end = num_parts * (thread + 1) / num_threads;
        for (int64_t part = first; !failed && part < end; part++) {
            add_part(pass, part, &own);
            if ((part - first) % ROWS_AT_ONCE == ROWS_AT_ONCE - 1 || part == end - 1)
                for (int64_t j = 0; j < num_classes; j++) {
                    own.negative[j] += own.columns[j];
                    own.columns[j] = 0;
                }
        }
        sums[thread] = own;
    }
    for (int64_t thread = 0; thread < num_threads; thread++) {
        pass->loss += sums[thread].loss;
        free(sums[thread].columns);
        if (thread == 0)
            continue;
        for (int64_t j = 0; j < num_classes && !failed; j++) {
            pass->positive[j] += sums[thread].positive[j];
            pass->negative[j] += sums[thread].negative[j];
        }
        free(sums[thread].positive);
    }
    free(sums);
    return failed;
}

static float *gradient_of_row(const Pass *pass, int64_t i, const Sums *sums)
{
    return pass->gradient ? pass->gradient + i * pass->num_classes : sums->row;
}

#define MAX_EXPONENT 88.02969f /* 127 log(2) */

/* e^x of |x| <= MAX_EXPONENT to 1e-7 of it: 2^n e^r with |r| <= log(2) / 2. It is 0 where it would be denormal. */
INLINED float exp_within(float x)
{
    const float round = 12582912.0f + 127; /* 1.5 2^23: the last bits of a sum with it are those of n + 127 */
    union { float value; uint32_t bits; } shifted = {x * 1.44269504f + round}, scale;
    float n = shifted.value - round;
    float rest = (x - n * 0.693359375f) - n * -2.12194440e-4f; /* log(2) in two parts: the first product is exact */
    float power = 1.38382058e-3f; /* the polynomial with the least error of its degree, 2e-9 */
    power = power * rest + 8.37495532e-3f;
    power = power * rest + 4.16682051e-2f;
    power = power * rest + 1.66664181e-1f;
    power = power * rest + 4.99999921e-1f;
    power = power * rest + 1.00000004f;
    power = power * rest + 1.0f;
    scale.bits = shifted.bits << 23;
    return power * scale.value;
}

/* ---- cross-entropy ------------------------------------------------------------------------------------------------ */

/* e^(s z + m - peak) of a row, at most 2^127; their sum is returned. */
INLINED double powers_of(
    const float *logits, const float *margin, float scale, float peak, float *powers, int64_t num_classes)
{
    double total = 0;
    for (int64_t start = 0; start < num_classes; start += ENTRIES_AT_ONCE) {
        int length = num_classes - start < ENTRIES_AT_ONCE ? (int)(num_classes - start) : ENTRIES_AT_ONCE;
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int j = 0; j < length; j++) {
            float exponent = scale * logits[start + j] + margin[start + j] - peak;
            exponent = exponent < -MAX_EXPONENT ? -MAX_EXPONENT : exponent;
            float power = exp_within(exponent > MAX_EXPONENT ? MAX_EXPONENT : exponent);
            powers[start + j] = power;
            sum += power;
        }
        total += sum;
    }
    return total;
}

/* Cross-entropy of one sample. The own entry is left out of the sum, so that 1 - p is exact where p is near 1. */
EACH_ISA static void cross_entropy_row(const Pass *pass, int64_t i, Sums *sums)
{
    int64_t num_classes = pass->num_classes, own = pass->labels[i];
    float *gradient = gradient_of_row(pass, i, sums), *columns = sums->columns;
    if (own < 0 || own >= num_classes) {
        memset(gradient, 0, num_classes * sizeof(float));
        if (own != IGNORE) /* it was refused before: somebody has written it meanwhile */
            sums->loss = NAN;
        return;
    }
    const float *logits = pass->logits + i * pass->stride;
    float *margin = sums->margin, own_margin = margin[own];
    float scale = pass->scale, own_sum = scale * logits[own] + own_margin;
    margin[own] = -INFINITY; /* its power is 0 */
    double own_logit = own_sum - (pass->label_margin ? pass->label_margin[own] : 0);
    /* As of most logits: that spares a pass. */
    double others = powers_of(logits, margin, scale, 0, gradient, num_classes), own_power = exp(own_logit);
    if (!(own_power > 1e-18 && others + own_power < 1e18)) {
        float peak = (float)own_logit;
#pragma omp simd reduction(max : peak)
        for (int64_t j = 0; j < num_classes; j++) {
            float logit = scale * logits[j] + margin[j];
            peak = logit > peak ? logit : peak;
        }
        others = powers_of(logits, margin, scale, peak, gradient, num_classes);
        own_logit -= peak;
        own_power = exp(own_logit);
    }
    margin[own] = own_margin;
    double weight = pass->weight ? pass->weight[own] : 1, total = others + own_power;
    double own_gradient = weight * (others / total);
    float factor = (float)(weight / (total * pass->divisor));
#pragma omp simd
    for (int64_t j = 0; j < num_classes; j++) {
        float value = gradient[j] * factor;
        gradient[j] = value;
        columns[j] += value;
    }
    gradient[own] = (float)(-own_gradient / pass->divisor);
    sums->positive[own] += own_gradient;
    /* The first where p is near 1, the second where it is near 0. */
    sums->loss += weight * (own_power > 1e-3 * total ? log1p(others / own_power) : log(total) - own_logit);
}

/* Cross-entropy of s z + m against class indices; rows to ignore have no gradient. 1 if there is not enough memory. */
int equigrad_cross_entropy(Pass *pass)
{
    int failed = add_up(pass, pass->num_rows, cross_entropy_row);
    for (int64_t j = 0; j < pass->num_classes; j++)
        pass->negative[j] *= pass->divisor; /* the columns of the gradient */
    return failed;
}

/* ---- binary cross-entropy and focal loss of the entries that are not labelled -------------------------------------- */

typedef struct {
    float loss;  /* l(s) */
    float slope; /* l'(s) */
} Entry;

/* A logit whose entry has no loss and no slope, whatever the focus. */
#define NEVER (-1e30f)

/* Without a focus it is binary cross-entropy. The factor of the focus is differentiated with `slope_focus`: it or 0. */
INLINED Entry negative_entry(float logit, int has_focus, float focus, float slope_focus)
{
    float size = fabsf(logit), u = exp_within(size > MAX_EXPONENT ? -MAX_EXPONENT : -size);
    float inverse_of_both = 1.0f / ((1.0f + u) * (2.0f + u)), inverse = (2.0f + u) * inverse_of_both;
    /* log(1 + u), to 1e-7 of it: twice the inverse hyperbolic tangent of u / (2 + u) <= 1/3. */
    float t = u * (1.0f + u) * inverse_of_both, square = t * t;
    float series = 2.0f / 15;
    series = series * square + 2.0f / 13;
    series = series * square + 2.0f / 11;
    series = series * square + 2.0f / 9;
    series = series * square + 2.0f / 7;
    series = series * square + 2.0f / 5;
    series = series * square + 2.0f / 3;
    series = series * square + 2.0f;
    float softplus = (logit > 0 ? logit : 0.0f) + t * series, prob = logit < 0 ? u * inverse : inverse;
    Entry entry = {softplus, prob};
    if (has_focus) {
        /* sigma^gamma, but not below the root of the least number, which is as good as 0: no denormal products. */
        float exponent = (logit - softplus) * focus, other = logit < 0 ? inverse : u * inverse;
        float modulation = exp_within(exponent < -43.6f ? -43.6f : exponent);
        entry.loss = softplus * modulation;
        entry.slope = modulation * prob + entry.loss * (slope_focus * other);
    }
    return entry;
}

/* A row without the entry `own`; its weighted cost is returned. */
INLINED double negative_entries(
    const Pass *pass, const float *logits, int has_focus, int64_t own, float *gradient, float *columns)
{
    int64_t num_classes = pass->num_classes;
    const float *margin = pass->prepared, *focus = margin + num_classes, *slope_focus = focus + num_classes;
    const float *weight = slope_focus + num_classes, *factor = weight + num_classes;
    float scale = pass->scale;
    double total = 0;
    for (int64_t start = 0; start < num_classes; start += ENTRIES_AT_ONCE) {
        int length = num_classes - start < ENTRIES_AT_ONCE ? (int)(num_classes - start) : ENTRIES_AT_ONCE;
        int own_here = (int)(own - start);
        float cost = 0;
#pragma omp simd reduction(+ : cost)
        for (int i = 0; i < length; i++) {
            int64_t j = start + i;
            float logit = scale * logits[j] + margin[j];
            logit = i == own_here ? NEVER : logit;
            Entry entry = negative_entry(logit, has_focus, focus[j], slope_focus[j]);
            cost += entry.loss * weight[j];
            columns[j] += entry.slope;
            gradient[j] = entry.slope * factor[j];
        }
        total += cost;
    }
    return total;
}

EACH_ISA static void negatives_row(const Pass *pass, int64_t i, Sums *sums)
{
    int64_t own = pass->labels[i];
    float *gradient = gradient_of_row(pass, i, sums);
    const float *logits = pass->logits + i * pass->stride;
    if (own == IGNORE)
        memset(gradient, 0, pass->num_classes * sizeof(float));
    else if (pass->focus)
        sums->loss += negative_entries(pass, logits, 1, own, gradient, sums->columns);
    else
        sums->loss += negative_entries(pass, logits, 0, own, gradient, sums->columns);
}

/* One category at some positions of a map, in which they lie side by side; its sums are returned, without the positions
   that it labels and those to ignore. */
INLINED Entry map_entries(
    const Pass *pass, int64_t j, const float *logits, int has_focus, const int32_t *labels, float *gradient, int length)
{
    int64_t num_classes = pass->num_classes;
    const float *of_category = pass->prepared + j;
    float scale = pass->scale, margin = of_category[0], focus = of_category[num_classes];
    float slope_focus = of_category[2 * num_classes], factor = of_category[4 * num_classes];
    float cost = 0, slopes = 0;
#pragma omp simd reduction(+ : cost, slopes)
    for (int i = 0; i < length; i++) {
        int is_out = (labels[i] == (int32_t)j) | (labels[i] == IGNORE);
        float logit = scale * logits[i] + margin;
        Entry entry = negative_entry(is_out ? NEVER : logit, has_focus, focus, slope_focus);
        cost += entry.loss;
        slopes += entry.slope;
        gradient[i] = entry.slope * factor;
    }
    Entry sums = {cost, slopes};
    return sums;
}

static int64_t blocks_of_a_map(const Pass *pass) { return (pass->num_positions + ENTRIES_AT_ONCE - 1) / ENTRIES_AT_ONCE; }

/* Some positions of a map. Their labels stay in the L1 cache while all categories pass. */
EACH_ISA static void negatives_block(const Pass *pass, int64_t block, Sums *sums)
{
    int64_t num_positions = pass->num_positions, num_blocks = blocks_of_a_map(pass), image = block / num_blocks;
    int64_t first = block % num_blocks * ENTRIES_AT_ONCE, rest = num_positions - first;
    int length = rest < ENTRIES_AT_ONCE ? (int)rest : ENTRIES_AT_ONCE;
    int32_t labels[ENTRIES_AT_ONCE];
    float unwanted[ENTRIES_AT_ONCE];
    for (int i = 0; i < length; i++)
        labels[i] = (int32_t)pass->labels[image * num_positions + first + i];
    for (int64_t j = 0; j < pass->num_classes; j++) {
        int64_t start = (image * pass->num_classes + j) * num_positions + first;
        const float *logits = pass->logits + start;
        float *gradient = pass->gradient ? pass->gradient + start : unwanted;
        Entry part = pass->focus ? map_entries(pass, j, logits, 1, labels, gradient, length)
                                 : map_entries(pass, j, logits, 0, labels, gradient, length);
        sums->loss += pass->weight[j] * part.loss;
        sums->negative[j] += part.slope;
    }
}

/* |y' - p|^gamma BCE of all entries that are not labelled, each with the weight r_j of its category; those that are have
   no gradient. A row with a label < 0 has negatives only; one with IGNORE is left out. 1 if there is not enough memory. */
int equigrad_negatives(Pass *pass)
{
    int64_t num_classes = pass->num_classes;
    int is_map = pass->num_positions >= 0;
    pass->prepared = malloc((5 * num_classes + 1) * sizeof(float));
    if (!pass->prepared)
        return 1;
    for (int64_t j = 0; j < num_classes; j++) {
        float *of_category = pass->prepared + j, focus = pass->focus ? (float)pass->focus[j] : 0;
        of_category[0] = pass->margin ? (float)pass->margin[j] : 0;
        of_category[num_classes] = focus;
        of_category[2 * num_classes] = pass->is_constant ? 0 : focus;
        of_category[3 * num_classes] = (float)pass->weight[j];
        of_category[4 * num_classes] = (float)(pass->weight[j] / pass->divisor);
    }
    int failed = is_map ? add_up(pass, pass->num_rows * blocks_of_a_map(pass), negatives_block)
                        : add_up(pass, pass->num_rows, negatives_row);
    free(pass->prepared);
    for (int64_t j = 0; j < num_classes; j++)
        pass->negative[j] *= pass->weight[j];
    return failed;
}
