r"""Formulas of the losses and their logit gradients in closed form; no state.

Every function returns the loss and the gradient sums an equalization loss accumulates. It passes over the logits once,
in blocks that stay in cache, and forms loss, gradient and column sums there. No one-hot matrix is built and nothing but
the gradient is kept for backward, so the gradient is the only logits-sized tensor that is ever allocated.
"""

import math
from functools import partial

import torch
from torch import Tensor

from equigrad.losses.compilation import outside_graphs
from equigrad.losses.density_ratio import sweep_density_ratio
from equigrad.losses.inputs import PerCategory, check_labels, check_logits, check_quality, divisor_of, is_multi_label
from equigrad.losses.sigmoid_pass import Weights, sweep_indices, sweep_targets
from equigrad.losses.softmax_pass import lower_own_logit_, seesaw_, sweep_softmax
from equigrad.losses.sweep import GradientSums, Sweep


@outside_graphs
def weighted_bce(
    logits: Tensor,
    labels: Tensor,
    positive_weight: PerCategory = 1.0,
    negative_weight: PerCategory = 1.0,
    *,
    foreground_weight: PerCategory | None = None,
    category_weights: PerCategory | None = None,
    margin: PerCategory | None = None,
    scale: float = 1.0,
    reduction: str = "mean",
    normalizer: float | Tensor | None = None,
) -> tuple[Tensor, GradientSums]:
    r"""Binary cross-entropy with a weight for the positive and one for the negative entries of each category.

    $$ L = \frac{1}{D} \sum_{i,j} (q_j y_i^j + r_j (1 - y_i^j)) \, BCE(p_i^j, y_i^j) $$

    Args:
        logits: (N, C, ...).
        labels: (N, ...) class indices, BACKGROUND or IGNORE; or 0/1 targets of the logits' shape.
        positive_weight: q_j.
        negative_weight: r_j.
        foreground_weight: times r_j, on the negative entries of samples that have a category.
        category_weights: of a sample with all its entries, by its category; see `BinaryCrossEntropyLoss`.
        margin: m_j, of p = sigmoid(s z + m).
        scale: s.
        reduction: D is the number of counted samples ("mean") or 1 ("sum").
        normalizer: D, in place of either.
    """
    weights = Weights(positive_weight, negative_weight, foreground_weight, category_weights)
    return _sigmoid_loss(logits, labels, None, None, weights, reduction, normalizer, margin, scale)


@outside_graphs
def weighted_focal(
    logits: Tensor,
    labels: Tensor,
    focus: PerCategory = 2.0,
    positive_weight: PerCategory = 1.0,
    negative_weight: PerCategory = 1.0,
    *,
    category_weights: PerCategory | None = None,
    reduction: str = "mean",
    normalizer: float | Tensor | None = None,
) -> tuple[Tensor, GradientSums]:
    r"""Focal loss with a focusing parameter and two weights for each category.

    $$ L = -\frac{1}{D} \sum_{i,j} (q_j y_i^j + r_j (1 - y_i^j)) (1 - p_t)^{\gamma_j} \log p_t $$

    Args:
        logits: (N, C, ...).
        labels: (N, ...) class indices, BACKGROUND or IGNORE; or 0/1 targets of the logits' shape.
        focus: gamma_j, a constant of the step.
        positive_weight: q_j.
        negative_weight: r_j.
        category_weights: of a sample with all its entries, by its category; see `BinaryCrossEntropyLoss`.
        reduction: D is the number of counted samples ("mean") or 1 ("sum").
        normalizer: D, in place of either.
    """
    weights = Weights(positive_weight, negative_weight, None, category_weights)
    return _sigmoid_loss(logits, labels, None, focus, weights, reduction, normalizer)


@outside_graphs
def weighted_quality_focal(
    logits: Tensor,
    labels: Tensor,
    quality: Tensor,
    focus: PerCategory = 2.0,
    weight: PerCategory = 1.0,
    *,
    reduction: str = "mean",
    normalizer: float | Tensor | None = None,
) -> tuple[Tensor, GradientSums]:
    r"""Quality focal loss with a focusing parameter and a weight for each category.

    $$ L = \frac{1}{D} \sum_{i,j} w_j \, |y' - p|^{\gamma_j} \, BCE(p, y') $$

    Args:
        logits: (N, C, ...).
        labels: (N, ...) class indices, BACKGROUND or IGNORE; or 0/1 targets of the logits' shape.
        quality: y' in [0, 1] of the positive entries, (N, ...), or of the logits' shape with multi-label targets.
            Other entries have y' = 0 whatever it says.
        focus: gamma_j, a constant of the step.
        weight: w_j.
        reduction: D is the number of counted samples ("mean") or 1 ("sum").
        normalizer: D, in place of either.
    """
    return _sigmoid_loss(logits, labels, quality, focus, Weights(weight, weight), reduction, normalizer)


@outside_graphs
def margin_cross_entropy(
    logits: Tensor,
    labels: Tensor,
    margin: PerCategory = 0.0,
    *,
    category_weights: PerCategory | None = None,
    label_margin: PerCategory | None = None,
    scale: float = 1.0,
    reduction: str = "mean",
    normalizer: float | Tensor | None = None,
) -> tuple[Tensor, GradientSums]:
    r"""Cross-entropy of logits with a margin added to each category.

    $$ L = -\frac{1}{D} \sum_i w_y \log \frac{e^{s z_i^y + m_y}}{\sum_k e^{s z_i^k + m_k}} $$

    Args:
        logits: (N, C, ...).
        labels: (N, ...) class indices or IGNORE.
        margin: m_j.
        category_weights: w_y, of a sample by its category; 1 if not given.
        label_margin: d_j; a sample's own category has m_y - d_y in place of m_y.
        scale: s.
        reduction: D is the number of counted samples ("mean") or 1 ("sum").
        normalizer: D, in place of either.
    """
    check_logits(logits, margin, category_weights, label_margin)
    check_labels(logits, labels, background=False, multi_label=False)
    sweep = Sweep(logits, divisor_of(logits, labels, reduction, normalizer), margin, scale)
    weights = None if category_weights is None else sweep.vector(category_weights).flatten()
    adjust = None if label_margin is None else partial(lower_own_logit_, label_margin=sweep.vector(label_margin))
    with torch.no_grad():
        sweep_softmax(sweep, sweep.flatten(labels), weights, adjust)
    return sweep.result()


@outside_graphs
def seesaw_cross_entropy(
    logits: Tensor,
    labels: Tensor,
    category_counts: Tensor,
    *,
    mitigation: float = 0.8,
    compensation: float = 2.0,
    prob_floor: float = 0.01,
    reduction: str = "mean",
    normalizer: float | Tensor | None = None,
) -> tuple[Tensor, GradientSums]:
    r"""Cross-entropy whose negative categories are scaled for each sample; the formula is that of `SeesawLoss`.

    Args:
        logits: (N, C, ...).
        labels: (N, ...) class indices or IGNORE.
        category_counts: (C,) samples seen of each category; less than one counts as one.
        mitigation: p.
        compensation: q.
        prob_floor: the least probability the label is taken to have in the compensation.
        reduction: D is the number of counted samples ("mean") or 1 ("sum").
        normalizer: D, in place of either.
    """
    check_logits(logits, category_counts)
    check_labels(logits, labels, background=False, multi_label=False)
    sweep = Sweep(logits, divisor_of(logits, labels, reduction, normalizer), margin=0.0)
    adjust = partial(
        seesaw_,
        log_counts=sweep.vector(category_counts).clamp(min=1).log(),
        mitigation=mitigation,
        compensation=compensation,
        log_floor=math.log(prob_floor),
    )
    with torch.no_grad():
        sweep_softmax(sweep, sweep.flatten(labels), None, adjust, temporaries=2)
    return sweep.result()


@outside_graphs
def lade_cross_entropy(
    logits: Tensor,
    labels: Tensor,
    category_prior: Tensor,
    *,
    weight: float = 0.1,
    penalty: float = 0.1,
    reduction: str = "mean",
    normalizer: float | Tensor | None = None,
) -> Tensor:
    r"""Cross-entropy with the log prior as margin, and LADE's regulariser; the formula is that of `LADELoss`.

    Args:
        logits: (N, C, ...).
        labels: (N, ...) class indices or IGNORE.
        category_prior: (C,) share of each category in the training set.
        weight: a.
        penalty: lambda.
        reduction: D is the number of counted samples ("mean") or 1 ("sum").
        normalizer: D, in place of either.
    """
    check_logits(logits, category_prior)
    check_labels(logits, labels, background=False, multi_label=False)
    margin = (category_prior + 1e-9).log()
    sweep = Sweep(logits, divisor_of(logits, labels, reduction, normalizer), margin)
    with torch.no_grad():
        flat_labels = sweep.flatten(labels)
        sweep_softmax(sweep, flat_labels)
        sweep_density_ratio(sweep, flat_labels, category_prior, weight, penalty)
    return sweep.result()[0]


def _sigmoid_loss(
    logits: Tensor,
    labels: Tensor,
    quality: Tensor | None,
    focus: PerCategory | None,
    weights: Weights,
    reduction: str,
    normalizer: float | Tensor | None,
    margin: PerCategory | None = None,
    scale: float = 1.0,
) -> tuple[Tensor, GradientSums]:
    check_logits(logits, focus, *weights, margin)
    check_labels(logits, labels, background=True, multi_label=True)
    sweep = Sweep(logits, divisor_of(logits, labels, reduction, normalizer), margin, scale)
    if quality is not None:
        check_quality(logits, labels, quality)
        quality = sweep.flatten(quality)
    sweep_labels = sweep_targets if is_multi_label(logits, labels) else sweep_indices
    with torch.no_grad():
        sweep_labels(
            sweep,
            sweep.flatten(labels),
            quality,
            None if focus is None else sweep.vector(focus),
            weights.vectors(sweep),
        )
    return sweep.result()
