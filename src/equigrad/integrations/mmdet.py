"""mmdetection 3: losses by name in a configuration, for dense heads and for box heads.

custom_imports = dict(imports=["equigrad.integrations.mmdet"])
loss_cls = dict(type="EquigradDenseLoss", use_sigmoid=True, loss=dict(type="EqualizedFocalLoss", num_classes=80))
custom_hooks = [dict(type="EquigradBatchPerStep")]
"""

from typing import Any

import torch
from mmdet.models.losses import accuracy
from mmdet.registry import HOOKS, MODELS
from mmengine.hooks import Hook
from torch import Tensor, nn

from equigrad import losses
from equigrad.integrations.accumulation import BatchPerStep
from equigrad.labels import BACKGROUND, IGNORE
from equigrad.losses import CategoryLoss, WithObjectness
from equigrad.models.scores import SigmoidObjectnessScores, SigmoidScores, SoftmaxObjectnessScores
from equigrad.statistics import BatchedState


class HeadLoss(nn.Module):
    """A loss of equigrad with the calling convention of mmdetection: background is `num_classes`.

    Args:
        loss: a loss, or `dict(type="EqualizedFocalLoss", num_classes=80, ...)` with a name of `equigrad.losses`.
        num_classes: C, if the loss does not know it.
        loss_weight: the value is multiplied with it; the statistics are not.
    """

    def __init__(self, loss: dict[str, Any] | nn.Module, num_classes: int | None = None, loss_weight: float = 1.0):
        super().__init__()
        self.loss = loss if isinstance(loss, nn.Module) else _build(loss)
        self.num_classes = _num_classes(self.loss, num_classes)
        self.loss_weight = loss_weight

    def forward(
        self,
        cls_score: Tensor,
        labels: Tensor | tuple[Tensor, Tensor],
        label_weights: Tensor | None = None,
        avg_factor: float | Tensor | None = None,
        reduction_override: str | None = None,
        *,
        weight: Tensor | None = None,
    ) -> Tensor:
        """Loss of scores (N, C) against labels (N,), or labels and qualities; a weight of 0 leaves a sample out."""
        if reduction_override == "none":
            raise ValueError('reduction_override="none" (OHEM and the like) is not supported')
        label_weights = weight if label_weights is None else label_weights  # heads have two names for it
        labels, *quality = labels if isinstance(labels, tuple) else (labels,)
        labels = torch.where(labels == self.num_classes, BACKGROUND, labels)
        if label_weights is not None:
            labels = labels.masked_fill(_is_left_out(label_weights), IGNORE)
        normalizer = None if avg_factor is None else float(avg_factor)
        value: Tensor = self.loss(cls_score, labels, *quality, normalizer=normalizer)
        return self.loss_weight * value


@MODELS.register_module(name="EquigradDenseLoss")
class DenseLoss(HeadLoss):
    """A sigmoid loss for one-stage heads: RetinaNet, ATSS, FCOS; with a quality for GFL and RTMDet.

    These heads call it once for each level, which `EquigradBatchPerStep` makes one batch. Without that hook, or
    `equigrad.one_batch` in a loop of your own, training is refused.

    Args:
        use_sigmoid: True; without a default, because the head reads it from the configuration and would have another
            number of columns if it were left out there.
        loss: see `HeadLoss`.
        num_classes: see `HeadLoss`.
        loss_weight: see `HeadLoss`.
    """

    def __init__(
        self,
        *,
        use_sigmoid: bool,
        loss: dict[str, Any] | nn.Module,
        num_classes: int | None = None,
        loss_weight: float = 1.0,
    ) -> None:
        super().__init__(loss, num_classes, loss_weight)
        if not (use_sigmoid and _takes_background(self.loss)):
            raise ValueError("a dense head needs use_sigmoid=True and a sigmoid loss")
        self.use_sigmoid = True

    def forward(self, *arguments: Any, **options: Any) -> Tensor:
        """Loss of one level; see `HeadLoss`."""
        states = [part for part in self.modules() if isinstance(part, BatchedState)]
        if self.training and torch.is_grad_enabled() and not all(part.is_open for part in states):
            raise RuntimeError(
                "every level would be a separate batch: add custom_hooks=[dict(type='EquigradBatchPerStep')] to the "
                "configuration, or use `with equigrad.one_batch(model):` around a step of your own loop"
            )
        return super().forward(*arguments, **options)


@MODELS.register_module(name="EquigradBoxLoss")
class BoxLoss(HeadLoss):
    """A loss with an objectness column for box heads of two-stage detectors; scores and columns follow it.

    Args:
        loss: see `HeadLoss`; sigmoid or softmax. It is put into `WithObjectness`.
        objectness: False for a sigmoid loss without that column.
        num_classes: see `HeadLoss`.
        loss_weight: see `HeadLoss`.
    """

    # The head looks for these names; if one is missing, it silently applies a softmax.
    use_sigmoid = False
    custom_cls_channels = True
    custom_activation = True
    custom_accuracy = True

    def __init__(
        self,
        loss: dict[str, Any] | nn.Module,
        objectness: bool = True,
        num_classes: int | None = None,
        loss_weight: float = 1.0,
    ) -> None:
        super().__init__(loss, num_classes, loss_weight)
        is_sigmoid = _takes_background(self.loss)
        if objectness:
            self.scores: Any = SigmoidObjectnessScores() if is_sigmoid else SoftmaxObjectnessScores()
            inside: Any = self.loss
            self.loss = WithObjectness(inside)
        elif is_sigmoid:
            self.scores = SigmoidScores()
        else:
            raise ValueError("a softmax loss needs objectness=True: it has no column for background")

    def get_cls_channels(self, num_classes: int) -> int:
        """Columns of the head."""
        if num_classes != self.num_classes:
            raise ValueError(f"the head has {num_classes} categories, the loss {self.num_classes}")
        columns: int = self.scores.num_logits(num_classes)
        return columns

    def get_activation(self, cls_score: Tensor) -> Tensor:
        """Scores (N, C) and, as the head expects, a last column for background."""
        scores: Tensor = self.scores(cls_score)
        return torch.cat([scores, 1 - scores.amax(-1, keepdim=True)], -1)

    def get_accuracy(self, cls_score: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Accuracy of the categories of samples that have one."""
        is_object = labels < self.num_classes
        scores = cls_score[is_object, : self.num_classes]
        return {"acc_classes": accuracy(scores, labels[is_object])}


@HOOKS.register_module(name="EquigradBatchPerStep")
class BatchPerStepHook(Hook):  # type: ignore[misc]
    """All levels and micro-batches (`accumulative_counts`) of an optimiser step are one batch to the statistics."""

    def before_train(self, runner: Any) -> None:
        """Begin with the first step."""
        optimizer = runner.optim_wrapper
        counts = getattr(optimizer, "_accumulative_counts", 1)
        self.batches = BatchPerStep(runner.model, optimizer.optimizer, micro_batches=counts)

    def after_train(self, runner: Any) -> None:
        """End with the last."""
        self.batches.close()


def _build(config: dict[str, Any]) -> nn.Module:
    options = dict(config)
    name = options.pop("type")
    kind = getattr(losses, name, None)
    if not (isinstance(kind, type) and issubclass(kind, CategoryLoss)):
        raise ValueError(f"loss type must be a loss of equigrad, such as EqualizedFocalLoss, got {name!r}")
    return kind(**options)


def _num_classes(loss: nn.Module, num_classes: int | None) -> int:
    own = getattr(loss, "num_classes", None)
    if own is None and num_classes is None:
        raise ValueError(f"{type(loss).__name__} does not know the number of categories; give num_classes")
    if own is not None and num_classes not in (None, own):
        raise ValueError(f"num_classes is {num_classes}, and the loss has {own} categories")
    return int(own if own is not None else num_classes or 0)


def _takes_background(loss: nn.Module) -> bool:
    return getattr(loss, "takes_background", True)


def _is_left_out(weights: Tensor) -> Tensor:
    """Samples of weight 0; the heads know only 0 and 1, except for methods that weigh samples themselves."""
    if not ((weights == 0) | (weights == 1)).all():
        raise ValueError("label_weights other than 0 and 1 are not supported: use loss_weight for one factor of all")
    return weights == 0
