"""LADE's regulariser: how far each category's logits are from the density ratio they should estimate."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from equigrad.labels import IGNORE
from equigrad.losses.blockwise import Block, BlockwisePass


class ColumnSums(NamedTuple):
    """What LADE's regulariser needs of the logits, (C,) float64 each."""

    own_sum: Tensor  # logits of the samples of the category
    own_count: Tensor  # their number
    peak: Tensor  # greatest logit of any sample
    total: Tensor  # sum of exp(logit - peak) over all samples


def sum_columns(run: BlockwisePass, blocks: list[Block], labels: Tensor) -> ColumnSums:
    """Sum the logits of each category over the samples that count."""
    zeros = torch.zeros_like(run.positive)
    own_sum, own_count, total = zeros, zeros.clone(), zeros.clone()
    peak = torch.full_like(zeros, torch.finfo(run.dtype).min)
    for block in blocks:
        label = labels[block.samples].unsqueeze(1)
        counted, index = label != IGNORE, label.clamp(min=0)
        logits = run.flat[block.entries].to(run.dtype)
        own_logit = torch.where(counted, logits.gather(1, index), 0.0)
        own_sum.index_add_(0, index.flatten(), own_logit.flatten().double())
        own_count.index_add_(0, index.flatten(), counted.flatten().double())
        logits = logits.masked_fill(~counted, -torch.inf)
        before, peak = peak, torch.maximum(peak, logits.amax(run.sample_dims).double())
        probs = logits.sub_(run.vector(peak).to(run.dtype)).exp_()
        total = total * (before - peak).exp() + probs.sum(run.sample_dims)
    return ColumnSums(own_sum, own_count, peak, total)


def add_density_ratio(
    run: BlockwisePass,
    blocks: list[Block],
    labels: Tensor,
    columns: ColumnSums,
    prior: Tensor,
    weight: float,
    penalty: float,
) -> None:
    """Add a R for every counted sample to the loss, and its gradient to the gradient that is stored already."""
    num_samples = columns.own_count.sum()
    to_uniform = -(prior + 1e-9).log() - math.log(run.num_classes)
    log_mean = columns.peak + columns.total.log() - num_samples.log() + to_uniform
    log_mean = torch.where(num_samples > 0, log_mean, 0.0)
    own_mean = columns.own_sum / (columns.own_count + 1e-8)
    regulariser = -(prior * (own_mean - log_mean - penalty * log_mean**2)).sum()
    run.loss += weight * num_samples * regulariser
    if run.gradient is None:
        return
    strength = weight * num_samples * prior / run.stored_divisor
    own_pull = (strength / (columns.own_count + 1e-8)).to(run.dtype)
    push = run.vector(strength * (1 + 2 * penalty * log_mean) / columns.total).to(run.dtype)
    peak = run.vector(columns.peak).to(run.dtype)
    for block in blocks:
        label = labels[block.samples].unsqueeze(1)
        counted, index = label != IGNORE, label.clamp(min=0)
        gradient = run.flat[block.entries].to(run.dtype).sub(peak).exp_().mul_(push)
        gradient.scatter_add_(1, index, -own_pull[index])
        run.gradient[block.entries].add_(gradient.masked_fill_(~counted, 0.0))
