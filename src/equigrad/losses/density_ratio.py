"""LADE's regulariser: how far each category's logits are from the density ratio they should estimate."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from equigrad.labels import IGNORE
from equigrad.losses.sweep import Sweep, entries


def sweep_density_ratio(sweep: Sweep, labels: Tensor, prior: Tensor, weight: float, penalty: float) -> None:
    """Add a R for every counted sample to the loss, and its gradient to the gradient that is stored already."""
    columns = _column_sums(sweep, labels)
    num_samples = columns.own_count.sum()
    to_uniform = -(prior + 1e-9).log() - math.log(sweep.num_classes)
    log_mean = columns.peak + columns.total.log() - num_samples.log() + to_uniform
    log_mean = torch.where(num_samples > 0, log_mean, 0.0)
    own_mean = columns.own_sum / (columns.own_count + 1e-8)
    regulariser = -(prior * (own_mean - log_mean - penalty * log_mean**2)).sum()
    sweep.loss += weight * num_samples * regulariser
    if sweep.gradient is None:
        return
    strength = weight * num_samples * prior / sweep.stored_divisor
    own_pull = (strength / (columns.own_count + 1e-8)).to(sweep.dtype)
    push = sweep.vector(strength * (1 + 2 * penalty * log_mean) / columns.total).to(sweep.dtype)
    peak = sweep.vector(columns.peak).to(sweep.dtype)
    for block in sweep.blocks(temporaries=2):
        label = labels[block].unsqueeze(1)
        counted, index = label != IGNORE, label.clamp(min=0)
        gradient = sweep.read(block).sub(peak).exp_().mul_(push)
        gradient.scatter_add_(1, index, -own_pull[index])
        entries(sweep.gradient, block).add_(gradient.masked_fill_(~counted, 0.0))


class _ColumnSums(NamedTuple):
    """What LADE's regulariser needs of the logits, (C,) float64 each."""

    own_sum: Tensor  # logits of the samples of the category
    own_count: Tensor  # their number
    peak: Tensor  # greatest logit of any sample
    total: Tensor  # sum of exp(logit - peak) over all samples


def _column_sums(sweep: Sweep, labels: Tensor) -> _ColumnSums:
    zeros = torch.zeros_like(sweep.positive)
    own_sum, own_count, total = zeros, zeros.clone(), zeros.clone()
    peak = torch.full_like(zeros, torch.finfo(sweep.dtype).min)
    for block in sweep.blocks(temporaries=2):
        label = labels[block].unsqueeze(1)
        counted, index = label != IGNORE, label.clamp(min=0)
        logits = sweep.read(block)
        own_logit = torch.where(counted, logits.gather(1, index), 0.0)
        own_sum.index_add_(0, index.flatten(), own_logit.flatten().double())
        own_count.index_add_(0, index.flatten(), counted.flatten().double())
        logits = logits.masked_fill(~counted, -torch.inf)
        before, peak = peak, torch.maximum(peak, logits.amax(sweep.sample_dims).double())
        probs = logits.sub_(sweep.vector(peak).to(sweep.dtype)).exp_()
        total = total * (before - peak).exp() + sweep.sum_samples(probs)
    return _ColumnSums(own_sum, own_count, peak, total)
