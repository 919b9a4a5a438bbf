"""How many of its own samples a category wins: the indicator of starvation, for any loss.

docs/evidence/indicators.md has what it was chosen from, and how well it predicts the accuracy of a category.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from equigrad.labels import IGNORE
from equigrad.meter.samples import Samples, other_dims, read_labels
from equigrad.statistics import BatchedState, check_num_classes, is_host, sum_over_ranks

HALF_LIFE = 100.0
"""Samples of a category after which an earlier one counts half."""

_MAX_SAMPLES = 2**16  # of a call whose logits are compared: of a label map, evenly spaced pixels


class SeenSamples(NamedTuple):
    """What one call adds; (C,) float64 each."""

    seen: Tensor  # samples of each category
    compared: Tensor  # those whose logits were compared: all, unless there are very many
    won: Tensor  # those of them whose own logit is the highest


class Recognition(BatchedState):
    """The share of its own training samples that each category wins: whose logit is the highest of all categories.

    The share is that before the step on the sample, as the training goes on, and is decayed by samples and not by
    steps: a rare category, seen once in a thousand steps, is described by as many samples as a frequent one.

    Args:
        num_classes: C, without background.
        half_life: samples of a category after which an earlier one counts half.
    """

    seen: Tensor  # (C,) samples so far
    compared: Tensor  # (C,) decayed number of samples
    won: Tensor  # (C,) decayed number of samples won

    def __init__(self, num_classes: int, half_life: float = HALF_LIFE) -> None:
        super().__init__()
        check_num_classes(num_classes)
        if not half_life > 0:
            raise ValueError(f"half_life must be > 0 samples, got {half_life}")
        self.half_life = half_life
        for name in ("seen", "compared", "won"):
            self.register_buffer(name, torch.zeros(num_classes, dtype=torch.float64))

    @property
    def num_classes(self) -> int:
        """C, without background."""
        return self.seen.numel()

    @property
    def share(self) -> Tensor:
        """(C,) share of its recent samples that a category wins; NaN before its first."""
        return self.won / self.compared  # 0 / 0 is NaN

    @torch.no_grad()
    def look(self, logits: Tensor, labels: Tensor, *, ignore_index: int = IGNORE) -> None:
        """Add a batch of logits (N, C, ...) and labels, whose values the loss checks; later columns are left out."""
        self.add(logits, read_labels(logits, labels, self.num_classes, ignore_index, checked=True))

    @torch.no_grad()
    def add(self, logits: Tensor, samples: Samples) -> None:
        """The same for labels that were read."""
        seen = samples.counts()
        logits, chosen = _evenly_chosen(logits[:, : self.num_classes].detach(), samples)
        won = _won(logits, chosen)
        self.record_call(SeenSamples(seen, seen if chosen is samples else chosen.counts(), won))

    @torch.no_grad()
    def add_batch(self, calls: Sequence[SeenSamples], *, micro_batches: int) -> None:
        """Add the calls of one batch, summed over ranks in one collective of 3C numbers."""
        seen, compared, won = sum_over_ranks(torch.stack([torch.stack(call) for call in calls]).sum(0))
        kept = torch.pow(0.5, compared / self.half_life)
        self.seen.add_(seen)
        self.compared.mul_(kept).add_(compared)
        self.won.mul_(kept).add_(won)

    def reset(self) -> None:
        """Forget everything."""
        for buffer in (self.seen, self.compared, self.won):
            buffer.zero_()


def _evenly_chosen(logits: Tensor, samples: Samples) -> tuple[Tensor, Samples]:
    """At most `_MAX_SAMPLES` of the samples of maps (N, C, H, ...), by leaving out lines and columns."""
    if logits.dim() == 2 or samples.has_targets:
        return logits, samples
    num_dims = logits.dim() - 2
    stride = math.ceil((samples.labels.numel() / _MAX_SAMPLES) ** (1 / num_dims))
    if stride <= 1:
        return logits, samples
    steps = (slice(None, None, stride),) * num_dims
    return logits[:, :, *steps], samples._replace(labels=samples.labels[:, *steps])


def _won(logits: Tensor, samples: Samples) -> Tensor:
    """(C,) samples whose own logit is above that of all categories they are no sample of."""
    if not samples.has_targets:
        has_category = samples.labels >= 0
        if is_host(logits) and 2 * int(has_category.sum()) < samples.labels.numel():
            # Of anchors, most are background; on a device, to know how many would take longer than to compare them.
            labels = samples.labels[has_category]
            rows = logits.movedim(1, -1)[has_category]
            return samples._replace(labels=labels).sum_by_category((rows.argmax(1) == labels).double())
        return samples.sum_by_category((logits.argmax(1) == samples.labels).double())
    highest = logits.masked_fill(samples.labels > 0, -torch.inf).amax(1, keepdim=True)
    return (samples.labels * (logits > highest)).sum(other_dims(logits), dtype=torch.float64)
