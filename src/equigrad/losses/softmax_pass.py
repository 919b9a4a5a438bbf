"""Arithmetic of the cross-entropies."""

from collections.abc import Callable

import torch
from torch import Tensor

from equigrad.labels import IGNORE
from equigrad.losses.blockwise import LOG2_E, Block, BlockwisePass
from equigrad.losses.inputs import ROW_SUM_TOLERANCE, check_values

Adjust = Callable[[Tensor, Tensor], None]
"""Changes the logits of a block in place, given the label of each sample as an index."""


def add_cross_entropy(
    run: BlockwisePass,
    blocks: list[Block],
    labels: Tensor,
    weight: Tensor | None = None,
    adjust: Adjust | None = None,
    *,
    lowest_label: int = IGNORE,
) -> None:
    """Add samples with class indices; `weight` (C,) weighs them by their category.

    The own entry of a sample is left out of the sum of its row, so that 1 - p is exact where p is near 1.
    """
    assert run.margin is not None  # so that `logits` below is never the memory of the caller
    margin = run.margin.to(run.dtype)
    binary_margin = margin * LOG2_E
    is_whole = len(blocks) == 1  # small batches: even a view costs a microsecond
    for block in blocks:
        label = (labels if is_whole else labels[block.samples]).unsqueeze(1)
        index = label if lowest_label >= 0 else label.clamp(min=0)
        entries = run.flat if is_whole else run.flat[block.entries]
        work = run.workspace if run.workspace is None or is_whole else run.workspace[block.entries]
        subtract_peak = not run.is_cpu
        while True:
            if subtract_peak or adjust is not None:
                logits = torch.add(margin, entries, alpha=run.scale, out=work)
                if adjust is not None:
                    adjust(logits, index)
            if subtract_peak:
                logits.sub_(logits.amax(1, keepdim=True))
                own_logit = logits.gather(1, index)
                values = logits.exp_()
            else:  # rounded once more, which is nothing beside the margin's rounding while the exponents are moderate
                if adjust is None:
                    logits = torch.add(binary_margin, entries, alpha=run.scale * LOG2_E, out=work)
                else:
                    logits.mul_(LOG2_E)
                values = logits.exp2_()
            own = values.gather(1, index)
            others = values.scatter_(1, index, 0.0).sum(1, keepdim=True)
            total = others + own
            # As of most logits: that spares two passes. Their quotient below is finite too.
            if subtract_peak or (own.min().item() > 1e-18 and total.max().item() < 1e18):
                break
            subtract_peak = True
        if subtract_peak:  # where e^z may be 0
            cost = total.double().log().sub_(own_logit).clamp_(min=0)
        else:
            cost = torch.div(others, own, out=own).log1p_()
        own_gradient = others.div_(total)  # 1 - p_y
        factor = total.mul_(run.stored_divisor).reciprocal_()
        if lowest_label < 0:
            cost.masked_fill_(label < 0, 0.0)
            own_gradient.masked_fill_(label < 0, 0.0)
        if weight is not None:
            own_weight = weight[index].to(values.dtype)
            cost, own_gradient, factor = cost * own_weight, own_gradient * own_weight, factor * own_weight
        run.loss += cost.sum(dtype=torch.float64).item() if run.is_cpu else cost.sum(dtype=torch.float64)
        run.positive.index_add_(0, index.flatten(), own_gradient.flatten().double())

        gradient = values.mul_(factor)
        if lowest_label < 0:
            gradient.masked_fill_(label < 0, 0.0)
        negative = gradient.sum(run.sample_dims).double().mul_(run.stored_divisor)
        run.negative = negative if run.negative is None else run.negative.add_(negative)
        if run.gradient is not None:
            gradient.scatter_(1, index, own_gradient.div_(-run.stored_divisor))
            if run.workspace is None:
                run.gradient[block.entries] = gradient


def add_soft_cross_entropy(
    run: BlockwisePass,
    blocks: list[Block],
    labels: Tensor,
    weight: Tensor | None,
    label_smoothing: float,
    adjust: Adjust | None = None,
) -> None:
    """Add samples whose labels are probabilities, or class indices that are smoothed.

    A sample with probabilities y is recorded as if it were C samples, one of each category j, with the weight y_j.
    """
    assert run.margin is not None
    margin = run.margin.to(run.dtype)
    run.negative = torch.zeros_like(run.positive)
    is_matrix = labels.dim() == run.flat.dim()
    for block in blocks:
        is_ignored = None
        if is_matrix:
            target = labels[block.entries].to(run.dtype)
            _check_probabilities(target)
        else:
            label = labels[block.samples].unsqueeze(1)
            is_ignored = label == IGNORE
            target = torch.zeros_like(run.flat[block.entries], dtype=run.dtype)
            target.scatter_(1, label.clamp(min=0), 1.0)
        if label_smoothing:
            target = target * (1 - label_smoothing) + label_smoothing / run.num_classes
        if weight is not None:
            target = target * weight.to(run.dtype)
        logits = torch.add(margin, run.flat[block.entries].to(run.dtype), alpha=run.scale)
        if adjust is not None:
            adjust(logits, label.clamp(min=0))
        if is_ignored is not None:  # what an ignored row holds leaves no trace, not even NaN
            logits.masked_fill_(is_ignored, 0.0)
            target = target.masked_fill(is_ignored, 0.0)
        log_probs = logits.log_softmax(1)
        run.loss -= (log_probs * target).sum(dtype=torch.float64)
        probs = log_probs.exp_()
        total = target.sum(1, keepdim=True)
        positive = target * (1 - probs)  # pulls z_j up
        negative = probs.mul_(total - target)  # pushes z_j down, as a sample of another category
        run.positive += positive.sum(run.sample_dims)
        run.negative += negative.sum(run.sample_dims)
        if run.gradient is not None:
            run.gradient[block.entries] = negative.sub_(positive) / run.stored_divisor


def _check_probabilities(target: Tensor) -> None:
    sums = target.sum(1)
    is_probability, adds_up = (target >= 0) & target.isfinite(), (sums - 1).abs() <= ROW_SUM_TOLERANCE
    if not target.is_cpu or not bool(is_probability.all() & adds_up.all()):
        check_values(is_probability, target, "soft labels must be probabilities, finite and >= 0")
        check_values(adds_up, sums, "soft labels of a sample must add up to 1")


def lower_own_logit_(logits: Tensor, index: Tensor, *, label_margin: Tensor) -> None:
    """Take d_y from the logit of every sample's own category."""
    logits.scatter_add_(1, index, -label_margin.flatten()[index].to(logits.dtype))


def seesaw_(
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
