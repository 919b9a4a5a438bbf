r"""The binary cross-entropies in one pass: BCE and Sigmoid-EQL, focal, quality focal and varifocal loss, equalized too.

The formulas are those of `sigmoid_pass`, with s = z for a negative entry and s = -z for a positive one. Every entry is
computed by itself, so a program takes a tile of samples and categories and never sees a whole sample.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from equigrad.labels import BACKGROUND, IGNORE
from equigrad.losses.inputs import FusedReduction, PerCategory
from equigrad.losses.kernels.arithmetic import by_category, sigmoid_parts
from equigrad.losses.kernels.launch import Launch, vector_and_factor
from equigrad.losses.kernels.layout import Layout, column_tiles, offsets, samples_of
from equigrad.losses.kernels.totals import Pass, add_up, empty_partials, store_sums, store_totals

BACKGROUND_LABEL = tl.constexpr(BACKGROUND)

MAX_REGISTERS = 80
"""Of a thread: three programs at a time. Left alone, ptxas prefers a few spills to a few registers more."""


def binary_cross_entropy(
    logits: Tensor,
    labels: Tensor,
    positive_weight: PerCategory = 1.0,
    negative_weight: PerCategory = 1.0,
    *,
    positive_balance: float | None = None,
    focus: PerCategory | None = None,
    quality: Tensor | None = None,
    foreground_weight: PerCategory | None = None,
    weight: PerCategory | None = None,
    margin: PerCategory | None = None,
    scale: float = 1.0,
    soft_targets: bool = False,
    weigh_by_quality: bool = False,
    focus_positives: bool = True,
    constant_weight: bool = False,
    objectness: bool = False,
    reduction: FusedReduction = "mean",
    normalizer: float | Tensor | None = None,
    ignore_index: int = IGNORE,
    with_gradient: bool = True,
) -> Pass:
    r"""`functional.binary_cross_entropy` for a GPU, in two launches.

    Vectors (C,) may be of any floating dtype. Shapes and dtypes are not checked here; values are, by `is_valid`.

    Args:
        logits: (N, C, ...).
        labels: (N, ...) class indices, BACKGROUND or `ignore_index`; or targets of the logits' shape.
        positive_weight: q_j.
        negative_weight: r_j.
        positive_balance: alpha_t; q_j is multiplied by it, and r_j by 1 - alpha_t.
        focus: gamma_j.
        quality: y' in [0, 1] of the positive entries, (N, ...), or of the logits' shape with targets.
        foreground_weight: times r_j, on the negative entries of samples that have a category. Class indices only.
        weight: weight of a sample with all its entries, by its category. Class indices only.
        margin: m_j, of p = sigmoid(s z + m).
        scale: s.
        soft_targets: whether targets may lie between 0 and 1. They are y' then, and positive where they are above 0.
        weigh_by_quality: positive entries weigh y', whatever their distance. Needs a focus.
        focus_positives: False leaves positive entries without |y' - p|^gamma.
        constant_weight: |y' - p|^gamma is not differentiated.
        objectness: whether the last of C + 1 columns is objectness: plain, positive where a sample has a category, and
            in no sum. Class indices only.
        reduction: "mean" or "sum".
        normalizer: what the loss is divided by, in place of either.
        ignore_index: label of samples that do not count.
        with_gradient: False computes the loss and the sums alone.
    """
    if labels.shape == logits.shape and (foreground_weight is not None or weight is not None):
        raise ValueError("foreground_weight and weight need class indices: a program does not see a whole sample")
    if labels.shape == logits.shape and objectness:
        raise ValueError("objectness needs class indices: a program does not see a whole sample")
    if soft_targets and quality is not None:
        raise ValueError("soft targets are qualities themselves: a quality needs targets of 0 and 1, or class indices")
    layout = Layout(logits)
    tiles = column_tiles(layout)
    dtype = torch.promote_types(logits.dtype, torch.float32)
    num_classes = layout.num_classes - objectness
    partials = empty_partials(num_classes, tiles, logits, dtype)
    gradient = layout.empty_gradient(logits) if with_gradient else None
    is_matrix = labels.shape == logits.shape
    arguments = {
        **layout.entries("logits", logits),
        **layout.entries("gradient", gradient),
        "labels": None if is_matrix else layout.samples(labels),
        **layout.entries("targets", labels if is_matrix else None),
        **layout.qualities(quality),
        "sums": partials.sums,
        "totals": partials.totals,
        "num_images": layout.num_images,
        "num_categories": num_classes,
        "num_positions": layout.num_positions,
        "tiles_per_program": tiles.tiles_per_program,
        "ignore_index": ignore_index,
        "SCALE": scale,
        "IS_SOFT": soft_targets,
        "BY_QUALITY": weigh_by_quality,
        "IS_PLAIN": not focus_positives,
        "IS_CONSTANT": constant_weight,
        "HAS_OBJECTNESS": objectness,
        "BLOCK_S": tiles.block_samples,
        "BLOCK_C": tiles.block_categories,
    }
    balances = (1.0, 1.0) if positive_balance is None else (positive_balance, 1 - positive_balance)
    vectors = {
        "positive_weight": (positive_weight, balances[0]),
        "negative_weight": (negative_weight, balances[1]),
        "focus": (focus, 1.0),
        "margin": (margin, 1.0),
        "foreground_weight": (foreground_weight, 1.0),
        "sample_weight": (weight, 1.0),
    }
    for name, (value, balance) in vectors.items():
        vector, factor = vector_and_factor(value, num_classes)
        arguments[name], arguments[name.upper()] = vector, None if value is None else factor * balance
    totals, result = add_up(partials, gradient, reduction, normalizer)
    return Pass([Launch(sigmoid_kernel, tiles.grid, arguments, tiles.num_warps, MAX_REGISTERS), totals], result)


@triton.jit
def sigmoid_kernel(
    logits,
    logits_n,
    logits_c,
    logits_m,
    gradient,
    gradient_n,
    gradient_c,
    gradient_m,
    labels,
    targets,
    targets_n,
    targets_c,
    targets_m,
    quality,
    quality_n,
    quality_c,
    quality_m,
    positive_weight,
    negative_weight,
    focus,
    margin,
    foreground_weight,
    sample_weight,
    sums,
    totals,
    num_images,
    num_categories,
    num_positions,
    tiles_per_program,
    ignore_index,
    SCALE: tl.constexpr,
    POSITIVE_WEIGHT: tl.constexpr,
    NEGATIVE_WEIGHT: tl.constexpr,
    FOCUS: tl.constexpr,
    MARGIN: tl.constexpr,
    FOREGROUND_WEIGHT: tl.constexpr,
    SAMPLE_WEIGHT: tl.constexpr,
    IS_SOFT: tl.constexpr,
    BY_QUALITY: tl.constexpr,
    IS_PLAIN: tl.constexpr,
    IS_CONSTANT: tl.constexpr,
    HAS_OBJECTNESS: tl.constexpr,
    BLOCK_S: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """The tiles of one program. A vector is None where all categories share the constant beside it, in capitals."""
    dtype: tl.constexpr = sums.dtype.element_ty
    columns = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    is_category = columns < num_categories
    is_column = columns <= num_categories if HAS_OBJECTNESS else is_category
    is_objectness = (columns == num_categories)[None, :]  # read only where there is such a column
    own_weight = by_category(positive_weight, columns, is_category, POSITIVE_WEIGHT, dtype)[None, :]
    other_weight = by_category(negative_weight, columns, is_category, NEGATIVE_WEIGHT, dtype)[None, :]

    loss = tl.zeros([BLOCK_S, BLOCK_C], dtype)
    positive = tl.zeros([BLOCK_S, BLOCK_C], dtype)
    negative = tl.zeros([BLOCK_S, BLOCK_C], dtype)
    num_counted = tl.zeros([BLOCK_S], tl.int32)
    num_bad = tl.zeros([BLOCK_S], tl.int32) if targets is None else tl.zeros([BLOCK_S, BLOCK_C], tl.int32)

    tiles_per_image = tl.cdiv(num_positions, BLOCK_S)
    first = tl.program_id(0) * tiles_per_program
    last = tl.minimum(first + tiles_per_program, num_images * tiles_per_image)
    for tile in range(first, last):
        n, positions = samples_of(tile, tiles_per_image, BLOCK_S)
        is_sample = positions < num_positions
        inside = is_sample[:, None] & is_column[None, :]

        # Targets: y is 1 at the positive entries, or what is above 0 if targets are soft.
        if targets is None:
            label = tl.load(labels + n * num_positions + positions, mask=is_sample, other=ignore_index)
            is_counted = is_sample & (label != ignore_index)
            has_category = is_counted & (label >= 0) & (label < num_categories)
            num_bad += (is_counted & ~has_category & (label != BACKGROUND_LABEL)).to(tl.int32)
            inside = inside & is_counted[:, None]  # what an ignored sample holds is not even read
            is_positive = (label[:, None] == columns[None, :]) & is_counted[:, None]
            if HAS_OBJECTNESS:
                is_positive = tl.where(is_objectness, has_category[:, None], is_positive)
        else:
            is_counted = is_sample
            y = tl.load(targets + offsets(n, positions, columns, targets_n, targets_c, targets_m), mask=inside, other=0)
            y = y.to(dtype)
            is_positive = y > 0
            if IS_SOFT:
                num_bad += (~((y >= 0) & (y <= 1))).to(tl.int32)
            else:
                num_bad += (~((y == 0) | (y == 1))).to(tl.int32)
        num_counted += is_counted.to(tl.int32)

        z = tl.load(logits + offsets(n, positions, columns, logits_n, logits_c, logits_m), mask=inside, other=0)
        z = z.to(dtype)
        scaled = z * SCALE
        if MARGIN is not None:
            scaled += by_category(margin, columns, is_category, MARGIN, dtype)[None, :]
        z = tl.where(is_objectness, z, scaled) if HAS_OBJECTNESS else scaled

        entry_weight = tl.where(is_positive, own_weight, other_weight)
        if FOREGROUND_WEIGHT is not None:
            foreground = by_category(foreground_weight, columns, is_category, FOREGROUND_WEIGHT, dtype)
            is_foreground = has_category[:, None] & ~is_positive
            entry_weight = tl.where(is_foreground, entry_weight * foreground[None, :], entry_weight)
        if SAMPLE_WEIGHT is not None:
            by_label = by_category(sample_weight, label, has_category, SAMPLE_WEIGHT, dtype)
            entry_weight *= tl.where(has_category, by_label, 1)[:, None]
        if HAS_OBJECTNESS:
            entry_weight = tl.where(is_objectness, 1, entry_weight)
        entry_weight = tl.where(inside, entry_weight, 0)

        if quality is not None:
            if targets is None:
                target = tl.load(quality + n * quality_n + positions * quality_m, mask=is_sample, other=0).to(dtype)
                num_bad += (~((target >= 0) & (target <= 1))).to(tl.int32)
                target = target[:, None]
                if HAS_OBJECTNESS:
                    target = tl.where(is_objectness, 1, target)
            else:
                entries = offsets(n, positions, columns, quality_n, quality_c, quality_m)
                target = tl.load(quality + entries, mask=inside, other=0).to(dtype)
                num_bad += (~((target >= 0) & (target <= 1))).to(tl.int32)
            cost, error, log_distance, rate = soft_terms(z, tl.where(is_positive, target, 0), is_positive)
        elif IS_SOFT:
            target = y
            cost, error, log_distance, rate = soft_terms(z, y, is_positive)
        else:
            target = 1.0
            cost, error, log_distance, rate = hard_terms(z, is_positive)
        slope = error
        if FOCUS is not None:
            gamma = by_category(focus, columns, is_category, FOCUS, dtype)[None, :]
            modulation = tl.exp(gamma * log_distance)
            slope = modulation * error
            if not IS_CONSTANT:
                slope += modulation * gamma * rate * cost
            if BY_QUALITY or IS_PLAIN:
                own_modulation = target if BY_QUALITY else 1.0
                modulation = tl.where(is_positive, own_modulation, modulation)
                slope = tl.where(is_positive, own_modulation * error, slope)
            modulated = modulation * cost
            if HAS_OBJECTNESS:
                slope = tl.where(is_objectness, error, slope)
                modulated = tl.where(is_objectness, cost, modulated)
            cost = modulated

        loss += entry_weight * cost
        slope = entry_weight * slope * (tl.where(is_objectness, 1, SCALE) if HAS_OBJECTNESS else SCALE)
        positive += tl.where(is_positive, tl.abs(slope), 0)
        negative += tl.where(is_positive, 0, tl.abs(slope))
        if gradient is not None:
            entries = offsets(n, positions, columns, gradient_n, gradient_c, gradient_m)
            tl.store(gradient + entries, slope, mask=is_sample[:, None] & is_column[None, :])

    num_not_finite = store_sums(sums, positive, negative, columns, is_category, num_categories)
    # All programs along the categories see the same samples, but only the first counts them.
    is_first = tl.program_id(1) == 0
    num_counted = tl.where(is_first, tl.sum(num_counted, 0), 0)
    num_bad = tl.sum(num_bad)
    if targets is None:
        num_bad = tl.where(is_first, num_bad, 0)
    store_totals(totals, tl.sum(loss), num_counted, num_bad, num_not_finite)


@triton.jit
def hard_terms(z, is_positive):
    """Of entries whose target is 0 or 1: BCE, p - y, log |p - y|, and p (1 - p) / (p - y)."""
    s = tl.where(is_positive, -z, z)
    sign = tl.where(is_positive, -1, 1).to(z.dtype)
    near, far, softplus = sigmoid_parts(s)
    cost = tl.maximum(s, 0) + softplus
    log_distance = tl.minimum(s, 0) - softplus
    return cost, sign * tl.where(s > 0, near, far), log_distance, sign * tl.where(s > 0, far, near)


@triton.jit
def soft_terms(z, y, is_positive):
    """The same of entries whose target may lie between, and is 0 where they are not positive."""
    near, far, softplus = sigmoid_parts(z)
    cost = tl.where(z > 0, (1 - y) * z, -y * z) + softplus
    error = tl.where(z > 0, 1 - y - far, far - y)
    log_distance = tl.where(is_positive, tl.log(tl.maximum(tl.abs(error), 1e-30)), tl.minimum(z, 0) - softplus)
    # At distance 0 the slope of the modulation is 0 for a focus > 1, and so is our choice below that.
    rate = tl.where(error == 0, 0, near * far / tl.where(error == 0, 1, error))
    return cost, error, log_distance, tl.where(is_positive, rate, tl.where(z > 0, far, near))
