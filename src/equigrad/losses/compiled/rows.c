/* The hottest passes over float32 logits, for CPUs; `rows.py` calls them, `hatch_build.py` compiles them.

   A row stays in the L1 cache while its loss and gradient are formed; the logits are read once and the gradient is
   written once. The formulas are those of `softmax_pass.py` and `sigmoid_pass.py`. Threads take fixed ranges of rows
   and their sums are added up in order, so that the same number of threads gives the same bits. */

#include <math.h>
#include <omp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* One copy of a row's loop for each of three generations of x86, chosen when the library is loaded. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define EACH_ISA __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define EACH_ISA
#endif
#define INLINED static inline __attribute__((always_inline))

#define IGNORE (-100)
#define LOG2_E 1.44269504088896340736f
#define LN_2 0.69314718055994530942

/* float32 sums of so many rows are moved to float64 sums. */
#define ROWS_AT_ONCE 64

/* Whoever loads the library compares it with the source it knows. */
const char *equigrad_source(void) { return SOURCE; }

/* 2^x of x <= 127, to 1e-7 of it; 0 below -127, where the exponent is 0. */
INLINED float exp2_of(float x)
{
    const float round = 12582912.0f + 127; /* 1.5 2^23: the last bits of a sum with it are those of x + 127, rounded */
    float bounded = x < -127.0f ? -127.0f : x;
    union { float value; uint32_t bits; } shifted = {bounded + round}, scale;
    float part = bounded - (shifted.value - round);
    float power = 1.53473201e-4f; /* the polynomial with the least error of its degree, 2e-9 */
    power = power * part + 1.340015445e-3f;
    power = power * part + 9.618484243e-3f;
    power = power * part + 5.550328082e-2f;
    power = power * part + 2.402264692e-1f;
    power = power * part + 6.931472062e-1f;
    power = power * part + 1.0f;
    scale.bits = shifted.bits << 23;
    return power * scale.value;
}

/* log(1 + u) of u in [0, 1], to 1e-7 of it: twice the inverse hyperbolic tangent of u / (2 + u) <= 1/3. */
INLINED float log1p_unit(float u)
{
    float t = u / (2.0f + u), square = t * t;
    float series = 2.0f / 15;
    series = series * square + 2.0f / 13;
    series = series * square + 2.0f / 11;
    series = series * square + 2.0f / 9;
    series = series * square + 2.0f / 7;
    series = series * square + 2.0f / 5;
    series = series * square + 2.0f / 3;
    series = series * square + 2.0f;
    return t * series;
}

/* What a thread adds up. */
typedef struct {
    float *row;       /* (C,) a gradient that nobody asked for */
    float *columns;   /* (C,) of the last rows */
    double *negative; /* (C,) of all its rows */
} Sums;

static int make_sums(Sums *sums, int64_t num_classes)
{
    sums->row = malloc(num_classes * sizeof(float));
    sums->columns = calloc(num_classes, sizeof(float));
    sums->negative = calloc(num_classes, sizeof(double));
    return sums->row && sums->columns && sums->negative;
}

static void move_columns(Sums *sums, int64_t num_classes)
{
    for (int64_t j = 0; j < num_classes; j++) {
        sums->negative[j] += sums->columns[j];
        sums->columns[j] = 0;
    }
}

/* Add up the threads in order, times `factor`, and give back their memory. */
static void join(Sums *sums, int num_threads, double factor, double *negative, int64_t num_classes)
{
    for (int thread = 0; thread < num_threads; thread++) {
        if (negative)
            for (int64_t j = 0; j < num_classes; j++)
                negative[j] = (thread ? negative[j] : 0) + factor * sums[thread].negative[j];
        free(sums[thread].row);
        free(sums[thread].columns);
        free(sums[thread].negative);
    }
    free(sums);
}

/* ---- cross-entropy ------------------------------------------------------------------------------------------------ */

/* Powers of the entries [first, end) of a row, as they are; their sum is returned. Above 2^127 is 2^127. */
INLINED float plain_powers(
    const float *logits, const float *binary_margin, float binary_scale, float *powers, int64_t first, int64_t end)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = first; j < end; j++) {
        float exponent = binary_scale * logits[j] + binary_margin[j];
        float power = exp2_of(exponent > 127.0f ? 127.0f : exponent);
        powers[j] = power;
        sum += power;
    }
    return sum;
}

/* Powers of a row of any logits, below its peak, which is returned; `others` is the sum without the own entry. */
INLINED float powers_below_peak(
    const float *logits, const float *margin, float scale, int64_t own, double own_logit, float *powers, double *others,
    int64_t num_classes)
{
    for (int64_t j = 0; j < num_classes; j++)
        powers[j] = scale * logits[j] + margin[j];
    powers[own] = -INFINITY;
    float peak = (float)own_logit, sum = 0;
#pragma omp simd reduction(max : peak)
    for (int64_t j = 0; j < num_classes; j++)
        peak = powers[j] > peak ? powers[j] : peak;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < num_classes; j++) {
        powers[j] = exp2_of((powers[j] - peak) * LOG2_E);
        sum += powers[j];
    }
    *others = sum;
    return peak;
}

/* One row; its cost is returned. The own entry is left out of the sum, so that 1 - p is exact where p is near 1. */
EACH_ISA static double cross_entropy_row(
    const float *logits, const float *margin, const float *binary_margin, float scale, int64_t own, double own_margin,
    double weight, double divisor, float *gradient, float *columns, double *own_gradient, int64_t num_classes)
{
    float binary_scale = scale * LOG2_E, own_sum = scale * logits[own] + margin[own];
    double own_logit = own_sum - own_margin;
    /* As of most logits: that spares two passes. */
    double others = plain_powers(logits, binary_margin, binary_scale, gradient, 0, own);
    others += plain_powers(logits, binary_margin, binary_scale, gradient, own + 1, num_classes);
    double own_power = exp(own_logit), total = others + own_power;
    if (!(own_power > 1e-18 && total < 1e18)) {
        own_logit -= powers_below_peak(logits, margin, scale, own, own_logit, gradient, &others, num_classes);
        own_power = exp(own_logit);
        total = others + own_power;
    }
    gradient[own] = 0;
    float factor = (float)(weight / (total * divisor));
    for (int64_t j = 0; j < num_classes; j++) {
        float value = gradient[j] * factor;
        gradient[j] = value;
        columns[j] += value;
    }
    *own_gradient = weight * (others / total);
    gradient[own] = (float)(-*own_gradient / divisor);
    /* The first where p is near 1, the second where it is near 0. */
    return weight * (own_power > 1e-3 * total ? log1p(others / own_power) : log(total) - own_logit);
}

/* Cross-entropy of s z + m against class indices, each sample with the weight of its category and with `own_margin` of
   it taken from its own logit.

   Returns 0, or 1 if there is not enough memory. Adds to `positive` and `loss`, and sets `negative`, all
   undivided. `gradient` is divided; it, `weight` and `own_margin` may be NULL. Rows with a label < 0 are left out: their gradient is 0. */
int equigrad_cross_entropy(
    const float *logits, int64_t stride, const int64_t *labels, const float *margin, float scale,
    const double *own_margin, const double *weight, double divisor, float *gradient, double *positive, double *negative,
    double *loss, int64_t num_rows, int64_t num_classes, int num_threads)
{
    Sums *sums = calloc(num_threads, sizeof(Sums));
    double *costs = calloc(2 * num_rows + 1, sizeof(double)), *own_gradients = costs + num_rows;
    float *binary_margin = malloc(num_classes * sizeof(float));
    int failed = !sums || !costs || !binary_margin;
    if (!failed) {
        for (int64_t j = 0; j < num_classes; j++)
            binary_margin[j] = margin[j] * LOG2_E;
#pragma omp parallel for num_threads(num_threads) schedule(static, 1) reduction(| : failed)
        for (int thread = 0; thread < num_threads; thread++) {
            Sums own = {0};
            int64_t first = num_rows * thread / num_threads, end = num_rows * (thread + 1) / num_threads;
            failed |= !make_sums(&own, num_classes);
            for (int64_t i = first; i < end && !failed; i++) {
                float *row = gradient ? gradient + i * num_classes : own.row;
                if (labels[i] < 0)
                    memset(row, 0, num_classes * sizeof(float));
                else
                    costs[i] = cross_entropy_row(
                        logits + i * stride, margin, binary_margin, scale, labels[i],
                        own_margin ? own_margin[labels[i]] : 0, weight ? weight[labels[i]] : 1, divisor, row,
                        own.columns, &own_gradients[i], num_classes);
                if ((i - first) % ROWS_AT_ONCE == ROWS_AT_ONCE - 1 || i == end - 1)
                    move_columns(&own, num_classes);
            }
            sums[thread] = own;
        }
        for (int64_t i = 0; i < num_rows && !failed; i++) {
            *loss += costs[i];
            if (labels[i] >= 0)
                positive[labels[i]] += own_gradients[i];
        }
    }
    if (sums)
        join(sums, num_threads, divisor, failed ? NULL : negative, num_classes);
    free(costs);
    free(binary_margin);
    return failed;
}

/* ---- binary cross-entropy and focal loss of the entries that are not labelled -------------------------------------- */

typedef struct {
    float loss;  /* l(s) */
    float slope; /* l'(s) */
} Entry;

/* Without a focus it is binary cross-entropy. */
INLINED Entry negative_entry(float logit, const float *focus, int is_constant)
{
    float u = exp2_of((logit < 0 ? logit : -logit) * LOG2_E), inverse = 1.0f / (1.0f + u);
    float softplus = (logit > 0 ? logit : 0.0f) + log1p_unit(u);
    float prob = logit < 0 ? u * inverse : inverse;
    Entry entry = {softplus, prob};
    if (focus) { /* sigma^gamma; a factor below the root of the least number is as good as none */
        float exponent = (logit - softplus) * *focus * LOG2_E;
        float modulation = exp2_of(exponent < -63.0f ? -127.0f : exponent);
        float other = logit < 0 ? inverse : u * inverse;
        entry.loss = softplus * modulation;
        entry.slope = modulation * prob + (is_constant ? 0.0f : entry.loss * *focus * other);
    }
    return entry;
}

/* Entries [first, end) of a row; their weighted cost is returned. */
INLINED float negative_entries(
    const float *logits, const float *margin, float scale, const float *focus, int is_constant, const float *weight,
    float share, float *gradient, float *columns, int64_t first, int64_t end)
{
    float cost = 0;
#pragma omp simd reduction(+ : cost)
    for (int64_t j = first; j < end; j++) {
        float logit = margin ? scale * logits[j] + margin[j] : scale * logits[j];
        Entry entry = negative_entry(logit, focus ? focus + j : NULL, is_constant);
        cost += entry.loss * weight[j];
        columns[j] += entry.slope;
        gradient[j] = entry.slope * (weight[j] * share);
    }
    return cost;
}

EACH_ISA static double negative_row(
    const float *logits, const float *margin, float scale, const float *focus, int is_constant, const float *weight,
    float share, float *gradient, float *columns, int64_t first, int64_t end)
{
    /* A loop of its own for each kind, without branches inside. */
    if (!focus && !margin)
        return negative_entries(logits, NULL, scale, NULL, 0, weight, share, gradient, columns, first, end);
    if (!focus)
        return negative_entries(logits, margin, scale, NULL, 0, weight, share, gradient, columns, first, end);
    if (!margin && !is_constant)
        return negative_entries(logits, NULL, scale, focus, 0, weight, share, gradient, columns, first, end);
    return negative_entries(logits, margin, scale, focus, is_constant, weight, share, gradient, columns, first, end);
}

/* |y' - p|^gamma BCE of all entries that are not labelled, each with the weight r_j of its category.

   Returns 0, or 1 if there is not enough memory. Adds to `loss` and sets `negative`, undivided; `negative` without r_j.
   `gradient` is divided, and 0 where an entry is labelled. It, `margin` and `focus` may be NULL. A row with a label < 0
   has negatives only; one with IGNORE is left out. */
int equigrad_negatives(
    const float *logits, int64_t stride, const int64_t *labels, const float *margin, float scale, const float *focus,
    int is_constant, const float *weight, double divisor, float *gradient, double *negative, double *loss,
    int64_t num_rows, int64_t num_classes, int num_threads)
{
    Sums *sums = calloc(num_threads, sizeof(Sums));
    double *costs = calloc(num_rows + 1, sizeof(double));
    int failed = !sums || !costs;
    float share = (float)(1 / divisor);
    if (!failed) {
#pragma omp parallel for num_threads(num_threads) schedule(static, 1) reduction(| : failed)
        for (int thread = 0; thread < num_threads; thread++) {
            Sums own = {0};
            int64_t begin = num_rows * thread / num_threads, end = num_rows * (thread + 1) / num_threads;
            failed |= !make_sums(&own, num_classes);
            for (int64_t i = begin; i < end && !failed; i++) {
                float *row = gradient ? gradient + i * num_classes : own.row;
                const float *entries = logits + i * stride;
                int64_t label = labels[i];
                if (label == IGNORE)
                    memset(row, 0, num_classes * sizeof(float));
                else {
                    int64_t middle = label < 0 ? num_classes : label;
                    costs[i] = negative_row(
                        entries, margin, scale, focus, is_constant, weight, share, row, own.columns, 0, middle);
                    if (label >= 0) {
                        row[label] = 0;
                        costs[i] += negative_row(
                            entries, margin, scale, focus, is_constant, weight, share, row, own.columns, label + 1,
                            num_classes);
                    }
                }
                if ((i - begin) % ROWS_AT_ONCE == ROWS_AT_ONCE - 1 || i == end - 1)
                    move_columns(&own, num_classes);
            }
            sums[thread] = own;
        }
        for (int64_t i = 0; i < num_rows && !failed; i++)
            *loss += costs[i];
    }
    if (sums)
        join(sums, num_threads, 1, failed ? NULL : negative, num_classes);
    free(costs);
    return failed;
}

/* ---- the same for maps, in which the positions of a category lie side by side --------------------------------------- */

/* Positions whose labels stay in the L1 cache while all categories pass. */
#define POSITIONS_AT_ONCE 2048

/* One category at some positions; its sums are returned, without the positions that it labels and those to ignore. */
INLINED Entry map_entries(
    const float *logits, float margin, float scale, const float *focus, int is_constant, float factor,
    const int32_t *labels, int32_t category, float *gradient, int64_t num_positions)
{
    float loss = 0, slope = 0;
#pragma omp simd reduction(+ : loss, slope)
    for (int64_t i = 0; i < num_positions; i++) {
        Entry entry = negative_entry(scale * logits[i] + margin, focus, is_constant);
        int is_out = (labels[i] == category) | (labels[i] == IGNORE);
        float own_slope = is_out ? 0.0f : entry.slope;
        loss += is_out ? 0.0f : entry.loss;
        slope += own_slope;
        gradient[i] = own_slope * factor;
    }
    Entry sums = {loss, slope};
    return sums;
}

EACH_ISA static Entry negative_positions(
    const float *logits, float margin, float scale, const float *focus, int is_constant, float factor,
    const int32_t *labels, int32_t category, float *gradient, int64_t num_positions)
{
    if (!focus)
        return map_entries(logits, margin, scale, NULL, 0, factor, labels, category, gradient, num_positions);
    if (!is_constant)
        return map_entries(logits, margin, scale, focus, 0, factor, labels, category, gradient, num_positions);
    return map_entries(logits, margin, scale, focus, 1, factor, labels, category, gradient, num_positions);
}

/* `equigrad_negatives` of contiguous logits (N, C, M) and labels (N, M). */
int equigrad_map_negatives(
    const float *logits, const int64_t *labels, const float *margin, float scale, const float *focus, int is_constant,
    const float *weight, double divisor, float *gradient, double *negative, double *loss, int64_t num_images,
    int64_t num_classes, int64_t num_positions, int num_threads)
{
    Sums *sums = calloc(num_threads, sizeof(Sums));
    int64_t blocks_an_image = (num_positions + POSITIONS_AT_ONCE - 1) / POSITIONS_AT_ONCE;
    int64_t num_blocks = num_images * blocks_an_image;
    double *costs = calloc(num_blocks + 1, sizeof(double));
    int failed = !sums || !costs;
    float share = (float)(1 / divisor);
    if (!failed) {
#pragma omp parallel for num_threads(num_threads) schedule(static, 1) reduction(| : failed)
        for (int thread = 0; thread < num_threads; thread++) {
            Sums own = {0};
            int32_t block_labels[POSITIONS_AT_ONCE];
            float unwanted[POSITIONS_AT_ONCE];
            failed |= !make_sums(&own, num_classes);
            int64_t begin = num_blocks * thread / num_threads, end = num_blocks * (thread + 1) / num_threads;
            for (int64_t block = begin; block < end && !failed; block++) {
                int64_t image = block / blocks_an_image, first = block % blocks_an_image * POSITIONS_AT_ONCE;
                int64_t length = num_positions - first < POSITIONS_AT_ONCE ? num_positions - first : POSITIONS_AT_ONCE;
                for (int64_t i = 0; i < length; i++)
                    block_labels[i] = (int32_t)labels[image * num_positions + first + i];
                for (int64_t j = 0; j < num_classes; j++) {
                    int64_t start = (image * num_classes + j) * num_positions + first;
                    Entry part = negative_positions(
                        logits + start, margin ? margin[j] : 0, scale, focus ? focus + j : NULL, is_constant,
                        weight[j] * share, block_labels, (int32_t)j, gradient ? gradient + start : unwanted, length);
                    costs[block] += (double)part.loss * weight[j];
                    own.negative[j] += part.slope;
                }
            }
            sums[thread] = own;
        }
        for (int64_t block = 0; block < num_blocks && !failed; block++)
            *loss += costs[block];
    }
    if (sums)
        join(sums, num_threads, 1, failed ? NULL : negative, num_classes);
    free(costs);
    return failed;
}
