"""A loss with statistics in the detectors of the DETR family: RT-DETR, RT-DETRv2, D-FINE, Deformable DETR.

Their loss function builds a new criterion in every forward pass, which cannot keep statistics. Here the loss is a part
of the model, and every new criterion uses it for its classification term. Matching and box losses are the host's.
"""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, TrainerCallback
from transformers.image_transforms import center_to_corners_format
from transformers.loss.loss_for_object_detection import box_iou
from transformers.loss.loss_utils import LOSS_MAPPING

from equigrad.integrations.accumulation import PendingBatch
from equigrad.labels import BACKGROUND
from equigrad.statistics import is_distributed, one_batch

Denoising = Literal["count", "ignore"]
"""Whether the statistics count the denoising queries of a training step."""


class Host(NamedTuple):
    """Where a loss function of transformers has its classification term."""

    criterion: str  # the class that the function builds
    method: str  # its classification loss
    key: str  # the name under which the method returns it


HOSTS = {
    "RTDetrForObjectDetectionLoss": Host("RTDetrLoss", "loss_labels_vfl", "loss_vfl"),
    "DFineForObjectDetectionLoss": Host("DFineLoss", "loss_labels_vfl", "loss_vfl"),
    "DeformableDetrForObjectDetectionLoss": Host("DeformableDetrImageLoss", "loss_labels", "loss_ce"),
}


def equalize(model: PreTrainedModel, loss: nn.Module, *, denoising: Denoising = "count") -> PreTrainedModel:
    """Train the classification of a detector with a loss of equigrad; the model is changed and returned.

        model = RTDetrForObjectDetection(config)
        hf.equalize(model, equigrad.EqualizedVarifocalLoss(config.num_labels, constant_weight=True))

    The loss is a part of the model, so checkpoints hold its statistics, as `_loss_function.loss.statistics.*`. A model
    without it reads them too: `from_pretrained` lists these names as unexpected and leaves them out.

    Args:
        model: an `…ForObjectDetection` whose scores are sigmoids.
        loss: a sigmoid loss of C = `config.num_labels` categories. One that takes a quality is given the IoU of each
            positive. `VarifocalLoss(constant_weight=True)` is what RT-DETR and D-FINE have, `FocalLoss()` what
            Deformable DETR has.
        denoising: "count" records denoising queries like others, "ignore" leaves the statistics to the other queries.
            Denoising queries start at the objects, so that they have many more positives.
    """
    function = LOSS_MAPPING.get(model.loss_type)
    _check(model, function, loss, denoising)
    # Not `model.loss_function`: torch would register a module of that name, which the property of the model hides.
    model._loss_function = DetectionLoss(loss, model.loss_type, denoising)
    return model


class DetectionLoss(nn.Module):
    """The loss function of a detector of transformers, with a loss of equigrad as its classification term.

    All calls of a forward pass (decoder layers, encoder, denoising) are one batch to the statistics.
    """

    def __init__(self, loss: nn.Module, loss_type: str, denoising: Denoising) -> None:
        super().__init__()
        self.loss = loss
        self.loss_type = loss_type
        self.denoising = denoising

    def forward(
        self, logits: Tensor, labels: Any, device: Any, pred_boxes: Tensor, config: Any, *more: Any, **options: Any
    ) -> Any:
        """What the host's loss function returns: the loss, its parts, and the outputs of the layers."""
        function: Any = LOSS_MAPPING[self.loss_type]
        host = HOSTS[function.__name__]
        calls = _Calls(self.loss, host, function.__globals__[host.criterion], self.denoising)
        # The function of the host with another criterion in its names: its own module stays as it is.
        names = {**function.__globals__, host.criterion: calls.build_criterion}
        lent = FunctionType(function.__code__, names, function.__name__, function.__defaults__, function.__closure__)
        with one_batch(self.loss, joins=True):
            result = lent(logits, labels, device, pred_boxes, config, *more, **options)
            calls.add_missing_denoising(config)
        return result


class BatchPerStep(TrainerCallback):  # type: ignore[misc]
    """Makes the micro-batches of a Trainer with `gradient_accumulation_steps` one batch to the statistics.

        Trainer(model, args, callbacks=[hf.BatchPerStep()], ...)

    For detectors; the function of `hf.loss` does this itself.
    """

    def __init__(self) -> None:
        self._batch: PendingBatch | None = None

    def on_step_begin(self, args: Any, state: Any, control: Any, **names: Any) -> None:
        """Open a batch."""
        self.on_train_end(args, state, control)
        self._batch = PendingBatch(names["model"], micro_batches=args.gradient_accumulation_steps)

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **names: Any) -> None:
        """Record it."""
        if self._batch is not None:
            self._batch.record()
        self._batch = None

    def on_train_end(self, args: Any, state: Any, control: Any, **names: Any) -> None:
        """Forget micro-batches that no optimiser step followed."""
        if self._batch is not None:
            self._batch.forget()
        self._batch = None


class _Calls:
    """The classification terms of one forward pass."""

    def __init__(self, loss: nn.Module, host: Host, kind: Callable[..., Any], denoising: Denoising) -> None:
        self.loss, self.host, self.kind, self.denoising = loss, host, kind, denoising
        self.passes_quality = "quality" in inspect.signature(loss.forward).parameters
        self.denoising_indices: Any = None
        # One tensor for all calls that share a divisor: they take one row of the collective.
        self.divisors: dict[bool, Tensor] = {}

    def build_criterion(self, *arguments: Any, **options: Any) -> Any:
        """The host's criterion with our classification term."""
        self.criterion = criterion = self.kind(*arguments, **options)
        setattr(criterion, self.host.method, self.classification)
        if hasattr(criterion, "get_cdn_matched_indices"):
            self.match_denoising = criterion.get_cdn_matched_indices
            criterion.get_cdn_matched_indices = self.matched_denoising
        return criterion

    def matched_denoising(self, *arguments: Any) -> Any:
        """What the host matches for denoising queries; the calls that follow have these very indices."""
        self.denoising_indices = self.match_denoising(*arguments)
        return self.denoising_indices

    def classification(
        self, outputs: dict[str, Tensor], targets: list[dict[str, Tensor]], indices: Any, num_boxes: float, **_: Any
    ) -> dict[str, Tensor]:
        """The term of one layer, from logits (B, Q, C)."""
        logits, where = outputs["logits"], self.criterion._get_source_permutation_idx(indices)
        matched = [(target, chosen) for target, (_, chosen) in zip(targets, indices, strict=True)]
        labels = torch.full(logits.shape[:2], BACKGROUND, device=logits.device)
        labels[where] = torch.cat([target["class_labels"][chosen] for target, chosen in matched])
        arguments = [logits.flatten(0, 1), labels.flatten()]
        if self.passes_quality:
            boxes = torch.cat([target["boxes"][chosen] for target, chosen in matched])
            quality = torch.zeros(logits.shape[:2], device=logits.device)
            quality[where] = _matched_iou(outputs["pred_boxes"][where], boxes).float().clamp(max=1)  # rounding
            arguments.append(quality.flatten())
        is_denoising = indices is self.denoising_indices
        if is_denoising not in self.divisors:
            self.divisors[is_denoising] = torch.tensor(num_boxes, dtype=torch.float64, device=logits.device)
        self.logits = logits
        with _resting(self.loss, is_denoising and self.denoising == "ignore"):
            return {self.host.key: self.loss(*arguments, normalizer=self.divisors[is_denoising])}

    def add_missing_denoising(self, config: Any) -> None:
        """Count denoising queries also on a rank without objects, where the host leaves them out.

        Every rank has to record the same calls. This one has no samples, and a divisor that changes no sum.
        """
        is_expected = getattr(config, "num_denoising", 0) > 0 and config.auxiliary_loss and self.denoising == "count"
        if is_distributed() and self.loss.training and is_expected and True not in self.divisors:
            nothing = self.logits.new_zeros(0, self.logits.shape[-1])
            labels = torch.zeros(0, dtype=torch.int64, device=nothing.device)
            quality = [nothing.new_zeros(0)] if self.passes_quality else []
            self.loss(nothing, labels, *quality, normalizer=torch.finfo(torch.float64).tiny)


def _matched_iou(predicted: Tensor, boxes: Tensor) -> Tensor:
    """IoU of each predicted box with the box it was matched to, (M,)."""
    iou: Tensor
    iou, _ = box_iou(center_to_corners_format(predicted.detach()), center_to_corners_format(boxes))
    return iou.diagonal()


@contextmanager
def _resting(loss: nn.Module, is_resting: bool) -> Iterator[None]:
    """Keep the statistics of a loss as they are, as in evaluation."""
    was_training = loss.training
    loss.train(was_training and not is_resting)
    try:
        yield
    finally:
        loss.train(was_training)


def _check(model: PreTrainedModel, function: Any, loss: nn.Module, denoising: str) -> None:
    host = HOSTS.get(getattr(function, "__name__", ""))
    if host is None or host.criterion not in function.__code__.co_names:
        known = sorted(name for name, known in LOSS_MAPPING.items() if known.__name__ in HOSTS)
        raise ValueError(f"{type(model).__name__} is none of {', '.join(known)}")
    if denoising not in get_args(Denoising):
        raise ValueError(f"denoising must be one of {', '.join(get_args(Denoising))}, got {denoising!r}")
    if not getattr(loss, "takes_background", True):
        raise ValueError(f"{type(loss).__name__} is a softmax; queries without an object need a sigmoid loss")
    num_classes, num_labels = getattr(loss, "num_classes", None), model.config.num_labels
    if num_classes is not None and num_classes != num_labels:
        raise ValueError(f"the model has {num_labels} labels (num_labels), the loss {num_classes} categories")
