r"""The cross-entropies: CE, Softmax-EQL, margins, weights, LDAM's margin of the label, smoothing and soft labels.

A softmax needs the peak and the total of a whole sample. While all its categories fit into one tile they are formed
there, and the logits are read once. Beyond that a first kernel forms them, online, and the logits are read twice.

The arithmetic is that of `softmax_pass`: a sample with the targets t, which add up to T, pulls category j up by
t_j (1 - p_j) and pushes it down by p_j (T - t_j).
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from equigrad.labels import IGNORE
from equigrad.losses.inputs import ROW_SUM_TOLERANCE, FusedReduction, PerCategory
from equigrad.losses.kernels.arithmetic import by_category, log1p
from equigrad.losses.kernels.launch import Launch, vector_and_factor
from equigrad.losses.kernels.layout import Layout, column_tiles, offsets, row_tiles, sample_blocks, samples_of
from equigrad.losses.kernels.totals import Pass, add_up, empty_partials, store_sums, store_totals

SUM_TOLERANCE = tl.constexpr(ROW_SUM_TOLERANCE)

MAX_REGISTERS = {8: 96, 16: 128}
"""Of a thread, by the warps of a program. Left alone, ptxas prefers a few spills to a few registers more."""


def cross_entropy(
    logits: Tensor,
    labels: Tensor,
    margin: PerCategory | None = None,
    *,
    weight: PerCategory | None = None,
    label_margin: PerCategory | None = None,
    scale: float = 1.0,
    label_smoothing: float = 0.0,
    reduction: FusedReduction = "mean",
    normalizer: float | Tensor | None = None,
    ignore_index: int = IGNORE,
    with_gradient: bool = True,
) -> Pass:
    r"""`functional.cross_entropy` for a GPU, in two launches, or three if a sample does not fit into a tile.

    Vectors (C,) may be of any floating dtype. Shapes and dtypes are not checked here; values are, by `is_valid`.

    Args:
        logits: (N, C, ...).
        labels: (N, ...) class indices or `ignore_index`; or probabilities of the logits' shape.
        margin: m_j.
        weight: w_j, of a sample by its category.
        label_margin: d_j; a sample's own category has m_y - d_y in place of m_y. Class indices only.
        scale: s.
        label_smoothing: epsilon.
        reduction: "mean" or "sum".
        normalizer: what the loss is divided by, in place of either.
        ignore_index: label of samples that do not count.
        with_gradient: False computes the loss and the sums alone.
    """
    is_matrix = labels.shape == logits.shape
    if label_margin is not None and is_matrix:
        raise ValueError("label_margin needs class indices: it is that of the one category")
    layout = Layout(logits)
    dtype = torch.promote_types(logits.dtype, torch.float32)
    inputs = {
        **layout.entries("logits", logits),
        "labels": None if is_matrix else layout.samples(labels),
        **layout.entries("targets", labels if is_matrix else None),
        "num_categories": layout.num_classes,
        "num_positions": layout.num_positions,
        "ignore_index": ignore_index,
        "SCALE": scale,
        "SMOOTHING": label_smoothing,
        "IS_SOFT": is_matrix or label_smoothing > 0,
    }
    for name, value in (("margin", margin), ("weight", weight), ("label_margin", label_margin)):
        vector, factor = vector_and_factor(value, layout.num_classes)
        inputs[name], inputs[name.upper()] = vector, None if value is None else factor
    tiles, launches, rows = row_tiles(layout), [], None
    if tiles is None:
        tiles = column_tiles(layout)
        rows = logits.new_empty(layout.num_images * layout.num_positions, 4, dtype=dtype)
        block_samples, block_categories, num_programs = sample_blocks(layout)
        blocks = {"rows": rows, "BLOCK_S": block_samples, "BLOCK_C": block_categories}
        launches.append(Launch(rows_kernel, (num_programs,), {**inputs, **blocks}))
    partials = empty_partials(layout.num_classes, tiles, logits, dtype)
    gradient = layout.empty_gradient(logits) if with_gradient else None
    arguments = {
        **inputs,
        **layout.entries("gradient", gradient),
        "rows": rows,
        "sums": partials.sums,
        "totals": partials.totals,
        "num_images": layout.num_images,
        "tiles_per_program": tiles.tiles_per_program,
        "BLOCK_S": tiles.block_samples,
        "BLOCK_C": tiles.block_categories,
    }
    launches.append(Launch(softmax_kernel, tiles.grid, arguments, tiles.num_warps, MAX_REGISTERS[tiles.num_warps]))
    totals, result = add_up(partials, gradient, reduction, normalizer)
    return Pass([*launches, totals], result)


@triton.jit
def softmax_kernel(
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
    margin,
    weight,
    label_margin,
    rows,
    sums,
    totals,
    num_images,
    num_categories,
    num_positions,
    tiles_per_program,
    ignore_index,
    SCALE: tl.constexpr,
    MARGIN: tl.constexpr,
    WEIGHT: tl.constexpr,
    LABEL_MARGIN: tl.constexpr,
    SMOOTHING: tl.constexpr,
    IS_SOFT: tl.constexpr,
    BLOCK_S: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """The tiles of one program. `rows` is None if a tile holds whole samples, else what `rows_kernel` found."""
    dtype: tl.constexpr = sums.dtype.element_ty
    columns = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    is_column = columns < num_categories
    is_first = tl.program_id(1) == 0  # all programs along the categories see the same samples; this one counts them

    loss = tl.zeros([BLOCK_S], dtype)
    positive = tl.zeros([BLOCK_S, BLOCK_C], dtype)
    negative = tl.zeros([BLOCK_S, BLOCK_C], dtype)
    num_counted = tl.zeros([BLOCK_S], tl.int32)
    num_bad = tl.zeros([BLOCK_S], tl.int32)

    tiles_per_image = tl.cdiv(num_positions, BLOCK_S)
    first = tl.program_id(0) * tiles_per_program
    last = tl.minimum(first + tiles_per_program, num_images * tiles_per_image)
    for tile in range(first, last):
        n, positions = samples_of(tile, tiles_per_image, BLOCK_S)
        is_sample = positions < num_positions
        samples = n * num_positions + positions

        label = load_labels(labels, samples, is_sample, ignore_index)
        is_counted = is_sample & (label != ignore_index) if targets is None else is_sample
        if targets is None:
            is_bad = is_counted & ~((label >= 0) & (label < num_categories))
            num_bad += (is_bad & is_first).to(tl.int32)
            is_counted = is_counted & ~is_bad
        num_counted += (is_counted & is_first).to(tl.int32)
        own = (label[:, None] == columns[None, :]) & is_counted[:, None]
        inside = is_counted[:, None] & is_column[None, :]

        entries = offsets(n, positions, columns, logits_n, logits_c, logits_m)
        z = load_logits(
            logits + entries, inside, columns, is_column, own, margin, label_margin, SCALE, MARGIN, LABEL_MARGIN, dtype
        )
        if IS_SOFT:
            y = own.to(dtype)
            if targets is not None:
                entries = offsets(n, positions, columns, targets_n, targets_c, targets_m)
                y = tl.load(targets + entries, mask=inside, other=0).to(dtype)
                num_bad += tl.sum((~(y >= 0)).to(tl.int32), 1)
            t = smoothed(y, inside, columns, is_column, weight, num_categories, SMOOTHING, WEIGHT, dtype)

        peak = tl.max(z, 1) if rows is None else tl.load(rows + 4 * samples, mask=is_sample, other=0)
        away = z - peak[:, None]
        values = tl.exp(away)
        if rows is not None:
            total = tl.load(rows + 4 * samples + 1, mask=is_sample, other=1)
            share = tl.load(rows + 4 * samples + 2, mask=is_sample, other=0)
            extra = tl.load(rows + 4 * samples + 3, mask=is_sample, other=0)
        elif IS_SOFT:
            total, share, extra = tl.sum(values, 1), tl.sum(t, 1), tl.sum(y, 1)
        else:
            own_away = tl.sum(tl.where(own, away, 0), 1)
            total, share, extra = own_terms(own_away, tl.sum(tl.where(own, 0, values), 1))
        probs = values / total[:, None]
        if IS_SOFT:
            costs = t * (tl.log(total)[:, None] - away)
            loss += tl.sum(tl.where(t == 0, 0, costs), 1)
            pull = t * (1 - probs)
            push = probs * (share[:, None] - t)
            if targets is not None:
                num_bad += (is_sample & is_first & ~(tl.abs(extra - 1) <= SUM_TOLERANCE)).to(tl.int32)
        else:
            sample_weight = is_counted.to(dtype)
            if WEIGHT is not None:
                sample_weight *= by_category(weight, label, is_counted, WEIGHT, dtype)
            loss += tl.where(is_counted & is_first, sample_weight * extra, 0)
            pull = tl.where(own, (sample_weight * share)[:, None], 0)
            push = tl.where(own, 0, sample_weight[:, None] * probs)
        pull = tl.where(inside, pull * SCALE, 0)
        push = tl.where(inside, push * SCALE, 0)
        positive += pull
        negative += push
        if gradient is not None:
            entries = offsets(n, positions, columns, gradient_n, gradient_c, gradient_m)
            tl.store(gradient + entries, push - pull, mask=is_sample[:, None] & is_column[None, :])

    num_not_finite = store_sums(sums, positive, negative, columns, is_column, num_categories)
    store_totals(totals, tl.sum(loss, 0), tl.sum(num_counted, 0), tl.sum(num_bad, 0), num_not_finite)


@triton.jit
def rows_kernel(
    logits,
    logits_n,
    logits_c,
    logits_m,
    labels,
    targets,
    targets_n,
    targets_c,
    targets_m,
    margin,
    weight,
    label_margin,
    rows,
    num_categories,
    num_positions,
    ignore_index,
    SCALE: tl.constexpr,
    MARGIN: tl.constexpr,
    WEIGHT: tl.constexpr,
    LABEL_MARGIN: tl.constexpr,
    SMOOTHING: tl.constexpr,
    IS_SOFT: tl.constexpr,
    BLOCK_S: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """Four numbers of each sample: peak, total, and two of `own_terms`, or T and the sum of y if labels are soft."""
    dtype: tl.constexpr = rows.dtype.element_ty
    tiles_per_image = tl.maximum(tl.cdiv(num_positions, BLOCK_S), 1)
    tile = tl.program_id(0)
    n, positions = samples_of(tile, tiles_per_image, BLOCK_S)
    is_sample = positions < num_positions
    samples = n * num_positions + positions
    label = load_labels(labels, samples, is_sample, ignore_index)
    is_counted = is_sample & (label != ignore_index) if targets is None else is_sample

    peak = tl.full([BLOCK_S], float("-inf"), dtype)
    total = tl.zeros([BLOCK_S], dtype)
    share = tl.zeros([BLOCK_S], dtype)
    extra = tl.zeros([BLOCK_S], dtype)
    for start in range(0, num_categories, BLOCK_C):
        columns = start + tl.arange(0, BLOCK_C)
        is_column = columns < num_categories
        own = (label[:, None] == columns[None, :]) & is_counted[:, None]
        inside = is_counted[:, None] & is_column[None, :]
        entries = offsets(n, positions, columns, logits_n, logits_c, logits_m)
        z = load_logits(
            logits + entries, inside, columns, is_column, own, margin, label_margin, SCALE, MARGIN, LABEL_MARGIN, dtype
        )
        higher = tl.maximum(peak, tl.max(z, 1))
        shift = tl.where(higher == float("-inf"), 0, higher)  # all categories so far may be masked
        values = tl.exp(z - shift[:, None])
        total *= tl.exp(peak - shift)
        peak = higher
        if IS_SOFT:
            y = own.to(dtype)
            if targets is not None:
                entries = offsets(n, positions, columns, targets_n, targets_c, targets_m)
                y = tl.load(targets + entries, mask=inside, other=0).to(dtype)
            t = smoothed(y, inside, columns, is_column, weight, num_categories, SMOOTHING, WEIGHT, dtype)
            total += tl.sum(values, 1)
            share += tl.sum(t, 1)
            extra += tl.sum(y, 1)
        else:
            total += tl.sum(tl.where(own, 0, values), 1)  # of the others
            extra += tl.sum(tl.where(own, z, 0), 1)  # the own logit
    if not IS_SOFT:
        total, share, extra = own_terms(extra - peak, total)
    tl.store(rows + 4 * samples, peak, mask=is_sample)
    tl.store(rows + 4 * samples + 1, total, mask=is_sample)
    tl.store(rows + 4 * samples + 2, share, mask=is_sample)
    tl.store(rows + 4 * samples + 3, extra, mask=is_sample)


@triton.jit
def load_labels(labels, samples, is_sample, ignore_index):
    """Class indices of the samples; with soft labels all of them are `ignore_index`."""
    ignored = tl.zeros(samples.shape, tl.int64) + ignore_index
    return ignored if labels is None else tl.load(labels + samples, mask=is_sample, other=ignore_index)


@triton.jit
def load_logits(
    pointers,
    inside,
    columns,
    is_column,
    own,
    margin,
    label_margin,
    SCALE: tl.constexpr,
    MARGIN: tl.constexpr,
    LABEL_MARGIN: tl.constexpr,
    dtype: tl.constexpr,
):
    """s z + m of a tile, lowered at the own category; 0 in samples that do not count, whatever they hold."""
    z = tl.load(pointers, mask=inside, other=0).to(dtype) * SCALE
    if MARGIN is not None:
        z += by_category(margin, columns, is_column, MARGIN, dtype)[None, :]
    if LABEL_MARGIN is not None:
        z = tl.where(own, z - by_category(label_margin, columns, is_column, LABEL_MARGIN, dtype)[None, :], z)
    return tl.where(is_column[None, :], z, float("-inf"))


@triton.jit
def smoothed(
    y,
    inside,
    columns,
    is_column,
    weight,
    num_categories,
    SMOOTHING: tl.constexpr,
    WEIGHT: tl.constexpr,
    dtype: tl.constexpr,
):
    """t: targets with smoothing and weight; 0 in samples that do not count."""
    t = y * (1 - SMOOTHING) + tl.full([1], SMOOTHING, dtype) / num_categories
    if WEIGHT is not None:
        t *= by_category(weight, columns, is_column, WEIGHT, dtype)[None, :]
    return tl.where(inside, t, 0)


@triton.jit
def own_terms(own_away, others):
    """Of a sample with one category: total, 1 - p_y and -log p_y, from exp of the others; exact also for p_y near 1."""
    total = others + tl.exp(own_away)
    is_sure = others == 0
    lead = tl.log(tl.where(is_sure, 1, others)) - own_away  # -log p_y = softplus(lead)
    loss = tl.where(lead > 0, lead, 0) + log1p(tl.exp(-tl.abs(lead)))
    return total, others / total, tl.where(is_sure, 0, loss)
