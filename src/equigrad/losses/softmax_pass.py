"""Cross-entropies: the pass over the logits that forms loss, gradient and gradient sums."""

from collections.abc import Callable

import torch
from torch import Tensor

from equigrad.losses.sweep import Block, BlockLabels, Sweep

Adjust = Callable[[Tensor, Tensor], None]
"""Changes the logits of a block in place, given the label of each sample as an index."""


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


def sweep_softmax(
    sweep: Sweep,
    labels: Tensor,
    category_weights: Tensor | None = None,
    adjust: Adjust | None = None,
    temporaries: int = 0,
) -> None:
    """Cross-entropy of the samples; `category_weights` (C,) weigh them by their category."""
    for block in sweep.blocks(temporaries):
        label = BlockLabels(labels[block])
        probs, total, own_logit = _exponentials(sweep, block, label, adjust)
        own_log_prob = label.of_own((own_logit - total.log()).clamp_(max=0))
        own_gradient = own_log_prob.expm1()  # p_y - 1
        factor = 1 / (total * sweep.stored_divisor)
        if category_weights is not None:
            own_weight = category_weights[label.index]
            own_log_prob *= own_weight
            own_gradient *= own_weight
            factor *= own_weight
        sweep.loss -= own_log_prob.sum()
        sweep.add_positive(label.index, own_gradient.neg())

        gradient = probs.mul_(factor.to(probs.dtype))
        label.clear(gradient)
        sweep.negative += sweep.sum_samples(gradient)
        label.put(gradient, own_gradient / sweep.stored_divisor)
        sweep.store(block, gradient)
    sweep.negative *= sweep.stored_divisor


def _exponentials(
    sweep: Sweep, block: Block, label: BlockLabels, adjust: Adjust | None
) -> tuple[Tensor, Tensor, Tensor]:
    """exp(z) of a block up to a factor for each sample, their sum (R, 1, ...) in float64, and z_y on the same scale."""
    if sweep.flat.device.type == "cpu":  # elsewhere asking for the range would cost a synchronisation
        logits = _adjusted(sweep, block, label, adjust)
        own_logit = logits.gather(1, label.index)
        values = logits.exp_()
        total = values.sum(1, keepdim=True)
        least, greatest = total.aminmax()
        if least > 1e-30 and greatest < 1e30:  # as of most logits: that spares two passes
            return values, total.double(), own_logit
    logits = _adjusted(sweep, block, label, adjust)
    peak = logits.amax(1, keepdim=True)
    own_logit = logits.gather(1, label.index) - peak
    values = logits.sub_(peak).exp_()
    return values, values.sum(1, keepdim=True).double(), own_logit


def _adjusted(sweep: Sweep, block: Block, label: BlockLabels, adjust: Adjust | None) -> Tensor:
    logits = sweep.read_shifted(block, out=sweep.workspace(block))
    if adjust is not None:
        adjust(logits, label.index)
    return logits
