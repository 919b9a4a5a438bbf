r"""Arithmetic of the binary cross-entropies.

With s = z for a negative entry and s = -z for a positive one, 1 - p_t = \sigma(s), and

$$ \ell(s) = \sigma(s)^\gamma \, \mathrm{softplus}(s) $$
$$ \ell'(s) = \sigma(s)^\gamma \, (\sigma(s) + \gamma (1 - \sigma(s)) \, \mathrm{softplus}(s)) $$

is the focal loss and its slope; \gamma = 0 is binary cross-entropy.

Class indices: every entry is treated as a negative first, then the at most one positive of each sample is put right.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from equigrad.labels import IGNORE
from equigrad.losses.blockwise import LOG2_E, Block, BlockwisePass
from equigrad.losses.inputs import check_values

# Beyond 40 softplus is z in float64 too, and exp(40) is far from overflow in float32.
softplus: Callable[..., Tensor] = partial(F.softplus, threshold=40)

POSITIVES_AT_ONCE = 2**13
"""Labelled entries whose arithmetic, some ten float64 numbers each, is held at a time."""


NEVER = -1e4
"""A logit whose exponential is 0 in float64 too, while its product with a focus of 0 is no NaN."""


class Modulation(NamedTuple):
    """How the cost of an entry is modulated beside its focus; see `functional.binary_cross_entropy`."""

    by_quality: bool = False
    is_constant: bool = False
    is_plain: bool = False  # of positives


class EntryWeights(NamedTuple):
    """How much an entry counts, in a shape that broadcasts against a block."""

    positive: Tensor  # q_j
    negative: Tensor  # r_j
    foreground: Tensor | None  # times r_j where the sample has a category
    sample: Tensor | None  # of all entries of a sample, by its category


def add_negatives(
    run: BlockwisePass,
    blocks: list[Block],
    labels: Tensor,
    focus: Tensor | None,
    weights: EntryWeights,
    lowest_label: int,
    modulation: Modulation,
) -> None:
    r"""Add the entries that are not labelled, and store their gradient.

    On a CPU the cost is formed from the odds u = e^z: softplus(z) = log(1 + u). Where they overflow, the block is done
    again with functions that are stable for any logit, as it is on a device. Binary cross-entropy forms cost and slope
    one after the other in the memory of the gradient; a focus takes two temporaries.
    """
    weight = weights.negative.flatten()
    block_weight = (weights.negative / run.stored_divisor).to(run.dtype)
    focus = None if focus is None else focus.to(run.dtype)
    margin = None if run.margin is None else run.margin.to(run.dtype)
    is_by_sample = weights.foreground is not None or weights.sample is not None
    dim = run.sample_dims[-1]
    is_whole = len(blocks) == 1  # small batches: even a view costs a microsecond
    num_temporaries = (0 if focus is None else 2) + (run.workspace is None)
    # In one allocation: the C library gives the memory of several back to the system after every step.
    largest = run.flat[blocks[0].entries].numel() if blocks else 0
    memory = torch.empty(num_temporaries, largest, dtype=run.dtype, device=run.flat.device)
    temporaries: list[Tensor] = []
    for block in blocks:
        label = (labels if is_whole else labels[block.samples]).unsqueeze(1)
        index = label if lowest_label >= 0 else label.clamp(min=0)
        factor = _factor_of_negatives(run, weights, label, index) if is_by_sample else None
        entries = run.flat if is_whole else run.flat[block.entries]
        if num_temporaries and (not temporaries or temporaries[0].shape != entries.shape):
            temporaries = [part[: entries.numel()].view(entries.shape) for part in memory]
        gradient = run.workspace if run.workspace is None or is_whole else run.workspace[block.entries]
        work = temporaries[-1] if gradient is None else gradient
        by_odds = run.is_cpu and factor is None
        while True:
            unit = LOG2_E if by_odds else 1.0
            if margin is None:
                logits = torch.mul(entries.to(run.dtype), unit, out=work)
            else:
                logits = torch.add(margin * unit, entries, alpha=run.scale * unit, out=work)
            # Their loss and gradient are 0 then, whatever they hold.
            if lowest_label >= 0:
                logits.scatter_(1, index, NEVER)
            else:
                logits.scatter_(1, index, logits.gather(1, index).masked_fill_(label >= 0, NEVER))
            if lowest_label <= IGNORE:
                logits.masked_fill_(label == IGNORE, NEVER)

            if focus is not None:
                terms = _focal_by_odds if by_odds else _stable_focal
                loss, slope = terms(logits, focus, temporaries[0], temporaries[1], modulation.is_constant)
            elif by_odds:
                # One logarithm for eight samples, that of their product: (1 + u)(1 + v) = 1 + u + v + u v.
                loss, size = logits.exp2_(), logits.shape[dim]
                for _ in range(3):
                    half, rest = size // 2, size - size // 2
                    own, others = loss.narrow(dim, 0, half), loss.narrow(dim, rest, half)
                    own.addcmul_(others, own).add_(others)
                    loss, size = own if half == rest else loss.narrow(dim, 0, rest), rest
                loss.log1p_()
            else:
                loss = softplus(logits, out=logits)
            if factor is not None:
                loss.mul_(factor)
            columns = loss.sum(run.sample_dims).double()
            cost = columns.dot(weight).item() if run.is_cpu else columns.dot(weight)
            if not by_odds or math.isfinite(cost):
                break
            by_odds = False
        run.loss += cost
        if focus is None:
            if margin is None:
                slope = torch.sigmoid(entries.to(run.dtype), out=work)
            else:
                slope = torch.add(margin, entries, alpha=run.scale, out=work).sigmoid_()
            if lowest_label >= 0:
                slope.scatter_(1, index, 0.0)
            else:
                slope.scatter_(1, index, slope.gather(1, index).masked_fill_(label >= 0, 0.0))
            if lowest_label <= IGNORE:
                slope.masked_fill_(label == IGNORE, 0.0)
        if factor is not None:
            slope.mul_(factor)
        negative = slope.sum(run.sample_dims) * weight
        run.negative = negative if run.negative is None else run.negative.add_(negative)
        gradient = torch.mul(slope, block_weight, out=work)
        if run.gradient is not None and run.workspace is None:
            run.gradient[block.entries] = gradient


def _focal_by_odds(
    log2_odds: Tensor, focus: Tensor, first: Tensor, second: Tensor, is_constant: bool
) -> tuple[Tensor, Tensor]:
    """l(s) and l'(s) for log2 u, which is overwritten; in the memory of `second` and of the input."""
    lowest_exponent = 0.5 * math.log2(torch.finfo(log2_odds.dtype).tiny)  # no denormal numbers, see `focal_terms`
    odds = torch.exp2(log2_odds, out=first)
    cost = torch.log1p(odds, out=second)
    modulation = log2_odds.sub_(cost, alpha=LOG2_E).mul_(focus).clamp_(lowest_exponent, 0).exp2_()
    loss = cost.mul_(modulation)
    slope = modulation.mul_(odds)
    if not is_constant:
        slope.addcmul_(loss, focus)
    return loss, slope.div_(odds.add_(1))


def _stable_focal(
    logits: Tensor, focus: Tensor, first: Tensor, second: Tensor, is_constant: bool
) -> tuple[Tensor, Tensor]:
    """The same for logits."""
    lowest_exponent = 0.5 * math.log(torch.finfo(logits.dtype).tiny)
    prob, cost = torch.sigmoid(logits, out=first), softplus(logits, out=second)
    modulation = logits.sub_(cost).mul_(focus).clamp_(min=lowest_exponent).exp_()
    loss = cost.mul_(modulation)
    slope = modulation.mul_(prob)
    if not is_constant:
        slope.addcmul_(loss, torch.sub(1, prob, out=prob).mul_(focus))
    return loss, slope


def add_positives(
    run: BlockwisePass,
    blocks: list[Block],
    labels: Tensor,
    quality: Tensor | None,
    focus: Tensor | None,
    weights: EntryWeights,
    lowest_label: int,
    modulation: Modulation,
) -> None:
    """Add the labelled entries, and overwrite their gradient."""
    # One entry a sample: float64 costs nothing here and keeps 1 - p exact; many at a time, since each operation has
    # its price whatever its size.
    margin = None if run.margin is None else run.margin.flatten()
    is_whole = len(blocks) == 1
    for block in blocks:
        label = (labels if is_whole else labels[block.samples]).unsqueeze(1)
        index = label if lowest_label >= 0 else label.clamp(min=0)
        logit = (run.flat if is_whole else run.flat[block.entries]).gather(1, index).double()
        if margin is not None:
            logit = run.scale * logit + margin[index]
        weight = weights.positive.take(index)
        if lowest_label < 0:
            logit, weight = logit.masked_fill(label < 0, 0.0), weight.masked_fill(label < 0, 0.0)
        if weights.sample is not None:
            weight = weight * weights.sample.take(index)
        if quality is not None:
            own_quality = (quality if is_whole else quality[block.samples]).unsqueeze(1).double()
            own_focus = None if focus is None else focus.take(index)
            loss, gradient = quality_terms(logit, own_focus, own_quality, modulation)
            gradient.neg_()
        elif focus is None or modulation.by_quality or modulation.is_plain:
            error = logit.neg_()
            loss, gradient = softplus(error), error.sigmoid_()
        else:
            loss, gradient = focal_terms(logit.neg_(), focus.take(index), modulation.is_constant)
        cost = loss.mul_(weight).sum()
        run.loss += cost.item() if run.is_cpu else cost
        gradient *= weight
        run.positive.index_add_(0, index.flatten(), (gradient if quality is None else gradient.abs()).flatten())
        if run.gradient is not None:
            stored = run.gradient if is_whole else run.gradient[block.entries]
            own = gradient.div_(-run.stored_divisor).to(stored.dtype)
            if lowest_label < 0:
                own = torch.where(label >= 0, own, stored.gather(1, index))
            stored.scatter_(1, index, own)


def add_multi_label(
    run: BlockwisePass,
    blocks: list[Block],
    targets: Tensor,
    quality: Tensor | None,
    focus: Tensor | None,
    weights: EntryWeights,
    modulation: Modulation,
    *,
    is_soft: bool = False,
) -> None:
    """Add all entries of samples that have any number of categories, given as targets: 0/1, or soft ones."""
    focus = None if focus is None else focus.to(run.dtype)
    margin = None if run.margin is None else run.margin.to(run.dtype)
    run.negative = torch.zeros_like(run.positive)
    for block in blocks:
        target = targets[block.entries]
        is_hard = (target == 0) | (target == 1)
        own_quality = None
        if not run.is_cpu or not bool(is_hard.all()):
            if is_soft:
                check_values((target >= 0) & (target <= 1), target, "soft targets must be within [0, 1]")
                own_quality = target.to(run.dtype)
            else:
                check_values(is_hard, target, "multi-label targets must be 0 or 1")
        is_positive = target.bool()
        logits = run.flat[block.entries].to(run.dtype)
        if margin is not None:
            logits = torch.add(margin, logits, alpha=run.scale)
        if quality is not None:
            is_matrix = quality.dim() == run.flat.dim()
            own_quality = quality[block.entries] if is_matrix else quality[block.samples].unsqueeze(1)
            own_quality = own_quality.to(run.dtype)
        if focus is None:
            loss, slope = softplus(logits), torch.sigmoid(logits)
        else:
            loss, slope = focal_terms(logits, focus, modulation.is_constant)
        if own_quality is not None:
            own_loss, own_slope = quality_terms(logits, focus, own_quality, modulation)
        elif focus is None or modulation.by_quality or modulation.is_plain:
            own_loss, own_slope = softplus(-logits), torch.sigmoid(-logits).neg_()
        else:
            own_loss, own_slope = focal_terms(-logits, focus, modulation.is_constant)
            own_slope.neg_()
        if weights.foreground is not None or weights.sample is not None:
            weight = _weights_of_entries(weights, is_positive, target).to(run.dtype)
        else:
            weight = torch.where(is_positive, weights.positive, weights.negative).to(run.dtype)
        run.loss += torch.where(is_positive, own_loss, loss).mul_(weight).sum(dtype=torch.float64)
        gradient = torch.where(is_positive, own_slope, slope).mul_(weight)
        magnitude = gradient.abs()
        run.positive += (magnitude * is_positive).sum(run.sample_dims)
        run.negative += (magnitude * ~is_positive).sum(run.sample_dims)
        if run.gradient is not None:
            run.gradient[block.entries] = gradient / run.stored_divisor


def focal_terms(error: Tensor, focus: Tensor, is_constant: bool = False) -> tuple[Tensor, Tensor]:
    """l(s) and l'(s) of entries that err by s, for where memory does not matter."""
    cost = softplus(error)
    log_prob = error - cost
    # exp(the least exponent) is the root of the smallest number, 1e-19 in float32. A smaller factor is as good as none,
    # but denormal numbers in it or its products make a CPU ten times slower.
    modulation = (log_prob * focus).clamp_(min=0.5 * math.log(torch.finfo(error.dtype).tiny)).exp_()
    loss = cost.mul_(modulation)
    prob = log_prob.exp_()
    slope = modulation.mul_(prob)
    if not is_constant:
        slope.addcmul_(loss, torch.sub(1, prob, out=prob).mul_(focus))
    return loss, slope


def quality_terms(
    logits: Tensor, focus: Tensor | None, quality: Tensor, modulation: Modulation
) -> tuple[Tensor, Tensor]:
    """m BCE(p, y') and its derivative by the logit; m is |y' - p|^gamma, y' itself or 1."""
    opposite, other_quality = -logits, 1 - quality
    prob, other_prob = logits.sigmoid(), opposite.sigmoid()
    cost = (softplus(opposite) * quality).addcmul_(softplus(logits), other_quality)
    error = torch.where(logits > 0, other_quality - other_prob, prob - quality)  # exact where p and y' are near 1
    if modulation.by_quality:
        return quality * cost, quality * error
    if focus is None or modulation.is_plain:
        return cost, error
    factor = error.abs().pow_(focus)
    if modulation.is_constant:
        return factor * cost, factor * error
    # The slope of |e|^gamma is gamma |e|^gamma / e. At e = 0 it is 0 for gamma > 1, and so is our choice below that.
    slope = (factor * focus).div_(error).masked_fill_(error == 0, 0.0).mul_(prob).mul_(other_prob)
    return factor * cost, slope.mul_(cost).addcmul_(factor, error)


def _factor_of_negatives(run: BlockwisePass, weights: EntryWeights, label: Tensor, index: Tensor) -> Tensor | None:
    """What multiplies r_j, (R, 1, ...) or (R, C, ...)."""
    factor = weights.foreground
    if weights.sample is not None:
        own = weights.sample.flatten()[index]
        factor = own if factor is None else factor * own
    return None if factor is None else torch.where(label >= 0, factor, 1.0).to(run.dtype)


def _weights_of_entries(weights: EntryWeights, is_positive: Tensor, target: Tensor) -> Tensor:
    """Weight of each entry of a multi-label block; a sample counts as the mean of its categories, by their targets."""
    positive, factor = weights.positive, weights.foreground
    has_category = is_positive.any(1, keepdim=True)
    if weights.sample is not None:
        share = target.double()
        total = torch.where(has_category, share.sum(1, keepdim=True), 1.0)
        sample_weight = (share * weights.sample).sum(1, keepdim=True) / total
        positive = positive * sample_weight
        factor = sample_weight if factor is None else factor * sample_weight
    negative = weights.negative
    if factor is not None:
        negative = negative * torch.where(has_category, factor, 1.0)
    return torch.where(is_positive, positive, negative)
