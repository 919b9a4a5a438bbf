"""The paper's four losses: Sigmoid-EQL, Softmax-EQL, EFL and EQFL (Sec. 4).

They record the gradient of the value they return, in closed form, while they form it: nothing has to be hooked, fed or
kept in step. The weights of a batch come from earlier batches only.
"""

from typing import Literal

import torch
from torch import Tensor

from equigrad.labels import IGNORE
from equigrad.losses import functional, mappings, reference
from equigrad.losses.blockwise import DeviceSums, GradientSums
from equigrad.losses.category_loss import CategoryLoss
from equigrad.losses.inputs import (
    Reduction,
    check_choice,
    check_label_smoothing,
    check_number,
    refuse_smoothed_targets,
    require_quality,
)
from equigrad.losses.kernel_choice import kernels_for
from equigrad.losses.operators import as_operator, held
from equigrad.statistics import GradientStatistics

Indicator = Literal["positive", "negative", "ratio"]
"""What Softmax-EQL takes as the prior: G_j^pos, G_j^neg or G_j."""


class EqualizationLoss(CategoryLoss):
    """The base of a loss that owns the gradient statistics it reads.

    A subclass derives its weights from `self.statistics` in `category_weights`, computes its loss with a function of
    `equigrad.losses.functional`, and passes the gradient sums that come with it to `record`.

    Args:
        num_classes: C, without background.
        half_life: steps after which a gradient counts half in the statistics; None never forgets.
        reduction: "mean", "sum" or "none"; see `CategoryLoss`.
        ignore_index: the label of samples that do not count.
    """

    def __init__(
        self, num_classes: int, half_life: float | None, reduction: Reduction, ignore_index: int = IGNORE
    ) -> None:
        super().__init__(reduction, ignore_index)
        self.statistics = GradientStatistics(num_classes, half_life)

    @property
    def num_classes(self) -> int:
        """C, without background."""
        return self.statistics.num_classes

    def record(self, gradient_sums: GradientSums) -> None:
        """Add a batch to the statistics, in training only: evaluation must leave no trace."""
        if not self.changes_state():
            return
        if isinstance(gradient_sums, DeviceSums) and not self.statistics.is_open:
            from equigrad.losses import device_pass

            device_pass.add_to_statistics(self.statistics, gradient_sums)
        else:
            self.statistics.update(*gradient_sums)


class SigmoidEqualizationLoss(EqualizationLoss):
    r"""Sigmoid-EQL: binary cross-entropy re-weighted by the gradient ratio (Sec. 4.1).

    $$ L = \sum_{i,j} (q_j y_i^j + r_j (1 - y_i^j)) \, BCE(p_i^j, y_i^j) $$
    $$ r_j = f(G_j), \quad q_j = 1 + \alpha (1 - r_j) $$

    With soft targets or a quality the target of a positive entry is y' in (0, 1]: it weighs q_j, costs BCE(p, y'), and
    its |gradient| q_j |p - y'| is positive gradient. An entry with the target 0 is a negative.

    Args:
        num_classes: C, without background.
        positive_boost: alpha, the largest extra weight of a positive sample. The paper does not give it; its code
            uses 4 on LVIS and OpenImages.
        mapping: f, from gradient ratio to negative weight: "sigmoid", "linear", "square", "sqrt" or a callable. The
            result is clipped to [0, 1].
        steepness: gamma of the sigmoid mapping.
        midpoint: mu of the sigmoid mapping.
        reweight_positive: False fixes q_j = 1.
        reweight_negative: False fixes r_j = 1; q_j still follows f.
        half_life: steps after which a gradient counts half in the statistics; None never forgets.
        reduction: "mean", "sum" or "none"; see `CategoryLoss`.
        ignore_index: the label of samples that do not count.
    """

    takes_objectness = True

    def __init__(
        self,
        num_classes: int,
        *,
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
        super().__init__(num_classes, half_life, reduction, ignore_index)
        check_number("positive_boost", positive_boost)
        check_number("steepness", steepness)
        check_number("midpoint", midpoint)
        self.positive_boost = positive_boost
        self.mapping = mappings.resolve(mapping, steepness, midpoint)
        self.reweight_positive = reweight_positive
        self.reweight_negative = reweight_negative

    def category_weights(self) -> tuple[Tensor, Tensor]:
        """Weights of positive (q_j) and of negative (r_j) samples, (C,) each."""
        is_triton = kernels_for(self.statistics.positive.device) == "triton"
        if is_triton and (named := mappings.name_of(self.mapping)) is not None:
            from equigrad.losses.kernels import weights

            positive, negative = self.statistics.positive, self.statistics.negative
            options = weights.sigmoid_weights(positive, negative, positive_boost=self.positive_boost, **named)
            positive_weight, negative_weight = options.run()
        else:
            ratio = self.statistics.ratio
            if mappings.is_one_at_infinity(self.mapping):
                negative_weight = self.mapping(ratio).clamp_(0, 1)
            else:
                is_unknown = ratio == torch.inf  # no negative gradient yet: balanced, whatever f is
                weight = self.mapping(ratio.masked_fill(is_unknown, 1.0)).clamp(0, 1)
                negative_weight = weight.masked_fill(is_unknown, 1.0)
            positive_weight = torch.rsub(negative_weight, 1 + self.positive_boost, alpha=self.positive_boost)
        if not self.reweight_positive:
            positive_weight = torch.ones_like(positive_weight)
        if not self.reweight_negative:
            negative_weight = torch.ones_like(negative_weight)
        return positive_weight, negative_weight

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
        refuse_smoothed_targets(logits, labels, quality)
        positive_weight, negative_weight = self.category_weights()
        loss, gradient_sums = as_operator(functional.binary_cross_entropy)(
            logits,
            labels,
            positive_weight,
            negative_weight,
            quality=quality,
            soft_targets=True,
            objectness=objectness,
            **self.options(normalizer),
        )
        self.record(gradient_sums)
        if self.reduction == "none":
            return reference.sigmoid_equalization(
                logits, labels, held(positive_weight), held(negative_weight), quality, ignore_index=self.ignore_index
            )
        return loss


class SoftmaxEqualizationLoss(EqualizationLoss):
    r"""Softmax-EQL: cross-entropy with a margin from the accumulated positive gradient (Sec. 4.2).

    $$ p_i^j = \frac{(G_j^{pos})^\pi e^{z_i^j}}{\sum_k (G_k^{pos})^\pi e^{z_i^k}} $$

    Inference uses the plain logits.

    Args:
        num_classes: C.
        prior_power: pi, the degree of calibration. The paper does not give it; its code uses 1.
        prior_floor: minimum G of a category, so that an unseen one has a finite margin.
        indicator: which value is the prior: "positive" (G_j^pos), "negative" (G_j^neg) or "ratio" (G_j).
        label_smoothing: epsilon in [0, 1); as in `torch.nn.CrossEntropyLoss`.
        half_life: steps after which a gradient counts half in the statistics; None never forgets.
        reduction: "mean", "sum" or "none"; see `CategoryLoss`.
        ignore_index: the label of samples that do not count.
    """

    takes_background = False

    def __init__(
        self,
        num_classes: int,
        *,
        prior_power: float = 1.0,
        prior_floor: float = 1e-4,
        indicator: Indicator = "positive",
        label_smoothing: float = 0.0,
        half_life: float | None = None,
        reduction: Reduction = "mean",
        ignore_index: int = IGNORE,
    ) -> None:
        super().__init__(num_classes, half_life, reduction, ignore_index)
        check_number("prior_power", prior_power)
        check_number("prior_floor", prior_floor, above=0)
        check_label_smoothing(label_smoothing)
        check_choice("indicator", indicator, Indicator)
        self.prior_power = prior_power
        self.prior_floor = prior_floor
        self.indicator: Indicator = indicator
        self.label_smoothing = label_smoothing

    def category_weights(self) -> Tensor:
        """Margins added to the logits, (C,)."""
        statistics, is_ratio = self.statistics, self.indicator == "ratio"
        prior = statistics.negative if self.indicator == "negative" else statistics.positive
        if kernels_for(prior.device) == "triton":
            from equigrad.losses.kernels import weights

            power, floor, over = self.prior_power, self.prior_floor, statistics.negative if is_ratio else None
            return weights.margin(prior, over, prior_power=power, prior_floor=floor).run()[0]
        if is_ratio:
            ratio = statistics.ratio
            prior = torch.where(ratio.isinf(), 1.0, ratio)  # no negative gradient yet: balanced
        margin = prior.clamp(min=self.prior_floor).log_()
        return margin if self.prior_power == 1 else margin.mul_(self.prior_power)

    def forward(self, logits: Tensor, labels: Tensor, *, normalizer: float | Tensor | None = None) -> Tensor:
        """Loss of logits (N, C, ...) against labels (N, ...) or probabilities of the logits' shape."""
        margin, label_smoothing = self.category_weights(), self.label_smoothing
        loss, gradient_sums = as_operator(functional.cross_entropy)(
            logits, labels, margin, label_smoothing=label_smoothing, **self.options(normalizer)
        )
        self.record(gradient_sums)
        if self.reduction == "none":
            return reference.softmax_equalization(
                logits, labels, held(margin), label_smoothing=label_smoothing, ignore_index=self.ignore_index
            )
        return loss


class EqualizedFocalLoss(EqualizationLoss):
    r"""EFL: focal loss whose focus and weight follow the gradient ratio (Sec. 4.3).

    $$ EFL(p_t) = -\alpha_t w^j (1 - p_t)^{\gamma^j} \log p_t $$
    $$ \gamma^j = \gamma_b + s (1 - G_j), \quad w^j = \gamma^j / \gamma_b $$

    G_j is clipped to [0, 1]. gamma^j and w^j are constants of the step; the modulating factor is differentiated.

    Args:
        num_classes: C, without background.
        base_focus: gamma_b.
        focus_scale: s, the largest extra focus. 8 for the ATSS family, 4 for YOLOX* in the published configurations.
        positive_balance: alpha_t of positive samples (1 - alpha_t of negative ones); None switches it off.
        focusing: False keeps gamma^j = gamma_b.
        weighting: False keeps w^j = 1.
        half_life: steps after which a gradient counts half in the statistics; None never forgets.
        reduction: "mean", "sum" or "none"; see `CategoryLoss`.
        ignore_index: the label of samples that do not count.
    """

    takes_objectness = True

    def __init__(
        self,
        num_classes: int,
        *,
        base_focus: float = 2.0,
        focus_scale: float = 8.0,
        positive_balance: float | None = 0.25,
        focusing: bool = True,
        weighting: bool = True,
        half_life: float | None = None,
        reduction: Reduction = "mean",
        ignore_index: int = IGNORE,
    ) -> None:
        super().__init__(num_classes, half_life, reduction, ignore_index)
        check_number("base_focus", base_focus, above=0)
        check_number("focus_scale", focus_scale)
        check_balance(positive_balance)
        self.base_focus = base_focus
        self.focus_scale = focus_scale
        self.positive_balance = positive_balance
        self.focusing = focusing
        self.weighting = weighting

    def category_weights(self) -> tuple[Tensor, Tensor]:
        """Focus (gamma^j) and weight (w^j) of the categories, (C,) each."""
        focus, weight = modulation(self.statistics, self.base_focus, self.focus_scale)
        if not self.focusing:
            focus = torch.full_like(focus, self.base_focus)
        return focus, weight if self.weighting else torch.ones_like(weight)

    def forward(
        self,
        logits: Tensor,
        labels: Tensor,
        *,
        normalizer: float | Tensor | None = None,
        objectness: bool = False,
    ) -> Tensor:
        """Loss of logits (N, C, ...) against labels (N, ...) or 0/1 targets of the logits' shape."""
        focus, weight = self.category_weights()
        loss, gradient_sums = as_operator(functional.binary_cross_entropy)(
            logits,
            labels,
            weight,
            weight,
            positive_balance=self.positive_balance,
            focus=focus,
            objectness=objectness,
            **self.options(normalizer),
        )
        self.record(gradient_sums)
        if self.reduction == "none":
            return reference.equalized_focal(
                logits, labels, held(focus), held(weight), self.positive_balance, ignore_index=self.ignore_index
            )
        return loss


class EqualizedQualityFocalLoss(EqualizationLoss):
    r"""EQFL: quality focal loss whose focus and weight follow the gradient ratio (Sec. 4.3).

    $$ EQFL(p) = w^j |y' - p|^{\gamma^j} BCE(p, y') $$
    $$ \gamma^j = \gamma_b + s (1 - G_j), \quad w^j = \gamma^j / \gamma_b $$

    Args:
        num_classes: C, without background.
        base_focus: gamma_b.
        focus_scale: s, the largest extra focus. The published YOLOX* configurations use 4.
        half_life: steps after which a gradient counts half in the statistics; None never forgets.
        reduction: "mean", "sum" or "none"; see `CategoryLoss`.
        ignore_index: the label of samples that do not count.
    """

    takes_objectness = True

    def __init__(
        self,
        num_classes: int,
        *,
        base_focus: float = 2.0,
        focus_scale: float = 8.0,
        half_life: float | None = None,
        reduction: Reduction = "mean",
        ignore_index: int = IGNORE,
    ) -> None:
        super().__init__(num_classes, half_life, reduction, ignore_index)
        check_number("base_focus", base_focus, above=0)
        check_number("focus_scale", focus_scale)
        self.base_focus = base_focus
        self.focus_scale = focus_scale

    def category_weights(self) -> tuple[Tensor, Tensor]:
        """Focus (gamma^j) and weight (w^j) of the categories, (C,) each."""
        return modulation(self.statistics, self.base_focus, self.focus_scale)

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
        refuse_smoothed_targets(logits, labels, quality)
        focus, weight = self.category_weights()
        loss, gradient_sums = as_operator(functional.binary_cross_entropy)(
            logits,
            labels,
            weight,
            weight,
            focus=focus,
            quality=quality,
            soft_targets=True,
            objectness=objectness,
            **self.options(normalizer),
        )
        self.record(gradient_sums)
        if self.reduction == "none":
            return reference.equalized_quality_focal(
                logits, labels, quality, held(focus), held(weight), ignore_index=self.ignore_index
            )
        return loss


def modulation(statistics: GradientStatistics, base_focus: float, focus_scale: float) -> tuple[Tensor, Tensor]:
    """gamma^j = gamma_b + s (1 - G_j) and w^j = gamma^j / gamma_b; a ratio above 1 counts as balanced."""
    if kernels_for(statistics.positive.device) == "triton":
        from equigrad.losses.kernels import weights

        positive, negative = statistics.positive, statistics.negative
        focus, weight = weights.focal_weights(positive, negative, base_focus=base_focus, focus_scale=focus_scale).run()
        return focus, weight
    focus = torch.rsub(statistics.ratio.clamp_(0, 1), base_focus + focus_scale, alpha=focus_scale)
    return focus, focus / base_focus


def check_balance(positive_balance: float | None) -> None:
    """Raise an error unless alpha_t is in [0, 1]."""
    if positive_balance is not None:
        check_number("positive_balance", positive_balance)
        if positive_balance > 1:
            raise ValueError(f"positive_balance must be within [0, 1] or None, got {positive_balance}")
