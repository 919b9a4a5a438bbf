r"""Binary cross-entropies: the pass over the logits that forms loss, gradient and gradient sums.

With s = z for a negative entry and s = -z for a positive one, 1 - p_t = \sigma(s), and

$$ \ell(s) = \sigma(s)^\gamma \, \mathrm{softplus}(s) $$
$$ \ell'(s) = \sigma(s)^\gamma \, (\sigma(s) + \gamma (1 - \sigma(s)) \, \mathrm{softplus}(s)) $$

is the focal loss and its slope; \gamma = 0 is binary cross-entropy.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from equigrad.losses.inputs import PerCategory, check_values
from equigrad.losses.sweep import Block, BlockLabels, Sweep, entries

POSITIVES_AT_ONCE = 2**13
"""Labelled entries whose arithmetic, some ten float64 numbers each, is held at a time."""


class Weights(NamedTuple):
    """How much an entry counts: q_j or r_j, and what depends on its sample."""

    positive: PerCategory
    negative: PerCategory
    foreground: PerCategory | None = None  # times r_j where the sample has a category
    sample: PerCategory | None = None  # of all entries of a sample, by its category

    def vectors(self, sweep: Sweep) -> "BlockWeights":
        """The same as vectors of a sweep."""
        foreground = None if self.foreground is None else sweep.vector(self.foreground).to(sweep.dtype)
        sample = None if self.sample is None else sweep.vector(self.sample)
        return BlockWeights(sweep.vector(self.positive), sweep.vector(self.negative), foreground, sample)


class BlockWeights(NamedTuple):
    """The same in a shape that broadcasts against a block."""

    positive: Tensor
    negative: Tensor
    foreground: Tensor | None
    sample: Tensor | None

    def of_negatives(self, label: BlockLabels) -> Tensor | None:
        """What the negative entries of each sample are weighted by besides r_j; None where they are not."""
        own = None if self.sample is None else self.sample.flatten()[label.index]
        return self.beside(label.has_category, own)

    def beside(self, has_category: Tensor, own: Tensor | None) -> Tensor | None:
        """The same, of samples that are background or not and have a weight by their category, (R, 1, ...) each."""
        factor = self.foreground
        if own is not None:
            factor = own if factor is None else factor * own
        return None if factor is None else torch.where(has_category, factor, 1.0)


def sweep_indices(
    sweep: Sweep,
    labels: Tensor,
    quality: Tensor | None,
    focus: Tensor | None,
    weights: BlockWeights,
) -> None:
    """Treat every entry as a negative, then put right the at most one positive of each sample."""
    _sweep_negatives(sweep, labels, focus, weights)
    _sweep_positives(sweep, labels, quality, focus, weights)


def _sweep_negatives(sweep: Sweep, labels: Tensor, focus: Tensor | None, weights: BlockWeights) -> None:
    focus = None if focus is None else focus.to(sweep.dtype)
    block_weight = (weights.negative / sweep.stored_divisor).to(sweep.dtype)
    loss_sums, slope_sums = torch.zeros_like(sweep.negative), torch.zeros_like(sweep.negative)
    num_scratch = 0 if focus is None else 2
    for block in sweep.blocks(temporaries=num_scratch):
        label = BlockLabels(labels[block])
        logits = sweep.read_shifted(block)
        work, scratch = sweep.workspace(block), sweep.scratch(block, num_scratch)
        factor = weights.of_negatives(label)
        factor = None if factor is None else factor.to(sweep.dtype)
        loss = _negative_loss(logits, focus, work, scratch)
        label.clear(loss)
        loss_sums += sweep.sum_samples(loss if factor is None else loss * factor)  # the slope needs the loss as it is
        slope = _negative_slope(logits, focus, loss, scratch)
        label.clear(slope)
        if factor is not None:
            slope.mul_(factor)
        slope_sums += sweep.sum_samples(slope)
        sweep.store(block, torch.mul(slope, block_weight, out=work))
    weight = weights.negative.flatten()
    sweep.loss += loss_sums.dot(weight)
    sweep.negative += slope_sums * weight


def _sweep_positives(
    sweep: Sweep, labels: Tensor, quality: Tensor | None, focus: Tensor | None, weights: BlockWeights
) -> None:
    # One entry a sample: float64 costs nothing here and keeps 1 - p exact; many at a time, since each operation has
    # its price whatever its size.
    margin = None if sweep.margin is None else sweep.margin.flatten()
    for block in sweep.cut(POSITIVES_AT_ONCE):
        label = BlockLabels(labels[block])
        logit = entries(sweep.flat, block).gather(1, label.index)
        if margin is not None:
            logit = sweep.scale * logit + margin[label.index]
        own_focus = None if focus is None else focus.flatten()[label.index]
        own_quality = None if quality is None else quality[block].unsqueeze(1).double()
        loss, gradient = _positive_entry(label.of_own(logit.double()), own_focus, own_quality)
        weight = label.of_own(weights.positive.flatten()[label.index])
        if weights.sample is not None:
            weight = weight * weights.sample.flatten()[label.index]
        gradient *= weight
        sweep.loss += loss.mul_(weight).sum()
        sweep.add_positive(label.index, gradient.abs())
        if sweep.gradient is not None:
            label.put(entries(sweep.gradient, block), gradient / sweep.stored_divisor)


def sweep_targets(
    sweep: Sweep,
    targets: Tensor,
    quality: Tensor | None,
    focus: Tensor | None,
    weights: BlockWeights,
) -> None:
    """Multi-label: any number of positives in a sample."""
    focus = None if focus is None else focus.to(sweep.dtype)
    for block in sweep.blocks(temporaries=8):
        target = entries(targets, block)
        check_values((target == 0) | (target == 1), target, "multi-label targets must be 0 or 1")
        is_positive = target.bool()
        logits = sweep.read_shifted(block)
        loss, gradient = _loss_and_slope(logits, focus)
        own_quality = None if quality is None else _quality_of(quality, block, logits)
        own_loss, own_gradient = _positive_entry(logits, focus, own_quality)
        weight = _target_weights(weights, is_positive).to(sweep.dtype)
        sweep.loss += torch.where(is_positive, own_loss, loss).mul_(weight).sum(dtype=torch.float64)
        gradient = torch.where(is_positive, own_gradient, gradient).mul_(weight)
        magnitude = gradient.abs()
        sweep.positive += sweep.sum_samples(magnitude * is_positive)
        sweep.negative += sweep.sum_samples(magnitude * ~is_positive)
        sweep.store(block, gradient / sweep.stored_divisor.to(sweep.dtype))


def _target_weights(weights: BlockWeights, is_positive: Tensor) -> Tensor:
    """Weight of each entry of a multi-label block; a sample counts as the mean of its categories."""
    positive, negative = weights.positive, weights.negative
    num_positive = is_positive.sum(1, keepdim=True)
    sample_weight = None
    if weights.sample is not None:
        sample_weight = (is_positive * weights.sample).sum(1, keepdim=True) / num_positive.clamp(min=1)
        positive = positive * sample_weight
    factor = weights.beside(num_positive > 0, sample_weight)
    return torch.where(is_positive, positive, negative if factor is None else negative * factor)


def _quality_of(quality: Tensor, block: Block, logits: Tensor) -> Tensor:
    """Quality of a block's entries: one for each, or one for all entries of a sample."""
    values = entries(quality, block) if quality.dim() == logits.dim() else quality[block].unsqueeze(1)
    return values.to(logits.dtype)


def _loss_and_slope(logits: Tensor, focus: Tensor | None) -> tuple[Tensor, Tensor]:
    """l(s) and l'(s) at once, for where memory does not matter."""
    scratch = [torch.empty_like(logits) for _ in range(0 if focus is None else 2)]
    loss = _negative_loss(logits, focus, torch.empty_like(logits), scratch)
    return loss, _negative_slope(logits, focus, loss.clone(), scratch)


def _negative_loss(logits: Tensor, focus: Tensor | None, out: Tensor, scratch: list[Tensor]) -> Tensor:
    """l(s), in `out`, of entries that err by s."""
    cost = _softplus(logits, out)
    if focus is None:
        return cost
    log_prob, modulation = scratch
    torch.sub(logits, cost, out=log_prob)
    torch.mul(log_prob, focus, out=modulation)
    return cost.mul_(_exp_above_denormals_(modulation))


def _negative_slope(logits: Tensor, focus: Tensor | None, loss: Tensor, scratch: list[Tensor]) -> Tensor:
    """l'(s), after `_negative_loss` left its loss and scratch; takes the room of either."""
    if focus is None:
        return torch.sigmoid(logits, out=loss)
    log_prob, modulation = scratch
    prob = log_prob.exp_()
    slope = modulation.mul_(prob)
    return slope.addcmul_(loss, torch.sub(1, prob, out=prob).mul_(focus))


def _softplus(logits: Tensor, out: Tensor) -> Tensor:
    """log(1 + exp(z)). Beyond 40 it is z in float64 too, and exp(40) is far from overflow in float32."""
    cost = torch.clamp(logits, max=40, out=out).exp_().log1p_()
    return torch.maximum(cost, logits, out=cost)


def _exp_above_denormals_(exponent: Tensor) -> Tensor:
    """exp in place, from below held at the root of the smallest number (1e-19 in float32).

    A factor that small is as good as none, but denormal numbers in it or its products make a CPU ten times slower.
    """
    return exponent.clamp_(min=0.5 * math.log(torch.finfo(exponent.dtype).tiny)).exp_()


def _positive_entry(logits: Tensor, focus: Tensor | None, quality: Tensor | None) -> tuple[Tensor, Tensor]:
    """Loss and gradient of an entry whose category is the label."""
    if quality is None:
        loss, slope = _loss_and_slope(-logits, focus)
        return loss, slope.neg_()
    assert focus is not None  # every quality focal loss is modulated
    prob = logits.sigmoid()
    error = prob - quality
    distance = error.abs()
    cost = _softplus(logits, torch.empty_like(logits)) - quality * logits
    modulation = distance**focus
    # At distance 0 the slope of the modulation is 0 for focus > 1, and so is our choice below that.
    slope = torch.where(distance > 0, focus * distance ** (focus - 1), 0.0) * error.sign() * prob * (1 - prob)
    return modulation * cost, slope * cost + modulation * error
