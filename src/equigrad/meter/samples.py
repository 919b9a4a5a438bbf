"""Labels as the meter reads them: which categories a sample is positive for."""

from typing import NamedTuple

import torch
from torch import Tensor

from equigrad.labels import BACKGROUND, IGNORE
from equigrad.losses.inputs import check_labels, check_values, has_target_matrix, label_message
from equigrad.statistics import is_host


class Samples(NamedTuple):
    """The labels of one call. A category that is not in `labels` has no sample there."""

    labels: Tensor  # (N, ...) category, or -1 where there is none; or (N, C, ...) targets in [0, 1]
    ignored: Tensor | None  # (N, ...) bool; None if no sample is, as far as the host may look
    num_classes: int

    @property
    def has_targets(self) -> bool:
        """Whether there is a number for each logit, and not one category for each sample."""
        return self.labels.is_floating_point()

    def sum_by_category(self, values: Tensor) -> Tensor:
        """(C,) float64: the sum of values (N, ...) over the samples of each category; only for class indices."""
        sums = torch.zeros(self.num_classes + 1, dtype=torch.float64, device=values.device)
        # Samples without a category go to the last entry: to leave them out, the host would wait for their number.
        index = torch.where(self.labels < 0, self.num_classes, self.labels)
        return sums.index_add_(0, index.flatten(), values.flatten().double())[:-1]

    def counts(self) -> Tensor:
        """(C,) float64: samples of each category; for targets, their sum."""
        if self.has_targets:
            return self.labels.sum(other_dims(self.labels), dtype=torch.float64)
        return self.sum_by_category(torch.ones_like(self.labels, dtype=torch.float64))

    def own(self, values: Tensor) -> Tensor:
        """(N, ...): of values (N, C, ...) those of the sample's own category; 0 where there is none."""
        chosen = values.gather(1, self.labels.clamp(min=0).unsqueeze(1)).squeeze(1)
        return torch.where(self.labels >= 0, chosen, 0)


def read_labels(
    logits: Tensor, labels: Tensor, num_classes: int, ignore_index: int = IGNORE, *, checked: bool = False
) -> Samples:
    """The labels of logits (N, K, ...), K >= C; columns after the C categories are background or objectness.

    A label of such a column means background. Raises ValueError as the losses do, unless the values are `checked`.
    """
    if logits.dim() < 2 or logits.shape[1] < num_classes:
        raise ValueError(f"logits must be (N, C, ...) with C >= {num_classes} columns, got {tuple(logits.shape)}")
    categories = logits[:, :num_classes]
    if has_target_matrix(categories, labels):
        targets = labels.float() if labels.dtype == torch.bool else labels
        if not checked:
            check_values((targets >= 0) & (targets <= 1), targets, "targets must be within [0, 1]")
        return Samples(targets, None, num_classes)
    check_labels(categories, labels, background=True, multi_label=True, ignore_index=ignore_index, values=False)
    ignored = labels == ignore_index
    if not checked:
        allowed = (labels >= BACKGROUND) & (labels < logits.shape[1]) | ignored
        check_values(allowed, labels, label_message(logits.shape[1], background=True, ignore_index=ignore_index))
    without_category = ignored | (labels >= num_classes)
    some_ignored = not is_host(ignored) or bool(ignored.any())
    return Samples(labels.masked_fill(without_category, BACKGROUND), ignored if some_ignored else None, num_classes)


def other_dims(values: Tensor) -> list[int]:
    """All dimensions of (N, C, ...) but that of the categories."""
    return [dim for dim in range(values.dim()) if dim != 1]
