"""Which categories push a category down: the negative gradient that samples of one send to another, in bounded memory.

Up to 2,048 categories the table has a row for each sender and is exact (6 MB for 1,203). Above, it is a count-min
sketch: senders share 512 rows, in two arrangements, and the smaller of a sender's two entries is taken (33 MB for 8,142
categories). That is never less than the truth, and exceeds it by more than e / 512 = 0.5 % of the receiver's negative
gradient with a probability below e^-2 = 14 %.
"""

import copy

import torch
import torch.distributed as dist
from torch import Tensor

from equigrad.meter.samples import Samples
from equigrad.statistics import ExactModule, is_distributed, sum_over_ranks

MAX_EXACT = 2048
_NUM_ROWS = 512
_MAX_SAMPLES = 4096  # of a call
_MAX_TARGETS = 256  # of a call with targets for each logit, which takes a matrix product


class SenderTable(ExactModule):
    """Negative gradient by sender and receiver, of the samples that this rank has seen.

    Of a call, at most 4,096 samples that have a category are counted, the first ones (256 with multi-label or soft
    targets), so that maps and anchors stay cheap.

    Args:
        num_classes: C, without background.
    """

    rows: Tensor  # (A, C) int64: the row of each sender, in A arrangements
    sums: Tensor  # (A, R, C) float32

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.num_classes = num_classes
        self.is_exact = num_classes <= MAX_EXACT
        num_rows = num_classes if self.is_exact else _NUM_ROWS
        self.register_buffer("rows", _arrangements(num_classes, num_rows, exact=self.is_exact), persistent=False)
        # One more row for samples without a category. float32: a table of float64 would be twice as large, and only
        # the largest entries are read.
        self.register_buffer("sums", torch.zeros(len(self.rows), num_rows + 1, num_classes))

    @torch.no_grad()
    def add(self, gradient: Tensor, samples: Samples, factor: Tensor | float) -> None:
        """Add the gradient (N, C, ...) of a call, multiplied by a factor."""
        if samples.has_targets:
            self._add_targets(*_first_rows(gradient, samples, _MAX_TARGETS), factor)
        else:
            self._add_labels(*_first_rows(gradient, samples, _MAX_SAMPLES), factor)

    def _add_labels(self, gradient: Tensor, labels: Tensor, factor: Tensor | float) -> None:
        """Rows of |gradient| (n, C) to the rows of their categories (n,), without the entry of the category itself."""
        sent = gradient.abs().float().mul_(factor)
        sent = sent.scatter_(1, labels.clamp(min=0)[:, None], 0.0)
        for rows, sums in zip(self.rows, self.sums, strict=True):
            sums.index_add_(0, torch.where(labels >= 0, rows[labels.clamp(min=0)], len(sums) - 1), sent)

    def _add_targets(self, gradient: Tensor, targets: Tensor, factor: Tensor | float) -> None:
        """The same for targets (n, C): a sample of several categories sends for each of them."""
        sent = (gradient.abs() * (1 - targets)).float().mul_(factor)
        for rows, sums in zip(self.rows, self.sums, strict=True):
            senders = targets.new_zeros(len(targets), len(sums)).index_add_(1, rows, targets)
            sums.addmm_(senders.T.float(), sent)

    def largest(self, receiver: int, count: int) -> list[tuple[int, float]]:
        """The categories that send most negative gradient to one, and how much; those with none are left out."""
        found = torch.stack([sums[rows, receiver] for rows, sums in zip(self.rows, self.sums, strict=True)])
        sent = found.amin(0)
        sent[receiver] = 0.0
        best = sent.topk(min(count, self.num_classes))
        pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        return [(sender, amount) for sender, amount in pairs if amount > 0]

    def mean_over_ranks(self) -> "SenderTable":
        """What all ranks have seen, in one collective that every rank must take part in; this table stays as it is."""
        merged = copy.deepcopy(self)
        sum_over_ranks(merged.sums)
        merged.sums.div_(dist.get_world_size() if is_distributed() else 1)
        return merged

    def reset(self) -> None:
        """Forget everything."""
        self.sums.zero_()


def _arrangements(num_classes: int, num_rows: int, *, exact: bool) -> Tensor:
    if exact:
        return torch.arange(num_classes)[None]
    # The same in every process: a checkpoint has the sums alone.
    generator = torch.Generator().manual_seed(0)
    return torch.stack([torch.randperm(num_classes, generator=generator) % num_rows for _ in range(2)])


def _first_rows(gradient: Tensor, samples: Samples, limit: int) -> tuple[Tensor, Tensor]:
    """At most so many samples with a category as rows: gradient (n, C), and labels (n,) or targets (n, C)."""
    if gradient.dim() > 2:
        gradient = gradient.movedim(1, -1).flatten(0, -2)
    if samples.has_targets:
        targets = samples.labels.movedim(1, -1).flatten(0, -2)
        return gradient[:limit], targets[:limit]
    labels = samples.labels.flatten()
    if len(labels) <= limit:
        return gradient, labels
    # Samples with a category first; a selection of known size, for which the host need not wait.
    first = (labels >= 0).to(torch.uint8).topk(limit).indices
    return gradient[first], labels[first]
