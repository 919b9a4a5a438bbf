"""Losses with one category per sample that are compared with Softmax-EQL.

All are cross-entropies with another margin, scale or weight. A softmax has no background: label such samples IGNORE, or
wrap the loss in `WithObjectness`. Where the formula allows it, labels may be soft: probabilities of the logits' shape.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from equigrad.labels import IGNORE
from equigrad.losses import functional, reference
from equigrad.losses.blockwise import GradientSums
from equigrad.losses.category_loss import CategoryLoss
from equigrad.losses.equalization import EqualizationLoss
from equigrad.losses.inputs import (
    CategoryNumbers,
    Reduction,
    at_least_one_sample,
    check_label_smoothing,
    check_labels,
    check_logits,
    check_number,
    per_category,
    refuse_soft_labels,
)
from equigrad.losses.operators import as_operator, held
from equigrad.statistics import BatchedState, check_num_classes, sum_over_ranks


class SingleLabelLoss(CategoryLoss):
    """A softmax over the categories."""

    takes_background = False


class CrossEntropyLoss(SingleLabelLoss):
    r"""Cross-entropy, the baseline.

    $$ L = -\frac{1}{N} \sum_i w_{y_i} \log p_i^{y_i} $$

    Args:
        weight: w_j, C of them, such as `effective_number_weights`; None weights all samples alike.
        weighted_mean: with "mean", divide by the sum of the weights of the samples, as `torch.nn.CrossEntropyLoss`
            does, and not by their number.
        label_smoothing: epsilon in [0, 1); as in `torch.nn.CrossEntropyLoss`.
        reduction: "mean", "sum" or "none"; see `CategoryLoss`.
        ignore_index: the label of samples that do not count.
    """

    weight: Tensor | None  # (C,)

    def __init__(
        self,
        *,
        weight: CategoryNumbers | None = None,
        weighted_mean: bool = False,
        label_smoothing: float = 0.0,
        reduction: Reduction = "mean",
        ignore_index: int = IGNORE,
    ) -> None:
        super().__init__(reduction, ignore_index)
        check_label_smoothing(label_smoothing)
        if weighted_mean and (weight is None or reduction != "mean"):
            raise ValueError('weighted_mean needs a weight for each category, and reduction="mean"')
        self.weighted_mean = weighted_mean
        weight = None if weight is None else per_category("weight", weight)
        self.register_buffer("weight", weight, persistent=False)
        self.label_smoothing = label_smoothing

    def forward(self, logits: Tensor, labels: Tensor, *, normalizer: float | Tensor | None = None) -> Tensor:
        """Loss of logits (N, C, ...) against labels (N, ...) or probabilities of the logits' shape."""
        if self.weighted_mean and normalizer is None:
            normalizer = self._total_weight(labels)
        loss, _ = as_operator(functional.cross_entropy)(
            logits, labels, weight=self.weight, label_smoothing=self.label_smoothing, **self.options(normalizer)
        )
        if self.reduction == "none":
            return reference.cross_entropy(
                logits, labels, self.weight, label_smoothing=self.label_smoothing, ignore_index=self.ignore_index
            )
        return loss

    def num_counted(self, labels: Tensor) -> float | None:
        """What "mean" divides by: the samples, or the sum of their weights."""
        return float(self._total_weight(labels)) if self.weighted_mean else super().num_counted(labels)

    def _total_weight(self, labels: Tensor) -> Tensor:
        """Weights of the samples that count; 1 if none does, so that the loss is 0."""
        assert self.weight is not None
        if labels.is_floating_point():
            raise ValueError("weighted_mean takes one label per sample, not probabilities")
        num_classes = len(self.weight)
        is_label = (labels >= 0) & (labels < num_classes) & (labels != self.ignore_index)
        total = self.weight.double()[labels.clamp(0, num_classes - 1).long()].mul(is_label).sum()
        return torch.where(total > 0, total, 1.0)


class BackgroundCrossEntropyLoss(EqualizationLoss):
    """Cross-entropy of C categories and background, whose column is the last of C + 1.

    The statistics are those of the C categories, and change nothing.

    Args:
        num_classes: C, without background.
    """

    takes_background = False  # it is a label as the others are

    def __init__(self, num_classes: int) -> None:
        super().__init__(num_classes, half_life=None, reduction="mean")

    def forward(self, logits: Tensor, labels: Tensor, *, normalizer: float | Tensor | None = None) -> Tensor:
        """Loss of logits (N, C + 1) against labels (N,), of which C is background."""
        loss, sums = as_operator(functional.cross_entropy)(logits, labels, **self.options(normalizer))
        positive, negative = (part[: self.num_classes] for part in sums[:2])
        self.record(GradientSums(positive, negative, sums.divisor))
        return loss


class MarginLoss(SingleLabelLoss):
    """Cross-entropy of logits to which each category adds its own margin; inference uses the plain logits."""

    margin: Tensor  # (C,)

    def __init__(self, margin: Tensor, label_smoothing: float, reduction: Reduction, ignore_index: int) -> None:
        super().__init__(reduction, ignore_index)
        check_label_smoothing(label_smoothing)
        self.register_buffer("margin", margin, persistent=False)
        self.label_smoothing = label_smoothing

    @property
    def num_classes(self) -> int:
        """C, the number of categories."""
        return self.margin.numel()

    def forward(self, logits: Tensor, labels: Tensor, *, normalizer: float | Tensor | None = None) -> Tensor:
        """Loss of logits (N, C, ...) against labels (N, ...) or probabilities of the logits' shape."""
        loss, _ = as_operator(functional.cross_entropy)(
            logits, labels, self.margin, label_smoothing=self.label_smoothing, **self.options(normalizer)
        )
        if self.reduction == "none":
            return reference.softmax_equalization(
                logits, labels, self.margin, label_smoothing=self.label_smoothing, ignore_index=self.ignore_index
            )
        return loss


class BalancedSoftmaxLoss(MarginLoss):
    r"""Balanced Softmax: the softmax weighs every category by its training count.

    $$ p_i^j = \frac{n_j e^{z_i^j}}{\sum_k n_k e^{z_i^k}} $$

    Ren, Yu, Sheng, Ma, Zhao, Yi, Li: Balanced Meta-Softmax for Long-Tailed Visual Recognition. NeurIPS 2020.

    Args:
        category_counts: n_j, C of them. A category without samples counts as if it had one.
        label_smoothing: epsilon in [0, 1); as in `torch.nn.CrossEntropyLoss`.
        reduction: "mean", "sum" or "none"; see `CategoryLoss`.
        ignore_index: the label of samples that do not count.
    """

    def __init__(
        self,
        category_counts: CategoryNumbers,
        *,
        label_smoothing: float = 0.0,
        reduction: Reduction = "mean",
        ignore_index: int = IGNORE,
    ) -> None:
        counts = per_category("category_counts", category_counts)
        super().__init__(at_least_one_sample(counts).log(), label_smoothing, reduction, ignore_index)


class LogitAdjustmentLoss(MarginLoss):
    r"""Logit adjustment during training: the log prior, scaled, is added to the logits.

    $$ p_i^j \propto e^{z_i^j + \log(\pi_j^\tau + \epsilon)}, \quad \pi_j = n_j / \sum_k n_k $$

    With tau = 1 it is Balanced Softmax up to a constant. epsilon = 1e-12, as in the published code.

    Menon, Jayasumana, Rawat, Jain, Veit, Kumar: Long-Tail Learning via Logit Adjustment. ICLR 2021.

    Args:
        category_counts: n_j, C of them. A category without samples gets the margin log(epsilon), -27.6.
        strength: tau.
        label_smoothing: epsilon in [0, 1); as in `torch.nn.CrossEntropyLoss`.
        reduction: "mean", "sum" or "none"; see `CategoryLoss`.
        ignore_index: the label of samples that do not count.
    """

    def __init__(
        self,
        category_counts: CategoryNumbers,
        *,
        strength: float = 1.0,
        label_smoothing: float = 0.0,
        reduction: Reduction = "mean",
        ignore_index: int = IGNORE,
    ) -> None:
        check_number("strength", strength)
        counts = per_category("category_counts", category_counts)
        margin = ((counts / counts.sum()) ** strength + 1e-12).log()
        super().__init__(margin, label_smoothing, reduction, ignore_index)
        self.strength = strength


class LADELoss(SingleLabelLoss):
    r"""LADE: Balanced Softmax and a regulariser that disentangles the logits from the training prior.

    $$ L = CE(z + \log \pi, y) + a R $$
    $$ R = -\sum_j \pi_j \left( \frac{1}{N_j} \sum_{i: y_i = j} z_i^j - M_j - \lambda M_j^2 \right), \quad
       M_j = \log \frac{1}{N} \sum_i \frac{e^{z_i^j}}{C \pi_j} $$

    N_j are the samples of category j in the batch; without any, its first term is 0. R is a property of the batch. It
    counts once for each sample, so that "sum" and `normalizer` are multiples of "mean" as for any other loss.

    Hong, Han, Choi, Seo, Kim, Chang: Disentangling Label Distribution for Long-Tailed Visual Recognition. CVPR 2021.

    Args:
        category_counts: n_j, C of them; pi_j is their share, in the margin log(pi_j + 1e-9). A category without samples
            has the margin -20.7 and no part in R.
        weight: a. The published code has 0.05 for iNaturalist.
        penalty: lambda. The published code has 0.5 for iNaturalist.
        reduction: "mean", "sum" or "none"; see `CategoryLoss`.
        ignore_index: the label of samples that do not count.
    """

    category_prior: Tensor  # (C,)

    def __init__(
        self,
        category_counts: CategoryNumbers,
        *,
        weight: float = 0.1,
        penalty: float = 0.1,
        reduction: Reduction = "mean",
        ignore_index: int = IGNORE,
    ) -> None:
        super().__init__(reduction, ignore_index)
        check_number("weight", weight)
        check_number("penalty", penalty)
        counts = per_category("category_counts", category_counts)
        self.register_buffer("category_prior", counts / counts.sum(), persistent=False)
        self.weight = weight
        self.penalty = penalty

    def forward(self, logits: Tensor, labels: Tensor, *, normalizer: float | Tensor | None = None) -> Tensor:
        """Loss of logits (N, C, ...) against labels (N, ...)."""
        loss, _ = as_operator(functional.lade_cross_entropy)(
            logits,
            labels,
            self.category_prior,
            weight=self.weight,
            penalty=self.penalty,
            **self.options(normalizer),
        )
        if self.reduction == "none":
            return reference.lade(
                logits, labels, self.category_prior, self.weight, self.penalty, ignore_index=self.ignore_index
            )
        return loss


class SeesawLoss(SingleLabelLoss):
    r"""Seesaw: samples push rarer categories down less, and categories they are confused with more.

    $$ L = -\frac{1}{N} \sum_i \log \frac{e^{z_i^y}}{\sum_j M_{yj} S_i^j e^{z_i^j}} $$
    $$ M_{yj} = \min(1, n_j / n_y)^p, \quad S_i^j = \max(1, \sigma_i^j / \max(\sigma_i^y, 0.01))^q $$

    sigma is the softmax of z; M and S are constants of the step. n_j are the samples of category j so far, the current
    batch included and at least 1. They are gathered in training only and summed over ranks, so that N ranks hold what
    one rank would (the published code keeps them per GPU). For detection wrap the loss in `WithObjectness`.

    Wang, Zhang, Zang, Cao, Pang, Gong, Chen, Liu, Loy, Lin: Seesaw Loss for Long-Tailed Instance Segmentation.
    CVPR 2021.

    Args:
        num_classes: C.
        mitigation: p.
        compensation: q.
        reduction: "mean", "sum" or "none"; see `CategoryLoss`.
        ignore_index: the label of samples that do not count.
    """

    category_counts: Tensor  # (C,)  n_j

    def __init__(
        self,
        num_classes: int,
        *,
        mitigation: float = 0.8,
        compensation: float = 2.0,
        reduction: Reduction = "mean",
        ignore_index: int = IGNORE,
    ) -> None:
        super().__init__(reduction, ignore_index)
        check_num_classes(num_classes)
        check_number("mitigation", mitigation)
        check_number("compensation", compensation)
        self.register_buffer("category_counts", torch.zeros(num_classes, dtype=torch.float64))
        self.mitigation = mitigation
        self.compensation = compensation

    @property
    def num_classes(self) -> int:
        """C, the number of categories."""
        return self.category_counts.numel()

    def forward(self, logits: Tensor, labels: Tensor, *, normalizer: float | Tensor | None = None) -> Tensor:
        """Loss of logits (N, C, ...) against labels (N, ...)."""
        counts = self.counts_with(logits, labels)
        loss, _ = as_operator(functional.seesaw_cross_entropy)(
            logits,
            labels,
            counts,
            mitigation=self.mitigation,
            compensation=self.compensation,
            **self.options(normalizer),
        )
        if self.changes_state():
            torch.mul(counts, 1, out=self.category_counts)  # `torch.func` would refuse `copy_`
        if self.reduction == "none":
            return reference.seesaw(
                logits, labels, held(counts), self.mitigation, self.compensation, ignore_index=self.ignore_index
            )
        return loss

    def counts_with(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The counts and, in training, a batch that is added as if all ranks were one; every rank must call."""
        check_logits(logits, self.category_counts)
        refuse_soft_labels(logits, labels, "the factors of Seesaw depend on the one category of a sample")
        labels, _ = check_labels(logits, labels, background=False, ignore_index=self.ignore_index)
        if not self.changes_state():
            return self.category_counts
        batch = torch.zeros_like(self.category_counts)
        batch.index_add_(0, labels.flatten().clamp(min=0), (labels.flatten() >= 0).double())
        return self.category_counts + sum_over_ranks(batch)


class LDAMLoss(SingleLabelLoss, BatchedState):
    r"""LDAM: the rarer the category, the larger the margin its samples must keep; re-weighted late in training (DRW).

    $$ L = -\frac{1}{N} \sum_i w_y \log
       \frac{e^{s (z_i^y - \Delta_y)}}{e^{s (z_i^y - \Delta_y)} + \sum_{j \ne y} e^{s z_i^j}}, \quad
       \Delta_j = \Delta \left( \frac{\min_k n_k}{n_j} \right)^{1/4} $$

    The logits are meant to be cosines, those of a `CosineClassifier` with temperature 1. w_j = 1 in the first
    `deferral` training steps and `effective_number_weights(category_counts, beta)` after them. With "mean" the sum is
    divided by the number of samples, where the published code divides by the sum of their weights.

    Cao, Wei, Gaidon, Arechiga, Ma: Learning Imbalanced Datasets with Label-Distribution-Aware Margin Loss.
    NeurIPS 2019.

    Args:
        category_counts: n_j, C of them. A category without samples counts as if it had one.
        max_margin: Delta, the margin of the rarest category.
        scale: s.
        deferral: training steps before the weights apply, in the paper 80 % of the training; None never weights. A
            step is a call in training mode, or a `one_batch`. The steps so far are saved with the model.
        beta: beta of `effective_number_weights`.
        reduction: "mean", "sum" or "none"; see `CategoryLoss`.
        ignore_index: the label of samples that do not count.
    """

    label_margin: Tensor  # (C,)  s Delta_j
    deferred_weights: Tensor  # (C,)
    num_steps: Tensor  # () int64

    def __init__(
        self,
        category_counts: CategoryNumbers,
        *,
        max_margin: float = 0.5,
        scale: float = 30.0,
        deferral: int | None = None,
        beta: float = 0.9999,
        reduction: Reduction = "mean",
        ignore_index: int = IGNORE,
    ) -> None:
        super().__init__(reduction, ignore_index)
        check_number("max_margin", max_margin)
        check_number("scale", scale, above=0)
        if deferral is not None:
            check_number("deferral", deferral)
        counts = at_least_one_sample(per_category("category_counts", category_counts))
        self.max_margin = max_margin
        self.scale = scale
        self.deferral = deferral
        self.beta = beta
        margin = max_margin * (counts.min() / counts) ** 0.25
        self.register_buffer("label_margin", scale * margin, persistent=False)
        self.register_buffer("deferred_weights", effective_number_weights(category_counts, beta), persistent=False)
        self.register_buffer("num_steps", torch.zeros((), dtype=torch.int64))

    def category_weights(self) -> Tensor:
        """w_j of the coming step, (C,)."""
        if self.deferral is None:
            return torch.ones_like(self.deferred_weights)
        return torch.where(self.num_steps >= self.deferral, self.deferred_weights, 1.0)

    def add_batch(self, calls: Sequence[None], *, micro_batches: int) -> None:
        """Count a training step, however many calls it has."""
        torch.add(self.num_steps, 1, out=self.num_steps)  # `torch.func` would refuse `+=`

    def forward(self, logits: Tensor, labels: Tensor, *, normalizer: float | Tensor | None = None) -> Tensor:
        """Loss of logits (N, C, ...) against labels (N, ...)."""
        weight = self.category_weights()
        loss, _ = as_operator(functional.cross_entropy)(
            logits,
            labels,
            weight=weight,
            label_margin=self.label_margin,
            scale=self.scale,
            **self.options(normalizer),
        )
        if self.changes_state():
            self.record_call(None)
        if self.reduction == "none":
            return reference.ldam(
                logits,
                labels,
                self.label_margin / self.scale,
                self.scale,
                held(weight),
                ignore_index=self.ignore_index,
            )
        return loss


def effective_number_weights(category_counts: CategoryNumbers, beta: float = 0.9999) -> Tensor:
    r"""Class-balanced weights from the effective number of samples, (C,) float64.

    $$ w_j \propto \frac{1 - \beta}{1 - \beta^{n_j}} $$

    normalised to a mean of 1. beta = 0 weights all categories alike; near 1 the weights approach 1 / n_j. Use it with
    any loss that takes a `weight`:

        criterion = equigrad.CrossEntropyLoss(weight=equigrad.effective_number_weights(counts, 0.999))

    Cui, Jia, Lin, Song, Belongie: Class-Balanced Loss Based on Effective Number of Samples. CVPR 2019.

    Args:
        category_counts: n_j, C of them. A category without samples is weighted as if it had one, and left out of the
            normalisation.
        beta: in [0, 1).
    """
    check_number("beta", beta)
    if beta >= 1:
        raise ValueError(f"beta must be within [0, 1), got {beta}")
    counts = per_category("category_counts", category_counts)
    has_samples = counts > 0
    if beta == 0:
        return torch.ones_like(counts)
    # 1 - beta^n without the cancellation of a beta near 1.
    weights = (1 - beta) / -torch.expm1(at_least_one_sample(counts) * math.log(beta))
    return weights / weights[has_samples].mean()
