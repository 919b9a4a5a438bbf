"""The varifocal loss and its equalized form, for heads whose targets are qualities such as IoUs."""

from torch import Tensor

from equigrad.labels import IGNORE
from equigrad.losses import functional, reference
from equigrad.losses.category_loss import CategoryLoss
from equigrad.losses.equalization import EqualizationLoss, modulation
from equigrad.losses.inputs import Reduction, check_number, refuse_smoothed_targets, require_quality
from equigrad.losses.operators import as_operator, held


class VarifocalLoss(CategoryLoss):
    r"""Varifocal loss: positives are weighted by their quality, negatives by their probability.

    $$ VFL(p) = y' \, BCE(p, y') \text{ (positive)}, \quad -\alpha p^\gamma \log(1 - p) \text{ (negative)} $$

    Zhang, Wang, Dayoub, Sünderhauf: VarifocalNet: An IoU-aware Dense Object Detector. CVPR 2021.

    Args:
        focus: gamma.
        negative_balance: alpha.
        constant_weight: True does not differentiate p^gamma, as in RT-DETR; VarifocalNet does.
        quality_weight: False gives positives weight 1 instead of y', as in the losses of DEIM and RF-DETR.
        reduction: "mean", "sum" or "none"; see `CategoryLoss`.
        ignore_index: the label of samples that do not count.
    """

    takes_objectness = True

    def __init__(
        self,
        *,
        focus: float = 2.0,
        negative_balance: float = 0.75,
        constant_weight: bool = False,
        quality_weight: bool = True,
        reduction: Reduction = "mean",
        ignore_index: int = IGNORE,
    ) -> None:
        super().__init__(reduction, ignore_index)
        check_number("focus", focus)
        check_number("negative_balance", negative_balance)
        self.focus = focus
        self.negative_balance = negative_balance
        self.constant_weight = constant_weight
        self.quality_weight = quality_weight

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

        Soft targets of the logits' shape need no quality: they are y' itself, positive where it is above 0.
        """
        require_quality(logits, labels, quality)
        loss, _ = as_operator(functional.binary_cross_entropy)(
            logits,
            labels,
            negative_weight=self.negative_balance,
            focus=self.focus,
            quality=quality,
            soft_targets=True,
            weigh_by_quality=self.quality_weight,
            focus_positives=False,
            constant_weight=self.constant_weight,
            objectness=objectness,
            **self.options(normalizer),
        )
        if self.reduction == "none":
            return reference.varifocal(
                logits,
                labels,
                quality,
                self.focus,
                self.negative_balance,
                self.constant_weight,
                self.quality_weight,
                ignore_index=self.ignore_index,
            )
        return loss


class EqualizedVarifocalLoss(EqualizationLoss):
    r"""Varifocal loss whose focus and weight follow the gradient ratio, as those of EFL and EQFL do (Sec. 4.3).

    $$ EVFL(p) = w^j y' \, BCE(p, y') \text{ (positive)}, \quad
       -w^j \alpha p^{\gamma^j} \log(1 - p) \text{ (negative)} $$
    $$ \gamma^j = \gamma_b + s (1 - G_j), \quad w^j = \gamma^j / \gamma_b $$

    Args:
        num_classes: C, without background.
        base_focus: gamma_b.
        focus_scale: s, the largest extra focus; 0 is the varifocal loss with statistics.
        negative_balance: alpha.
        constant_weight: True does not differentiate p^gamma, as in RT-DETR; VarifocalNet does.
        quality_weight: False gives positives weight 1 instead of y', as in the losses of DEIM and RF-DETR.
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
        negative_balance: float = 0.75,
        constant_weight: bool = False,
        quality_weight: bool = True,
        half_life: float | None = None,
        reduction: Reduction = "mean",
        ignore_index: int = IGNORE,
    ) -> None:
        super().__init__(num_classes, half_life, reduction, ignore_index)
        check_number("base_focus", base_focus, above=0)
        check_number("focus_scale", focus_scale)
        check_number("negative_balance", negative_balance)
        self.base_focus = base_focus
        self.focus_scale = focus_scale
        self.negative_balance = negative_balance
        self.constant_weight = constant_weight
        self.quality_weight = quality_weight

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

        Soft targets of the logits' shape need no quality: they are y' itself, positive where it is above 0.
        """
        require_quality(logits, labels, quality)
        refuse_smoothed_targets(logits, labels, quality)
        focus, weight = self.category_weights()
        loss, gradient_sums = as_operator(functional.binary_cross_entropy)(
            logits,
            labels,
            weight,
            self.negative_balance * weight,
            focus=focus,
            quality=quality,
            soft_targets=True,
            weigh_by_quality=self.quality_weight,
            focus_positives=False,
            constant_weight=self.constant_weight,
            objectness=objectness,
            **self.options(normalizer),
        )
        self.record(gradient_sums)
        if self.reduction == "none":
            return reference.equalized_varifocal(
                logits,
                labels,
                quality,
                held(focus),
                held(weight),
                self.negative_balance,
                self.constant_weight,
                self.quality_weight,
                ignore_index=self.ignore_index,
            )
        return loss
