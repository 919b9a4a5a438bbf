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

import torch
import torch.nn.functional as F
from torch import Tensor

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


def weighted_bce(
    logits: Tensor,
    labels: Tensor,
    positive_weight: PerCategory = 1.0,
    negative_weight: PerCategory = 1.0,
    *,
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
        reduction: D is the number of counted samples ("mean") or 1 ("sum").
        normalizer: D, in place of either.
    """
    return _sigmoid_loss(logits, labels, None, None, positive_weight, negative_weight, reduction, normalizer)


def weighted_focal(
    logits: Tensor,
    labels: Tensor,
    focus: PerCategory = 2.0,
    positive_weight: PerCategory = 1.0,
    negative_weight: PerCategory = 1.0,
    *,
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
        reduction: D is the number of counted samples ("mean") or 1 ("sum").
        normalizer: D, in place of either.
    """
    return _sigmoid_loss(logits, labels, None, focus, positive_weight, negative_weight, reduction, normalizer)


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
    return _sigmoid_loss(logits, labels, quality, focus, weight, weight, reduction, normalizer)


def margin_cross_entropy(
    logits: Tensor,
    labels: Tensor,
    margin: PerCategory = 0.0,
    *,
    reduction: str = "mean",
    normalizer: float | Tensor | None = None,
) -> tuple[Tensor, GradientSums]:
    r"""Cross-entropy of logits with a margin added to each category.

    $$ L = -\frac{1}{D} \sum_i \log \frac{e^{z_i^y + m_y}}{\sum_k e^{z_i^k + m_k}} $$

    Args:
        logits: (N, C, ...).
        labels: (N, ...) class indices or IGNORE.
        margin: m_j.
        reduction: D is the number of counted samples ("mean") or 1 ("sum").
        normalizer: D, in place of either.
    """
    check_logits(logits, margin)
    check_labels(logits, labels, background=False, multi_label=False)
    sweep = Sweep(logits, divisor_of(logits, labels, reduction, normalizer))
    with torch.no_grad():
        _sweep_softmax(sweep, sweep.flatten(labels), sweep.vector(margin))
    return sweep.result()


def _sweep_softmax(sweep: Sweep, labels: Tensor, margin: Tensor) -> None:
    margin = margin.to(sweep.dtype)
    for block in sweep.blocks(temporaries=0):
        label = labels[block].unsqueeze(1)
        counted, index = label != IGNORE, label.clamp(min=0)
        work = torch.add(sweep.read(block), margin, out=sweep.workspace(block))
        peak = work.amax(1, keepdim=True)
        own_logit = work.gather(1, index) - peak
        probs = work.sub_(peak).exp_()
        total = probs.sum(1, keepdim=True)
        own_log_prob = torch.where(counted, own_logit.double() - total.double().log(), 0.0)
        own_gradient = own_log_prob.expm1()  # p_y - 1
        sweep.loss -= own_log_prob.sum()
        sweep.add_positive(index, own_gradient.neg())

        gradient = probs.mul_(1 / (total * sweep.stored_divisor).to(total.dtype))
        gradient.scatter_(1, index, 0.0)
        _drop_ignored(counted, gradient)
        sweep.negative += sweep.sum_samples(gradient) * sweep.stored_divisor
        gradient.scatter_(1, index, (own_gradient / sweep.stored_divisor).to(gradient.dtype))
        sweep.store(block, gradient)


def _sigmoid_loss(
    logits: Tensor,
    labels: Tensor,
    quality: Tensor | None,
    focus: PerCategory | None,
    positive_weight: PerCategory,
    negative_weight: PerCategory,
    reduction: str,
    normalizer: float | Tensor | None,
) -> tuple[Tensor, GradientSums]:
    check_logits(logits, focus, positive_weight, negative_weight)
    check_labels(logits, labels, background=True, multi_label=True)
    sweep = Sweep(logits, divisor_of(logits, labels, reduction, normalizer))
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
            sweep.vector(positive_weight),
            sweep.vector(negative_weight),
        )
    return sweep.result()


def _sweep_indices(
    sweep: Sweep,
    labels: Tensor,
    quality: Tensor | None,
    focus: Tensor | None,
    positive_weight: Tensor,
    negative_weight: Tensor,
) -> None:
    """Treat every entry as a negative, then put right the at most one positive of each sample."""
    block_focus = None if focus is None else focus.to(sweep.dtype)
    for block in sweep.blocks(temporaries=1 if focus is None else 2):
        label = labels[block].unsqueeze(1)
        has_category, index = label >= 0, label.clamp(min=0)
        logits = sweep.read(block)

        # One entry a sample: float64 costs nothing here and keeps 1 - p exact.
        own_logit = logits.gather(1, index).double()
        own_focus = None if focus is None else focus.flatten()[index]
        own_quality = None if quality is None else quality[block].unsqueeze(1).double()
        own_loss, own_gradient = _positive_entry(own_logit, own_focus, own_quality)
        own_weight = torch.where(has_category, positive_weight.flatten()[index], 0.0)
        own_gradient *= own_weight
        sweep.loss += (own_loss * own_weight).sum()
        sweep.add_positive(index, own_gradient.abs())

        loss, slope = _negative_entry(logits, block_focus, sweep.workspace(block))
        for values in (loss, slope):
            overwrite(values, index, has_category, 0.0)
            _drop_ignored(label != IGNORE, values)
        sweep.loss += (sweep.sum_samples(loss) * negative_weight.flatten()).sum()
        sweep.negative += sweep.sum_samples(slope) * negative_weight.flatten()
        weight = (negative_weight / sweep.stored_divisor).to(sweep.dtype)
        gradient = torch.mul(slope, weight, out=loss)  # the loss is summed, its room is free
        overwrite(gradient, index, has_category, own_gradient / sweep.stored_divisor)
        sweep.store(block, gradient)


def _sweep_targets(
    sweep: Sweep,
    targets: Tensor,
    quality: Tensor | None,
    focus: Tensor | None,
    positive_weight: Tensor,
    negative_weight: Tensor,
) -> None:
    """Multi-label: any number of positives in a sample."""
    focus = None if focus is None else focus.to(sweep.dtype)
    positive_weight, negative_weight = positive_weight.to(sweep.dtype), negative_weight.to(sweep.dtype)
    for block in sweep.blocks(temporaries=8):
        target = entries(targets, block)
        check_values((target == 0) | (target == 1), target, "multi-label targets must be 0 or 1")
        is_positive = target.bool()
        logits = sweep.read(block)
        loss, gradient = _negative_entry(logits, focus)
        own_quality = None if quality is None else _quality_of(quality, block, logits)
        own_loss, own_gradient = _positive_entry(logits, focus, own_quality)
        weight = torch.where(is_positive, positive_weight, negative_weight)
        sweep.loss += torch.where(is_positive, own_loss, loss).mul_(weight).sum(dtype=torch.float64)
        gradient = torch.where(is_positive, own_gradient, gradient).mul_(weight)
        magnitude = gradient.abs()
        sweep.positive += sweep.sum_samples(magnitude * is_positive)
        sweep.negative += sweep.sum_samples(magnitude * ~is_positive)
        sweep.store(block, gradient / sweep.stored_divisor.to(sweep.dtype))


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
