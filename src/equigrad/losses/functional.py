r"""Formulas of the losses and their logit gradients in closed form; no state.

Every function returns the loss and the gradient sums an equalization loss accumulates. It passes over the logits once,
in blocks that stay in cache, and forms loss, gradient and column sums there. No one-hot matrix is built and nothing but
the gradient is kept for backward, so the gradient is the only logits-sized tensor that is ever allocated.

All sigmoid losses are one formula. With s = z for a negative entry and s = -z for a positive one, 1 - p_t = \sigma(s):

$$ \ell(s) = \sigma(s)^\gamma \, \mathrm{softplus}(s) $$
$$ \ell'(s) = \sigma(s)^\gamma \, (\sigma(s) + \gamma (1 - \sigma(s)) \, \mathrm{softplus}(s)) $$

is the focal loss and its slope; \gamma = 0 is binary cross-entropy.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from equigrad.losses.compilation import outside_graphs
from equigrad.losses.density_ratio import sweep_density_ratio
from equigrad.losses.inputs import (
    IGNORE,
    PerCategory,
    check_labels,
    check_logits,
    check_quality,
    check_values,
    divisor_of,
    is_multi_label,
)
from equigrad.losses.sweep import Block, GradientSums, Sweep, entries, overwrite


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
    weights = _Weights(positive_weight, negative_weight, foreground_weight, category_weights)
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
    weights = _Weights(positive_weight, negative_weight, None, category_weights)
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
    return _sigmoid_loss(logits, labels, quality, focus, _Weights(weight, weight), reduction, normalizer)


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
    adjust = None if label_margin is None else partial(_lower_own_logit_, label_margin=sweep.vector(label_margin))
    with torch.no_grad():
        _sweep_softmax(sweep, sweep.flatten(labels), weights, adjust)
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
        _seesaw_,
        log_counts=sweep.vector(category_counts).clamp(min=1).log(),
        mitigation=mitigation,
        compensation=compensation,
        log_floor=math.log(prob_floor),
    )
    with torch.no_grad():
        _sweep_softmax(sweep, sweep.flatten(labels), None, adjust, temporaries=2)
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
        _sweep_softmax(sweep, flat_labels)
        sweep_density_ratio(sweep, flat_labels, category_prior, weight, penalty)
    return sweep.result()[0]


Adjust = Callable[[Tensor, Tensor], None]
"""Changes the logits of a block in place, given the label of each sample as an index."""


def _lower_own_logit_(logits: Tensor, index: Tensor, *, label_margin: Tensor) -> None:
    logits.scatter_add_(1, index, -label_margin.flatten()[index].to(logits.dtype))


def _seesaw_(
    logits: Tensor, index: Tensor, *, log_counts: Tensor, mitigation: float, compensation: float, log_floor: float
) -> None:
    """Add log M + log S to every category; both are 0 for the label itself."""
    log_probs = logits.sub_(logits.logsumexp(1, keepdim=True))
    own_log_prob = log_probs.gather(1, index).clamp_(min=log_floor)
    lead = (log_probs - own_log_prob).clamp_(min=0)
    log_probs.add_(lead, alpha=compensation)
    own_log_count = log_counts.flatten()[index]
    rarity = torch.sub(log_counts.to(lead.dtype), own_log_count.to(lead.dtype), out=lead).clamp_(max=0)
    log_probs.add_(rarity, alpha=mitigation)


def _sweep_softmax(
    sweep: Sweep,
    labels: Tensor,
    category_weights: Tensor | None = None,
    adjust: Adjust | None = None,
    temporaries: int = 0,
) -> None:
    for block in sweep.blocks(temporaries):
        label = labels[block].unsqueeze(1)
        counted, index = label != IGNORE, label.clamp(min=0)
        work = sweep.read_shifted(block, out=sweep.workspace(block))
        if adjust is not None:
            adjust(work, index)
        peak = work.amax(1, keepdim=True)
        own_logit = work.gather(1, index) - peak
        probs = work.sub_(peak).exp_()
        total = probs.sum(1, keepdim=True)
        own_log_prob = torch.where(counted, own_logit.double() - total.double().log(), 0.0)
        own_gradient = own_log_prob.expm1()  # p_y - 1
        factor = 1 / (total * sweep.stored_divisor)
        if category_weights is not None:
            own_weight = category_weights[index]
            own_log_prob *= own_weight
            own_gradient *= own_weight
            factor = factor * own_weight
        sweep.loss -= own_log_prob.sum()
        sweep.add_positive(index, own_gradient.neg())

        gradient = probs.mul_(factor.to(probs.dtype))
        gradient.scatter_(1, index, 0.0)
        _drop_ignored(counted, gradient)
        sweep.negative += sweep.sum_samples(gradient) * sweep.stored_divisor
        gradient.scatter_(1, index, (own_gradient / sweep.stored_divisor).to(gradient.dtype))
        sweep.store(block, gradient)


class _Weights(NamedTuple):
    """How much an entry counts: q_j or r_j, and what depends on its sample."""

    positive: PerCategory
    negative: PerCategory
    foreground: PerCategory | None = None  # times r_j where the sample has a category
    sample: PerCategory | None = None  # of all entries of a sample, by its category

    def vectors(self, sweep: Sweep) -> "_BlockWeights":
        foreground = None if self.foreground is None else sweep.vector(self.foreground).to(sweep.dtype)
        sample = None if self.sample is None else sweep.vector(self.sample)
        return _BlockWeights(sweep.vector(self.positive), sweep.vector(self.negative), foreground, sample)


class _BlockWeights(NamedTuple):
    """The same in a shape that broadcasts against a block."""

    positive: Tensor
    negative: Tensor
    foreground: Tensor | None
    sample: Tensor | None

    def of_negatives(self, has_category: Tensor, own: Tensor | None) -> Tensor | None:
        """What the negative entries of each sample are weighted by besides r_j; None where they are not.

        Args:
            has_category: whether a sample is no background, (R, 1, ...).
            own: weight of the sample by its category, (R, 1, ...).
        """
        factor = self.foreground
        if own is not None:
            factor = own if factor is None else factor * own
        return None if factor is None else torch.where(has_category, factor, 1.0)


def _sigmoid_loss(
    logits: Tensor,
    labels: Tensor,
    quality: Tensor | None,
    focus: PerCategory | None,
    weights: _Weights,
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
    sweep_labels = _sweep_targets if is_multi_label(logits, labels) else _sweep_indices
    with torch.no_grad():
        sweep_labels(
            sweep,
            sweep.flatten(labels),
            quality,
            None if focus is None else sweep.vector(focus),
            weights.vectors(sweep),
        )
    return sweep.result()


def _sweep_indices(
    sweep: Sweep,
    labels: Tensor,
    quality: Tensor | None,
    focus: Tensor | None,
    weights: _BlockWeights,
) -> None:
    """Treat every entry as a negative, then put right the at most one positive of each sample."""
    block_focus = None if focus is None else focus.to(sweep.dtype)
    for block in sweep.blocks(temporaries=1 if focus is None else 2):
        label = labels[block].unsqueeze(1)
        has_category, index = label >= 0, label.clamp(min=0)
        logits = sweep.read_shifted(block)

        # One entry a sample: float64 costs nothing here and keeps 1 - p exact.
        own_logit = torch.where(has_category, logits.gather(1, index), 0.0).double()
        own_focus = None if focus is None else focus.flatten()[index]
        own_quality = None if quality is None else quality[block].unsqueeze(1).double()
        own_loss, own_gradient = _positive_entry(own_logit, own_focus, own_quality)
        own_weight = torch.where(has_category, weights.positive.flatten()[index], 0.0)
        sample_weight = None if weights.sample is None else weights.sample.flatten()[index]
        if sample_weight is not None:
            own_weight *= sample_weight
        own_gradient *= own_weight
        sweep.loss += (own_loss * own_weight).sum()
        sweep.add_positive(index, own_gradient.abs())

        loss, slope = _negative_entry(logits, block_focus, sweep.workspace(block))
        factor = weights.of_negatives(has_category, sample_weight)
        for values in (loss, slope):
            overwrite(values, index, has_category, 0.0)
            _drop_ignored(label != IGNORE, values)
            if factor is not None:
                values.mul_(factor.to(values.dtype))
        sweep.loss += (sweep.sum_samples(loss) * weights.negative.flatten()).sum()
        sweep.negative += sweep.sum_samples(slope) * weights.negative.flatten()
        weight = (weights.negative / sweep.stored_divisor).to(sweep.dtype)
        gradient = torch.mul(slope, weight, out=loss)  # the loss is summed, its room is free
        overwrite(gradient, index, has_category, own_gradient / sweep.stored_divisor)
        sweep.store(block, gradient)


def _sweep_targets(
    sweep: Sweep,
    targets: Tensor,
    quality: Tensor | None,
    focus: Tensor | None,
    weights: _BlockWeights,
) -> None:
    """Multi-label: any number of positives in a sample."""
    focus = None if focus is None else focus.to(sweep.dtype)
    for block in sweep.blocks(temporaries=8):
        target = entries(targets, block)
        check_values((target == 0) | (target == 1), target, "multi-label targets must be 0 or 1")
        is_positive = target.bool()
        logits = sweep.read_shifted(block)
        loss, gradient = _negative_entry(logits, focus)
        own_quality = None if quality is None else _quality_of(quality, block, logits)
        own_loss, own_gradient = _positive_entry(logits, focus, own_quality)
        weight = _target_weights(weights, is_positive).to(sweep.dtype)
        sweep.loss += torch.where(is_positive, own_loss, loss).mul_(weight).sum(dtype=torch.float64)
        gradient = torch.where(is_positive, own_gradient, gradient).mul_(weight)
        magnitude = gradient.abs()
        sweep.positive += sweep.sum_samples(magnitude * is_positive)
        sweep.negative += sweep.sum_samples(magnitude * ~is_positive)
        sweep.store(block, gradient / sweep.stored_divisor.to(sweep.dtype))


def _target_weights(weights: _BlockWeights, is_positive: Tensor) -> Tensor:
    """Weight of each entry of a multi-label block; a sample counts as the mean of its categories."""
    positive, negative = weights.positive, weights.negative
    num_positive = is_positive.sum(1, keepdim=True)
    sample_weight = None
    if weights.sample is not None:
        sample_weight = (is_positive * weights.sample).sum(1, keepdim=True) / num_positive.clamp(min=1)
        positive = positive * sample_weight
    factor = weights.of_negatives(num_positive > 0, sample_weight)
    return torch.where(is_positive, positive, negative if factor is None else negative * factor)


def _quality_of(quality: Tensor, block: Block, logits: Tensor) -> Tensor:
    """Quality of a block's entries: one for each, or one for all entries of a sample."""
    values = entries(quality, block) if quality.dim() == logits.dim() else quality[block].unsqueeze(1)
    return values.to(logits.dtype)


def _drop_ignored(counted: Tensor, values: Tensor) -> None:
    # Asking first saves a pass on the CPU; on a GPU the answer would cost a synchronisation.
    if counted.device.type != "cpu" or not bool(counted.all()):
        values.masked_fill_(~counted, 0.0)


def _negative_entry(logits: Tensor, focus: Tensor | None, out: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Loss and slope in s of entries that err by s: l(s), in `out` if given, and l'(s) of the module's docstring."""
    cost = torch.empty_like(logits) if out is None else out
    # Not the default threshold 20: it would cost float64 half its digits. exp(40) is far from overflow in float32.
    torch.ops.aten.softplus.out(logits, 1, 40, out=cost)
    if focus is None:
        return cost, logits.sigmoid()
    log_prob = logits - cost
    modulation = _exp_above_denormals_(log_prob * focus)
    prob = log_prob.exp_()
    loss = cost.mul_(modulation)
    pull = loss * focus  # what the modulation adds to the slope, times 1 - prob
    return loss, torch.addcmul(pull, prob, modulation.sub_(pull), out=modulation)


def _exp_above_denormals_(exponent: Tensor) -> Tensor:
    """exp in place, from below held at the root of the smallest number (1e-19 in float32).

    A factor that small is as good as none, but denormal numbers in it or its products make a CPU ten times slower.
    """
    return exponent.clamp_(min=0.5 * math.log(torch.finfo(exponent.dtype).tiny)).exp_()


def _positive_entry(logits: Tensor, focus: Tensor | None, quality: Tensor | None) -> tuple[Tensor, Tensor]:
    """Loss and gradient of an entry whose category is the label."""
    if quality is None:
        loss, slope = _negative_entry(-logits, focus)
        return loss, slope.neg_()
    assert focus is not None  # every quality focal loss is modulated
    prob = logits.sigmoid()
    error = prob - quality
    distance = error.abs()
    cost = F.softplus(logits, threshold=40) - quality * logits
    modulation = distance**focus
    # At distance 0 the slope of the modulation is 0 for focus > 1, and so is our choice below that.
    slope = torch.where(distance > 0, focus * distance ** (focus - 1), 0.0) * error.sign() * prob * (1 - prob)
    return modulation * cost, slope * cost + modulation * error
