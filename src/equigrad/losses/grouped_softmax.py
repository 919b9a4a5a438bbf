"""BAGS: one softmax for each group of categories of similar count, and the scores that put the groups together."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from equigrad.labels import BACKGROUND, IGNORE
from equigrad.losses import functional, reference
from equigrad.losses.category_loss import CategoryLoss
from equigrad.losses.inputs import (
    CategoryNumbers,
    Reduction,
    check_labels,
    check_logits,
    check_number,
    per_category,
    refuse_soft_labels,
)
from equigrad.losses.operators import as_operator
from equigrad.losses.seeded_uniform import SeededUniform

Bounds = Sequence[float]
"""Counts at which a new group begins, in increasing order."""


class GroupLayout(NamedTuple):
    """Columns of the logits: groups from rare to frequent, then {others, background}.

    A group begins with its "others" column and goes on with its categories in increasing order. A range of counts
    without categories has no group and no columns.
    """

    sizes: tuple[int, ...]  # columns of each group, the background group last if there is one
    group: Tensor  # (C,) group of each category
    column: Tensor  # (C,) column of each category, within all logits
    has_background: bool

    @property
    def num_classes(self) -> int:
        """C, without "others" and background."""
        return self.group.numel()

    @property
    def num_logits(self) -> int:
        """Columns the head must have."""
        return sum(self.sizes)

    @property
    def others(self) -> Tensor:
        """Column of "others" of each group."""
        return torch.tensor([0, *self.sizes[:-1]]).cumsum(0)


def group_layout(
    category_counts: CategoryNumbers, bounds: Bounds = (10, 100, 1000), *, background: bool = True
) -> GroupLayout:
    """Groups of categories by count: below the first bound, from each bound to the next, from the last bound on.

    Args:
        category_counts: C of them; 0 belongs to the first group.
        bounds: counts at which a new group begins.
        background: whether a group {others, background} follows, for samples without category.
    """
    counts = per_category("category_counts", category_counts)
    edges = torch.as_tensor(bounds, dtype=torch.float64)
    if edges.dim() != 1 or not bool(edges.isfinite().all() & (edges.diff() > 0).all()):
        raise ValueError(f"bounds must be finite and increasing, got {list(bounds)}")
    _, group = torch.unique(torch.bucketize(counts, edges, right=True), return_inverse=True)
    members = torch.bincount(group)
    order = group.argsort(stable=True)
    column = torch.empty_like(group)
    column[order] = torch.arange(group.numel()) + group[order] + 1  # one "others" for each group up to its own
    sizes = [*(members + 1).tolist(), *([2] if background else [])]
    return GroupLayout(tuple(sizes), group, column, background)


class GroupedSoftmaxLoss(CategoryLoss):
    r"""BAGS: a softmax for each group of categories of similar count, so that frequent ones cannot suppress rare ones.

    $$ L = \sum_g \frac{1}{N_g} \sum_{i \in U_g} -\log p_i^{g, t} $$

    A group is the categories of one range of counts and "others", which is the target t of every sample that has none
    of them, background included. It uses its own samples and a random draw of `others_ratio` times as many others; a
    group without a sample of its own in the batch uses none. One more group, {others, background}, uses all samples.
    Logits are (N, `num_logits`, ...), see `GroupLayout`; inference takes `GroupedSoftmaxScores`.

    "mean" divides each group by its used samples N_g, as published; "sum" does not divide, and `normalizer` divides the
    sum; "none" returns for each sample the sum over the groups that use it. Others are drawn in training only; in
    evaluation all count. With several ranks each draws from its own samples and divides by what it drew, as published:
    a draw over the joined batch would exchange all labels, and wait for them, in every step.

    Li, Wang, Kang, Tang, Wang, Li, Feng: Overcoming Classifier Imbalance for Long-Tail Object Detection with Balanced
    Group Softmax. CVPR 2020.

    Args:
        category_counts: C of them. A category without samples belongs to the rarest group.
        bounds: counts at which a new group begins; a range without categories is left out.
        others_ratio: beta, others for each of a group's own samples; None uses all.
        background: False, for classification, leaves the background group out and refuses BACKGROUND. With True labels
            without background are fine too.
        seed: seed of the random others, with the number of calls so far, which is saved with the model.
        reduction: "mean", "sum" or "none"; see `CategoryLoss`.
        ignore_index: the label of samples that do not count.
    """

    target: Tensor  # (C + 1, groups)  column within each group of a sample's label, the last row for background

    columns_are_categories = False

    def __init__(
        self,
        category_counts: CategoryNumbers,
        *,
        bounds: Bounds = (10, 100, 1000),
        others_ratio: float | None = 8,
        background: bool = True,
        seed: int = 0,
        reduction: Reduction = "mean",
        ignore_index: int = IGNORE,
    ) -> None:
        super().__init__(reduction, ignore_index)
        if others_ratio is not None:
            check_number("others_ratio", others_ratio)
        self.layout = group_layout(category_counts, bounds, background=background)
        self.others_ratio = others_ratio
        self.takes_background = background
        self.uniform = SeededUniform(seed)
        self.register_buffer("target", _targets(self.layout), persistent=False)

    @property
    def num_classes(self) -> int:
        """C, without "others" and background."""
        return self.layout.num_classes

    @property
    def num_logits(self) -> int:
        """Columns the head must have."""
        return self.layout.num_logits

    def forward(self, logits: Tensor, labels: Tensor, *, normalizer: float | Tensor | None = None) -> Tensor:
        """Loss of logits (N, `num_logits`, ...) against labels (N, ...)."""
        options = self.options(normalizer)
        losses = []
        with self.uniform.refunded_on_error():
            targets = self.group_targets(logits, labels)
            if self.reduction == "none":
                return reference.grouped_softmax(logits, targets, self.layout.sizes)
            for group_logits, target in zip(logits.split_with_sizes(self.layout.sizes, dim=1), targets, strict=True):
                loss, _ = as_operator(functional.cross_entropy)(
                    group_logits, target, reduction=options["reduction"], normalizer=normalizer
                )
                losses.append(loss)
        return torch.stack(losses).sum()

    def num_counted(self, labels: Tensor) -> None:
        """None: "mean" divides every group by its own samples."""

    def group_targets(self, logits: Tensor, labels: Tensor) -> list[Tensor]:
        """Column of every sample in each group, (N, ...) each; IGNORE where the group does not use the sample."""
        check_logits(logits)
        if logits.shape[1] != self.num_logits:
            raise ValueError(
                f"logits must be (N, {self.num_logits}) or (N, {self.num_logits}, d1, ...) for {self.num_classes} "
                f"categories in groups of {self.layout.sizes} columns, got {tuple(logits.shape)}"
            )
        refuse_soft_labels(logits, labels, "the groups of BAGS are chosen by the one category of a sample")
        labels, _ = check_labels(
            logits[:, : self.num_classes], labels, background=self.takes_background, ignore_index=self.ignore_index
        )
        row = torch.where(labels == BACKGROUND, self.num_classes, labels.clamp(min=0))
        targets = []
        for group, target in enumerate(self.target[row].unbind(-1)):
            target = target.masked_fill(labels == IGNORE, IGNORE)
            is_background_group = self.layout.has_background and group == len(self.layout.sizes) - 1
            targets.append(target if is_background_group else self._draw_others(target))
        return targets

    def _draw_others(self, target: Tensor) -> Tensor:
        num_own = (target > 0).sum()
        is_other = target == 0
        if self.others_ratio is None or not self.changes_state():
            return target.masked_fill(is_other & (num_own == 0), IGNORE)
        chance = self.uniform((target.numel(),), target.device).view(target.shape)
        # Others come first in random order; a sort, unlike a selection of a number only the device knows, never waits.
        order = chance.masked_fill(~is_other, torch.inf).flatten().argsort()
        rank = torch.empty_like(order).scatter_(0, order, torch.arange(order.numel(), device=order.device))
        is_drawn = rank.view(target.shape) < (num_own * self.others_ratio).floor()
        return target.masked_fill(is_other & ~is_drawn, IGNORE)


def _targets(layout: GroupLayout) -> Tensor:
    """(C + 1, groups): 0, which is "others", where a label is none of the group."""
    target = torch.zeros(layout.num_classes + 1, len(layout.sizes), dtype=torch.int64)
    category = torch.arange(layout.num_classes)
    target[category, layout.group] = layout.column - layout.others[layout.group]
    if layout.has_background:
        target[-1, -1] = 1
    return target


class GroupedSoftmaxScores:
    """Softmax of its group for every category, times P(others) of the background group: what BAGS predicts.

    The arguments are those of the `GroupedSoftmaxLoss` that trained the head.

    Args:
        category_counts: C of them.
        bounds: counts at which a new group begins.
        background: False if the head has no background group.
    """

    def __init__(
        self, category_counts: CategoryNumbers, *, bounds: Bounds = (10, 100, 1000), background: bool = True
    ) -> None:
        self.layout = group_layout(category_counts, bounds, background=background)

    def num_logits(self, num_classes: int) -> int:
        """Columns the head must have."""
        if num_classes != self.layout.num_classes:
            raise ValueError(f"num_classes must be {self.layout.num_classes}, that of the counts, got {num_classes}")
        return self.layout.num_logits

    def __call__(self, logits: Tensor) -> Tensor:
        """Scores (N, C, ...) of logits (N, `num_logits`, ...)."""
        groups = [group.softmax(1) for group in logits.split_with_sizes(self.layout.sizes, dim=1)]
        scores = torch.cat(groups, dim=1)[:, self.layout.column.to(logits.device)]
        return scores * groups[-1][:, :1] if self.layout.has_background else scores
