r"""The losses without state, in the fused form that the modules use.

Every function returns the loss and the gradient sums an equalization loss accumulates. It passes over the logits once,
in blocks that stay in cache, and forms loss, gradient and column sums there. No one-hot matrix is built and nothing but
the gradient is kept for backward, so the gradient is the only logits-sized tensor that is ever allocated.

The same losses as a few lines of ordinary PyTorch each are in `reference`: read those first. Inside a function that you
compile, call them through `operators.as_operator`, as the modules do.
"""

import math
from functools import partial

import torch
from torch import Tensor

from equigrad.labels import IGNORE
from equigrad.losses.blockwise import BlockwisePass, GradientSums, closed_form
from equigrad.losses.compiled import rows
from equigrad.losses.density_ratio import add_density_ratio, sum_columns
from equigrad.losses.inputs import (
    FusedReduction,
    PerCategory,
    check_labels,
    check_logits,
    check_quality,
    divisor_of,
    label_message,
    refuse_soft_labels,
)
from equigrad.losses.kernel_choice import kernels_for
from equigrad.losses.sigmoid_pass import (
    POSITIVES_AT_ONCE,
    EntryWeights,
    Modulation,
    add_multi_label,
    add_negatives,
    add_positives,
)
from equigrad.losses.softmax_pass import add_cross_entropy, add_soft_cross_entropy, lower_own_logit_, seesaw_


def binary_cross_entropy(
    logits: Tensor,
    labels: Tensor,
    positive_weight: PerCategory = 1.0,
    negative_weight: PerCategory = 1.0,
    *,
    positive_balance: float | None = None,
    focus: PerCategory | None = None,
    quality: Tensor | None = None,
    soft_targets: bool = False,
    weigh_by_quality: bool = False,
    focus_positives: bool = True,
    constant_weight: bool = False,
    foreground_weight: PerCategory | None = None,
    weight: PerCategory | None = None,
    margin: PerCategory | None = None,
    scale: float = 1.0,
    reduction: FusedReduction = "mean",
    normalizer: float | Tensor | None = None,
    ignore_index: int = IGNORE,
    objectness: bool = False,
) -> tuple[Tensor, GradientSums]:
    r"""Binary cross-entropy, focal, quality focal or varifocal loss, with weights for each category.

    $$ L = \frac{1}{D} \sum_{i,j} (q_j y_i^j + r_j (1 - y_i^j)) \, |y' - p|^{\gamma_j} \, BCE(p, y') $$

    y' is the quality of a positive entry, 1 if there is none, and 0 for negative entries. Without a quality |y' - p| is
    1 - p_t and this is the focal loss; without a focus, gamma_j = 0, it is binary cross-entropy. With
    `weigh_by_quality` positive entries have y' in the place of |y' - p|^gamma: the varifocal loss.

    Args:
        logits: (N, C, ...).
        labels: (N, ...) class indices, BACKGROUND or `ignore_index`; or 0/1 targets of the logits' shape.
        positive_weight: q_j.
        negative_weight: r_j.
        positive_balance: alpha_t; q_j is multiplied by it, and r_j by 1 - alpha_t.
        focus: gamma_j, a constant of the step.
        quality: y' in [0, 1] of the positive entries, (N, ...), or of the logits' shape with multi-label targets.
        soft_targets: whether floating labels of the logits' shape, without a quality, are y' itself, in [0, 1]. An
            entry is positive, y = 1, where y' > 0.
        weigh_by_quality: positive entries weigh y', whatever their distance.
        focus_positives: False leaves positive entries without |y' - p|^gamma.
        constant_weight: |y' - p|^gamma is a constant of the step, and not differentiated.
        foreground_weight: times r_j, on the negative entries of samples that have a category.
        weight: weight of a sample with all its entries, by its category; see `BinaryCrossEntropyLoss`.
        margin: m_j, of p = sigmoid(s z + m).
        scale: s.
        reduction: D is the number of counted samples ("mean") or 1 ("sum").
        normalizer: D, in place of either.
        ignore_index: label of samples that do not count.
        objectness: the last of C + 1 columns is trained with plain binary cross-entropy, positive where a sample has a
            category, and is in no gradient sum. Triton kernels and class indices only.
    """
    categories = logits.narrow(1, 0, logits.shape[1] - 1) if objectness else logits
    check_logits(categories, positive_weight, negative_weight, focus, foreground_weight, weight, margin)
    is_soft = soft_targets and quality is None and isinstance(labels, Tensor) and labels.is_floating_point()
    by_sample = foreground_weight is not None or weight is not None
    kernels = kernels_for(logits.device)
    if kernels == "triton" and not (by_sample and labels.shape == logits.shape):
        from equigrad.losses import device_pass
        from equigrad.losses.kernels import sigmoid

        check_labels(
            categories, labels, background=True, multi_label=not objectness, ignore_index=ignore_index, values=False
        )
        if quality is not None:
            check_quality(categories, labels, quality, values=False)
        return device_pass.finish(
            logits,
            sigmoid.binary_cross_entropy(
                logits,
                labels,
                positive_weight,
                negative_weight,
                positive_balance=positive_balance,
                focus=focus,
                quality=quality,
                soft_targets=is_soft,
                weigh_by_quality=weigh_by_quality,
                focus_positives=focus_positives,
                constant_weight=constant_weight,
                foreground_weight=foreground_weight,
                weight=weight,
                margin=margin,
                scale=scale,
                objectness=objectness,
                reduction=reduction,
                normalizer=normalizer,
                ignore_index=ignore_index,
                with_gradient=torch.is_grad_enabled() and logits.requires_grad,
            ),
            is_divided=reduction == "mean" or normalizer is not None,
            message=label_message(categories.shape[1], background=True, ignore_index=ignore_index)
            + ", targets and qualities within [0, 1], and a normalizer finite and > 0",
        )
    if objectness:
        raise ValueError("objectness needs the Triton kernels: elsewhere use WithObjectness, or call twice")
    labels, lowest_label = check_labels(logits, labels, background=True, multi_label=True, ignore_index=ignore_index)
    is_multi_label = labels.shape == logits.shape
    if positive_balance is not None:
        positive_weight, negative_weight = positive_balance * positive_weight, (1 - positive_balance) * negative_weight
    divisor = divisor_of(logits, labels, reduction, normalizer, lowest_label=lowest_label)
    run = BlockwisePass(logits, divisor, margin, scale, kernels=kernels)
    weights = EntryWeights(
        run.vector(positive_weight),
        run.vector(negative_weight),
        None if foreground_weight is None else run.vector(foreground_weight).to(run.dtype),
        None if weight is None else run.vector(weight),
    )
    focus_vector = None if focus is None else run.vector(focus)
    modulation = Modulation(weigh_by_quality, constant_weight, not focus_positives)
    if quality is not None:
        check_quality(logits, labels, quality)
        quality = run.flatten(quality.detach())
    labels = run.flatten(labels)
    if is_multi_label:
        with torch.no_grad():  # nothing below requires gradients but labels that are numbers
            add_multi_label(run, run.blocks(8), labels, quality, focus_vector, weights, modulation, is_soft=is_soft)
    else:
        if not by_sample and rows.fits(run, maps=True):
            rows.add(run, "negatives", labels, weight=weights.negative, focus=focus_vector, is_constant=constant_weight)
        else:
            blocks = run.blocks(0 if focus is None else 2)
            add_negatives(run, blocks, labels, focus_vector, weights, lowest_label, modulation)
        blocks = run.blocks(num_samples=POSITIVES_AT_ONCE)
        add_positives(run, blocks, labels, quality, focus_vector, weights, lowest_label, modulation)
    return closed_form().apply(logits, run), run.gradient_sums()


def cross_entropy(
    logits: Tensor,
    labels: Tensor,
    margin: PerCategory = 0.0,
    *,
    weight: PerCategory | None = None,
    label_margin: PerCategory | None = None,
    scale: float = 1.0,
    label_smoothing: float = 0.0,
    reduction: FusedReduction = "mean",
    normalizer: float | Tensor | None = None,
    ignore_index: int = IGNORE,
) -> tuple[Tensor, GradientSums]:
    r"""Cross-entropy of logits with a margin added to each category.

    $$ L = -\frac{1}{D} \sum_{i,j} w_j \, y_i^j \log \frac{e^{s z_i^j + m_j}}{\sum_k e^{s z_i^k + m_k}} $$

    Args:
        logits: (N, C, ...).
        labels: (N, ...) class indices or `ignore_index`; or y, probabilities of the logits' shape.
        margin: m_j.
        weight: w_j, of a sample by its category; 1 if not given.
        label_margin: d_j; a sample's own category has m_y - d_y in place of m_y. Class indices only, smoothed or not.
        scale: s.
        label_smoothing: epsilon; y becomes (1 - epsilon) y + epsilon / C, as in `torch.nn.CrossEntropyLoss`.
        reduction: D is the number of counted samples ("mean") or 1 ("sum").
        normalizer: D, in place of either.
        ignore_index: label of samples that do not count.
    """
    check_logits(logits, margin, weight, label_margin)
    if label_margin is not None:
        refuse_soft_labels(logits, labels, "the margin is that of the one category of a sample")
    kernels = kernels_for(logits.device)
    if kernels == "triton":
        from equigrad.losses import device_pass
        from equigrad.losses.kernels import softmax

        check_labels(logits, labels, background=False, soft=True, ignore_index=ignore_index, values=False)
        return device_pass.finish(
            logits,
            softmax.cross_entropy(
                logits,
                labels,
                margin,
                weight=weight,
                label_margin=label_margin,
                scale=scale,
                label_smoothing=label_smoothing,
                reduction=reduction,
                normalizer=normalizer,
                ignore_index=ignore_index,
                with_gradient=torch.is_grad_enabled() and logits.requires_grad,
            ),
            is_divided=reduction == "mean" or normalizer is not None,
            message=label_message(logits.shape[1], background=False, ignore_index=ignore_index)
            + ", soft labels >= 0 with a sum of 1, and a normalizer finite and > 0",
        )
    labels, lowest_label = check_labels(logits, labels, background=False, soft=True, ignore_index=ignore_index)
    is_soft = label_smoothing > 0 or labels.shape == logits.shape
    divisor = divisor_of(logits, labels, reduction, normalizer, lowest_label=lowest_label)
    run = BlockwisePass(logits, divisor, margin, scale, kernels=kernels)
    weight = None if weight is None else run.vector(weight)
    labels = run.flatten(labels)
    label_margin = None if label_margin is None else run.vector(label_margin)
    adjust = None if label_margin is None else partial(lower_own_logit_, label_margin=label_margin)
    if is_soft:
        with torch.no_grad():
            add_soft_cross_entropy(run, run.blocks(6), labels, weight, label_smoothing, adjust)
    elif rows.fits(run):
        rows.add(run, "cross_entropy", labels, weight=weight, label_margin=label_margin)
    else:
        weight = None if weight is None else weight.flatten()
        add_cross_entropy(run, run.blocks(), labels, weight, adjust, lowest_label=lowest_label)
    return closed_form().apply(logits, run), run.gradient_sums()


def seesaw_cross_entropy(
    logits: Tensor,
    labels: Tensor,
    category_counts: Tensor,
    *,
    mitigation: float = 0.8,
    compensation: float = 2.0,
    prob_floor: float = 0.01,
    reduction: FusedReduction = "mean",
    normalizer: float | Tensor | None = None,
    ignore_index: int = IGNORE,
) -> tuple[Tensor, GradientSums]:
    r"""Cross-entropy whose negative categories are scaled for each sample; the formula is that of `SeesawLoss`.

    Args:
        logits: (N, C, ...).
        labels: (N, ...) class indices or `ignore_index`.
        category_counts: (C,) samples seen of each category; less than one counts as one.
        mitigation: p.
        compensation: q.
        prob_floor: the least probability the label is taken to have in the compensation.
        reduction: D is the number of counted samples ("mean") or 1 ("sum").
        normalizer: D, in place of either.
        ignore_index: label of samples that do not count.
    """
    check_logits(logits, category_counts)
    labels, lowest_label = check_labels(logits, labels, background=False, ignore_index=ignore_index)
    divisor = divisor_of(logits, labels, reduction, normalizer, lowest_label=lowest_label)
    run = BlockwisePass(logits, divisor, margin=0.0, kernels=kernels_for(logits.device))
    adjust = partial(
        seesaw_,
        log_counts=run.vector(category_counts).clamp(min=1).log(),
        mitigation=mitigation,
        compensation=compensation,
        log_floor=math.log(prob_floor),
    )
    with torch.no_grad():
        add_cross_entropy(run, run.blocks(2), run.flatten(labels), None, adjust, lowest_label=lowest_label)
    return closed_form().apply(logits, run), run.gradient_sums()


def lade_cross_entropy(
    logits: Tensor,
    labels: Tensor,
    category_prior: Tensor,
    *,
    weight: float = 0.1,
    penalty: float = 0.1,
    reduction: FusedReduction = "mean",
    normalizer: float | Tensor | None = None,
    ignore_index: int = IGNORE,
) -> tuple[Tensor, GradientSums]:
    r"""Cross-entropy with the log prior as margin, and LADE's regulariser; the formula is that of `LADELoss`.

    The gradient sums are those of the cross-entropy alone.

    Args:
        logits: (N, C, ...).
        labels: (N, ...) class indices or `ignore_index`.
        category_prior: (C,) share of each category in the training set.
        weight: a.
        penalty: lambda.
        reduction: D is the number of counted samples ("mean") or 1 ("sum").
        normalizer: D, in place of either.
        ignore_index: label of samples that do not count.
    """
    check_logits(logits, category_prior)
    refuse_soft_labels(logits, labels, "LADE's regulariser averages over the samples of each category")
    labels, lowest_label = check_labels(logits, labels, background=False, ignore_index=ignore_index)
    divisor = divisor_of(logits, labels, reduction, normalizer, lowest_label=lowest_label)
    margin = (category_prior + 1e-9).log()
    # The regulariser is steep where logits are large, and has the weight of all samples.
    run = BlockwisePass(logits, divisor, margin, kernels=kernels_for(logits.device), wide_gradient=True)
    labels = run.flatten(labels)
    with torch.no_grad():
        if rows.fits(run):
            rows.add(run, "cross_entropy", labels)
        else:
            add_cross_entropy(run, run.blocks(), labels, lowest_label=lowest_label)
        blocks = run.blocks(2)
        add_density_ratio(run, blocks, labels, sum_columns(run, blocks, labels), category_prior, weight, penalty)
    return closed_form().apply(logits, run), run.gradient_sums()
