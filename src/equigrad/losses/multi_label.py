"""Losses with an independent sigmoid for each category that are compared with Sigmoid-EQL, EFL and EQFL.

All take class indices with BACKGROUND, or 0/1 targets of the logits' shape; all but the focal losses soft targets too.
"""

import torch
from torch import Tensor

from equigrad.labels import IGNORE
from equigrad.losses import functional, mappings, reference
from equigrad.losses.category_loss import CategoryLoss
from equigrad.losses.equalization import SigmoidEqualizationLoss, check_balance
from equigrad.losses.inputs import (
    CategoryNumbers,
    Reduction,
    at_least_one_sample,
    check_labels,
    check_logits,
    check_number,
    has_target_matrix,
    per_category,
    require_quality,
)
from equigrad.losses.operators import as_operator, held
from equigrad.losses.seeded_uniform import SeededUniform
from equigrad.statistics import sum_over_ranks


class BinaryCrossEntropyLoss(CategoryLoss):
    r"""Binary cross-entropy, the baseline.

    $$ L = \frac{1}{N} \sum_i w_{y_i} \sum_j BCE(p_i^j, y_i^j) $$

    Args:
        weight: w_j, C of them, such as `effective_number_weights`: all entries of a sample are weighted by
            its category, those of background by 1. With targets, by the mean of its categories, in proportion to them.
        reduction: "mean", "sum" or "none"; see `CategoryLoss`.
        ignore_index: the label of samples that do not count.
    """

    weight: Tensor | None  # (C,)

    takes_objectness = True

    def __init__(
        self,
        *,
        weight: CategoryNumbers | None = None,
        reduction: Reduction = "mean",
        ignore_index: int = IGNORE,
    ) -> None:
        super().__init__(reduction, ignore_index)
        weight = None if weight is None else per_category("weight", weight)
        self.register_buffer("weight", weight, persistent=False)

    def forward(
        self,
        logits: Tensor,
        labels: Tensor,
        quality: Tensor | None = None,
        *,
        normalizer: float | Tensor | None = None,
        objectness: bool = False,
    ) -> Tensor:
        """Loss of logits (N, C, ...) against labels (N, ...), or targets of the logits' shape: 0/1, or soft in [0, 1].

        Positives of labels, or of 0/1 targets, may have a quality in [0, 1] as their target.
        """
        loss, _ = as_operator(functional.binary_cross_entropy)(
            logits,
            labels,
            quality=quality,
            soft_targets=True,
            weight=self.weight,
            objectness=objectness,
            **self.options(normalizer),
        )
        if self.reduction == "none":
            return reference.binary_cross_entropy(logits, labels, self.weight, quality, ignore_index=self.ignore_index)
        return loss


class FocalLoss(CategoryLoss):
    r"""Focal loss: well-classified entries count less. EFL without statistics.

    $$ FL(p_t) = -\alpha_t (1 - p_t)^\gamma \log p_t $$

    Lin, Goyal, Girshick, He, Dollár: Focal Loss for Dense Object Detection. ICCV 2017.

    Args:
        focus: gamma.
        positive_balance: alpha_t of positive entries (1 - alpha_t of negative ones); None switches it off.
        weight: C weights of the samples, by their category, as in `BinaryCrossEntropyLoss`.
        reduction: "mean", "sum" or "none"; see `CategoryLoss`.
        ignore_index: the label of samples that do not count.
    """

    weight: Tensor | None  # (C,)

    takes_objectness = True

    def __init__(
        self,
        *,
        focus: float = 2.0,
        positive_balance: float | None = 0.25,
        weight: CategoryNumbers | None = None,
        reduction: Reduction = "mean",
        ignore_index: int = IGNORE,
    ) -> None:
        super().__init__(reduction, ignore_index)
        check_number("focus", focus)
        check_balance(positive_balance)
        weight = None if weight is None else per_category("weight", weight)
        self.register_buffer("weight", weight, persistent=False)
        self.focus = focus
        self.positive_balance = positive_balance

    def forward(
        self,
        logits: Tensor,
        labels: Tensor,
        *,
        normalizer: float | Tensor | None = None,
        objectness: bool = False,
    ) -> Tensor:
        """Loss of logits (N, C, ...) against labels (N, ...) or 0/1 targets of the logits' shape."""
        loss, _ = as_operator(functional.binary_cross_entropy)(
            logits,
            labels,
            positive_balance=self.positive_balance,
            focus=self.focus,
            weight=self.weight,
            objectness=objectness,
            **self.options(normalizer),
        )
        if self.reduction == "none":
            return reference.focal(
                logits, labels, self.focus, self.positive_balance, self.weight, ignore_index=self.ignore_index
            )
        return loss


class QualityFocalLoss(CategoryLoss):
    r"""Quality focal loss: a positive's target is its quality, usually the IoU of its box. EQFL without statistics.

    $$ QFL(p) = |y' - p|^\gamma \, BCE(p, y') $$

    Li, Wang, Wu, Chen, Hu, Li, Tang, Yang: Generalized Focal Loss. NeurIPS 2020.

    Args:
        focus: gamma.
        reduction: "mean", "sum" or "none"; see `CategoryLoss`.
        ignore_index: the label of samples that do not count.
    """

    takes_objectness = True

    def __init__(self, *, focus: float = 2.0, reduction: Reduction = "mean", ignore_index: int = IGNORE) -> None:
        super().__init__(reduction, ignore_index)
        check_number("focus", focus)
        self.focus = focus

    def forward(
        self,
        logits: Tensor,
        labels: Tensor,
        quality: Tensor | None = None,
        *,
        normalizer: float | Tensor | None = None,
        objectness: bool = False,
    ) -> Tensor:
        """Loss of logits (N, C, ...) against labels (N, ...), whose positives have a quality (N, ...) in [0, 1].

        Soft targets of the logits' shape need no quality: they are y' itself.
        """
        require_quality(logits, labels, quality)
        loss, _ = as_operator(functional.binary_cross_entropy)(
            logits,
            labels,
            focus=self.focus,
            quality=quality,
            soft_targets=True,
            objectness=objectness,
            **self.options(normalizer),
        )
        if self.reduction == "none":
            return reference.quality_focal(logits, labels, quality, self.focus, ignore_index=self.ignore_index)
        return loss


class FocalEqualizationLoss(SigmoidEqualizationLoss):
    r"""FL + EQL: the weights of Sigmoid-EQL on the focal loss (Sec. 5.2).

    $$ L = \sum_{i,j} (q_j y_i^j + r_j (1 - y_i^j)) \, FL(p_t), \quad r_j = f(G_j), \quad q_j = 1 + \alpha (1 - r_j) $$

    The statistics are those of the product.

    Args:
        num_classes: C, without background.
        focus: gamma of the focal loss.
        positive_balance: alpha_t of positive entries (1 - alpha_t of negative ones); None switches it off.
        positive_boost: alpha, the largest extra weight of a positive sample.
        mapping: f, as in `SigmoidEqualizationLoss`.
        steepness: gamma of the sigmoid mapping.
        midpoint: mu of the sigmoid mapping.
        reweight_positive: False fixes q_j = 1.
        reweight_negative: False fixes r_j = 1; q_j still follows f.
        half_life: steps after which a gradient counts half in the statistics; None never forgets.
        reduction: "mean", "sum" or "none"; see `CategoryLoss`.
        ignore_index: the label of samples that do not count.
    """

    def __init__(
        self,
        num_classes: int,
        *,
        focus: float = 2.0,
        positive_balance: float | None = 0.25,
        positive_boost: float = 4.0,
        mapping: mappings.MappingName | mappings.Mapping = "sigmoid",
        steepness: float = 12.0,
        midpoint: float = 0.8,
        reweight_positive: bool = True,
        reweight_negative: bool = True,
        half_life: float | None = None,
        reduction: Reduction = "mean",
        ignore_index: int = IGNORE,
    ) -> None:
        super().__init__(
            num_classes,
            positive_boost=positive_boost,
            mapping=mapping,
            steepness=steepness,
            midpoint=midpoint,
            reweight_positive=reweight_positive,
            reweight_negative=reweight_negative,
            half_life=half_life,
            reduction=reduction,
            ignore_index=ignore_index,
        )
        check_number("focus", focus)
        check_balance(positive_balance)
        self.focus = focus
        self.positive_balance = positive_balance

    def forward(  # type: ignore[override]  # a focal loss has no quality
        self,
        logits: Tensor,
        labels: Tensor,
        *,
        normalizer: float | Tensor | None = None,
        objectness: bool = False,
    ) -> Tensor:
        """Loss of logits (N, C, ...) against labels (N, ...) or 0/1 targets of the logits' shape."""
        positive_weight, negative_weight = self.category_weights()
        loss, gradient_sums = as_operator(functional.binary_cross_entropy)(
            logits,
            labels,
            positive_weight,
            negative_weight,
            positive_balance=self.positive_balance,
            focus=self.focus,
            objectness=objectness,
            **self.options(normalizer),
        )
        self.record(gradient_sums)
        if self.reduction == "none":
            return reference.focal_equalization(
                logits,
                labels,
                held(positive_weight),
                held(negative_weight),
                self.focus,
                self.positive_balance,
                ignore_index=self.ignore_index,
            )
        return loss


class GradientBlockingLoss(CategoryLoss):
    r"""Grad-Blocking (EQL v1): rare categories get no negative gradient from samples of other categories.

    $$ L = \frac{1}{N} \sum_{i,j} w_i^j \, BCE(p_i^j, y_i^j), \quad w_i^j = 1 - E_i \, T(f_j < \lambda) (1 - y_i^j) $$

    E_i is 1 for a sample with a category and 0 for background, which stays a negative of every category.

    Tan, Wang, Li, Li, Ouyang, Yin, Yan: Equalization Loss for Long-Tailed Object Recognition. CVPR 2020.

    Args:
        category_frequency: f_j, C of them: the share of training images with the category (LVIS), or its number of
            instances (OpenImages).
        threshold: lambda, in the same unit. The published code has 0.00177 for LVIS v0.5, 0.0011 for LVIS v1 and 1652
            instances for OpenImages.
        reduction: "mean", "sum" or "none"; see `CategoryLoss`.
        ignore_index: the label of samples that do not count.
    """

    kept: Tensor  # (C,)  1 for a category that stays a negative of every sample

    def __init__(
        self,
        category_frequency: CategoryNumbers,
        *,
        threshold: float,
        reduction: Reduction = "mean",
        ignore_index: int = IGNORE,
    ) -> None:
        super().__init__(reduction, ignore_index)
        check_number("threshold", threshold)
        frequency = per_category("category_frequency", category_frequency)
        self.register_buffer("kept", (frequency >= threshold).double(), persistent=False)
        self.threshold = threshold

    def forward(
        self,
        logits: Tensor,
        labels: Tensor,
        quality: Tensor | None = None,
        *,
        normalizer: float | Tensor | None = None,
    ) -> Tensor:
        """Loss of logits (N, C, ...) against labels, 0/1 or soft targets; see `BinaryCrossEntropyLoss`."""
        loss, _ = as_operator(functional.binary_cross_entropy)(
            logits,
            labels,
            quality=quality,
            soft_targets=True,
            foreground_weight=self.kept,
            **self.options(normalizer),
        )
        if self.reduction == "none":
            return reference.gradient_blocking(logits, labels, 1 - self.kept, quality, ignore_index=self.ignore_index)
        return loss


class FederatedLoss(CategoryLoss):
    r"""Federated loss: binary cross-entropy over the categories of the batch and a random sample of the others.

    $$ L = \frac{1}{N} \sum_i \sum_{j \in S} BCE(p_i^j, y_i^j) $$

    In a federated data set an image is annotated for some categories only, so most negatives are unverified.
    S holds the categories of the batch and, if they are fewer than `num_sampled`, others drawn without replacement with
    a probability in proportion to n_j^power. With `torch.distributed` the categories of the batch are those of all
    ranks (one collective of C numbers) and all ranks draw the same, so that they share one S. The random numbers
    depend on the seed and on the number of calls so far, which is saved with the model. In evaluation S is every
    category.

    Zhou, Koltun, Krähenbühl: Probabilistic Two-Stage Detection. arXiv 2103.07461, 2021 (its LVIS model).

    Args:
        category_counts: n_j, C of them, usually image counts. A category without samples is never drawn.
        num_sampled: minimum size of S, if enough categories have samples.
        power: power of the counts.
        seed: seed of the random numbers; the same on all ranks.
        reduction: "mean", "sum" or "none"; see `CategoryLoss`.
        ignore_index: the label of samples that do not count.
    """

    category_counts: Tensor  # (C,)

    def __init__(
        self,
        category_counts: CategoryNumbers,
        *,
        num_sampled: int = 50,
        power: float = 0.5,
        seed: int = 0,
        reduction: Reduction = "mean",
        ignore_index: int = IGNORE,
    ) -> None:
        super().__init__(reduction, ignore_index)
        if isinstance(num_sampled, bool) or not isinstance(num_sampled, int):
            raise TypeError(f"num_sampled must be an int, got {type(num_sampled).__name__}")
        check_number("num_sampled", num_sampled)
        check_number("power", power)
        self.register_buffer("category_counts", per_category("category_counts", category_counts), persistent=False)
        self.num_sampled = num_sampled
        self.power = power
        self.uniform = SeededUniform(seed)

    @property
    def num_classes(self) -> int:
        """C, without background."""
        return self.category_counts.numel()

    def forward(
        self,
        logits: Tensor,
        labels: Tensor,
        quality: Tensor | None = None,
        *,
        normalizer: float | Tensor | None = None,
    ) -> Tensor:
        """Loss of logits (N, C, ...) against labels, 0/1 or soft targets; see `BinaryCrossEntropyLoss`."""
        with self.uniform.refunded_on_error():
            is_sampled = self.sample_categories(logits, labels)
            loss, _ = as_operator(functional.binary_cross_entropy)(
                logits,
                labels,
                negative_weight=is_sampled,
                quality=quality,
                soft_targets=True,
                **self.options(normalizer),
            )
        if self.reduction == "none":
            return reference.federated(logits, labels, is_sampled, quality, ignore_index=self.ignore_index)
        return loss

    def sample_categories(self, logits: Tensor, labels: Tensor) -> Tensor:
        """S as (C,) of 0/1; in training every rank must call, also without samples."""
        check_logits(logits, self.category_counts)
        labels, _ = check_labels(logits, labels, background=True, multi_label=True, ignore_index=self.ignore_index)
        if not self.changes_state():
            return torch.ones_like(self.category_counts)
        is_present = sum_over_ranks(_has_sample(logits, labels)) > 0
        # The largest of log w + Gumbel noise are a sample without replacement, w in proportion to the probability.
        noise = -self.uniform((self.num_classes,), logits.device).double().clamp(min=1e-9).log()
        priority = self.power * self.category_counts.log() - noise.log()
        priority = torch.where(self.category_counts > 0, priority, -torch.inf).masked_fill(is_present, torch.inf)
        best = priority.topk(min(self.num_sampled, self.num_classes)).indices
        is_best = torch.zeros_like(is_present).scatter_(0, best, True)
        return (is_present | is_best & (priority > -torch.inf)).double()


def _has_sample(logits: Tensor, labels: Tensor) -> Tensor:
    """(C,) float64: greater 0 for the categories that a sample of the batch has."""
    if has_target_matrix(logits, labels):
        return labels.movedim(1, 0).flatten(1).bool().any(1).double()
    has_category = labels.flatten() >= 0
    count = torch.zeros(logits.shape[1], dtype=torch.float64, device=logits.device)
    return count.index_add_(0, labels.flatten().clamp(min=0), has_category.double())


class EffectiveClassMarginLoss(CategoryLoss):
    r"""ECM: binary cross-entropy with the margins and weights that bound the average precision of each category.

    $$ L = \frac{1}{N} \sum_{i,j} m_j \, BCE(\hat p_i^j, y_i^j), \quad
       \hat p = \frac{w_j^+ e^z}{w_j^+ e^z + w_j^- e^{-z}} = \sigma(2 z + \tfrac14 \log (n_j^+ / n_j^-)) $$
    $$ w_j^\pm = 1 / \gamma_j^\pm, \quad \gamma_j^\pm = \frac{(n_j^\mp)^{1/4}}{(n_j^+)^{1/4} + (n_j^-)^{1/4}}, \quad
       m_j = a_j \log(1 + 1 / a_j), \quad a_j = n_j^- / n_j^+ $$

    n_j^+ = n_j, and n_j^- are the samples of all other categories and of background. The published code treats
    background as one more category; here wrap the loss in `WithObjectness`, whose column is plain. Inference uses
    sigmoid(z).

    Cho, Krähenbühl: Long-Tail Detection with Effective Class-Margins. ECCV 2022.

    Args:
        category_counts: n_j, C of them. A category without samples counts as if it had one.
        background_ratio: background samples for each sample with a category; 6.3313 is what the published code measured
            for Mask R-CNN on LVIS, 0 is right for data without background.
        reduction: "mean", "sum" or "none"; see `CategoryLoss`.
        ignore_index: the label of samples that do not count.
    """

    positive_counts: Tensor  # (C,)  n_j^+
    negative_counts: Tensor  # (C,)  n_j^-
    margin: Tensor  # (C,)
    weight: Tensor  # (C,)  m_j

    def __init__(
        self,
        category_counts: CategoryNumbers,
        *,
        background_ratio: float = 6.3313,
        reduction: Reduction = "mean",
        ignore_index: int = IGNORE,
    ) -> None:
        super().__init__(reduction, ignore_index)
        check_number("background_ratio", background_ratio)
        positive = at_least_one_sample(per_category("category_counts", category_counts))
        negative = positive.sum() * (1 + background_ratio) - positive
        if not bool((negative > 0).all()):
            raise ValueError("category_counts of one category leave no negatives: background_ratio must be > 0")
        odds = negative / positive
        self.register_buffer("positive_counts", positive, persistent=False)
        self.register_buffer("negative_counts", negative, persistent=False)
        self.register_buffer("margin", -odds.log() / 4, persistent=False)
        self.register_buffer("weight", odds * torch.log1p(1 / odds), persistent=False)
        self.background_ratio = background_ratio

    def forward(
        self,
        logits: Tensor,
        labels: Tensor,
        quality: Tensor | None = None,
        *,
        normalizer: float | Tensor | None = None,
    ) -> Tensor:
        """Loss of logits (N, C, ...) against labels, 0/1 or soft targets; see `BinaryCrossEntropyLoss`."""
        loss, _ = as_operator(functional.binary_cross_entropy)(
            logits,
            labels,
            self.weight,
            self.weight,
            quality=quality,
            soft_targets=True,
            margin=self.margin,
            scale=2.0,
            **self.options(normalizer),
        )
        if self.reduction == "none":
            return reference.effective_class_margin(
                logits, labels, self.positive_counts, self.negative_counts, quality, ignore_index=self.ignore_index
            )
        return loss
