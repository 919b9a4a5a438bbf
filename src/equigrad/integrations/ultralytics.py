"""Ultralytics YOLO: a loss of `equigrad` for the class scores, by callbacks of its trainer.

    yolo = YOLO("yolo11n.yaml")
    equalize(yolo, equigrad.SigmoidEqualizationLoss(num_classes))
    yolo.train(data="data.yaml")

Nothing of Ultralytics is imported here: `equalize` works on the objects that it is given.
"""

import copy
import inspect
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from equigrad.files import atomic_write
from equigrad.integrations.accumulation import BatchPerStep
from equigrad.labels import BACKGROUND
from equigrad.losses import CategoryLoss
from equigrad.statistics import find_statistics

SIDE_FILE_SUFFIX = ".equigrad"
"""Not `.pt`: Ultralytics takes the newest `last*.pt` for the checkpoint to resume."""

_HEADS = ("one2many", "one2one")  # of end-to-end models, each with an assignment of its own


def equalize(yolo: Any, loss: CategoryLoss) -> "Equalizer":
    """Train the class scores of a YOLO model with a loss; call it before `yolo.train`, also before it resumes.

    Boxes, assignment and the `cls` gain stay those of Ultralytics. The soft target of an anchor is the quality of its
    category, if the loss takes one; otherwise it is a plain positive. The statistics are written beside each checkpoint
    (`last.equigrad` beside `last.pt`) and are read again when the training is resumed.

    Args:
        yolo: an `ultralytics.YOLO` for detection, segmentation, pose or oriented boxes.
        loss: a sigmoid loss for as many categories as the data set has.

    Returns:
        The losses in training: `losses["head"]`, or `losses["one2many"]` and `losses["one2one"]` of an end-to-end
        model, which have statistics of their own.
    """
    if not isinstance(loss, CategoryLoss):
        raise TypeError(f"loss must be a category loss of equigrad, got {type(loss).__name__}")
    if not loss.takes_background:
        raise ValueError(f"YOLO has sigmoid scores and background: {type(loss).__name__} is a softmax loss")
    if any(isinstance(getattr(callback, "__self__", None), Equalizer) for callback in yolo.callbacks["on_train_start"]):
        raise ValueError("this YOLO object has a loss of equigrad already: make a new one to train with another loss")
    equalizer = Equalizer(loss)
    for event in ("on_train_start", "on_model_save", "teardown"):
        yolo.add_callback(event, getattr(equalizer, event))
    return equalizer


class Equalizer(nn.Module):
    """The callbacks of a trainer, with the losses that they put into it.

    A module-level class whose methods are the callbacks: for several GPUs, Ultralytics pickles them.
    """

    def __init__(self, loss: CategoryLoss) -> None:
        super().__init__()
        self.losses = nn.ModuleDict({"head": loss})
        self._batches: BatchPerStep | None = None

    def on_train_start(self, trainer: Any) -> None:
        """Put the losses where the trainer computes its class loss, and go on with the statistics of a resumed run."""
        if getattr(trainer.args, "cls_pw", 0):
            raise ValueError(f"cls_pw={trainer.args.cls_pw} weighs the categories a second time: train with cls_pw=0")
        model = _unwrapped(trainer.model)
        if getattr(model, "criterion", None) is None:
            model.criterion = model.init_criterion()
        heads = _heads(model.criterion)
        self._divide_among(heads)
        for name, head in heads.items():
            _require_classes(self.losses[name], head.nc)
            head.bce = ClassLoss(self.losses[name])
        if getattr(trainer, "resume", False):
            self.load(side_file(trainer.args.model))
        self.to(trainer.device).train()
        # A step has several batches where `nbs` is larger than `batch`.
        self._batches = BatchPerStep(self, trainer.optimizer)

    def on_model_save(self, trainer: Any) -> None:
        """Write the statistics beside every checkpoint that was written."""
        checkpoints = [trainer.last]
        if trainer.best_fitness == trainer.fitness:
            checkpoints.append(trainer.best)
        if trainer.save_period > 0 and trainer.epoch % trainer.save_period == 0:
            checkpoints.append(trainer.wdir / f"epoch{trainer.epoch}.pt")
        for checkpoint in checkpoints:
            self.save(side_file(checkpoint))

    def teardown(self, trainer: Any) -> None:
        """The end of a training, also of a failed one."""
        if self._batches is not None:
            self._batches.close()
            self._batches = None

    def save(self, file: Path) -> None:
        """Write the statistics, atomically."""
        with atomic_write(file) as stream:
            torch.save(self.losses.state_dict(), stream)

    def load(self, file: Path) -> None:
        """Read the statistics of a training, such as those that several GPUs have written."""
        if not file.exists():
            raise FileNotFoundError(
                f"{file}: no statistics of the loss; equalize writes this file beside each checkpoint: copy it "
                "there, or start a new training"
            )
        try:
            state = torch.load(file, map_location="cpu", weights_only=True)
            names = {name.partition(".")[0] for name in state}
            if names == set(_HEADS):
                self._divide_among(dict.fromkeys(_HEADS))
            self.losses.load_state_dict(state)
        except Exception as error:  # torch raises many kinds on a damaged file
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise ValueError(f"{file}: expected statistics that equalize wrote for this loss: {reason}") from error

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_batches"} | {"_batches": None}

    def _divide_among(self, heads: dict[str, Any]) -> None:
        """A loss for every head: the first one is the user's own object."""
        if self.losses.keys() != heads.keys():
            first, *_ = self.losses.values()
            copies = [first, *(copy.deepcopy(first) for _ in range(len(heads) - 1))]
            self.losses = nn.ModuleDict(dict(zip(heads, copies, strict=True)))


class ClassLoss(nn.Module):
    """In place of a head's `bce`, whose value the head sums and divides by the sum of the soft targets."""

    def __init__(self, loss: nn.Module) -> None:
        super().__init__()
        self.loss = loss
        self.takes_quality = "quality" in inspect.signature(loss.forward).parameters

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Summed loss of logits (B, A, C) against soft targets (B, A, C), at most one of an anchor above 0."""
        quality, labels = targets.flatten(0, 1).max(1)
        labels = torch.where(quality > 0, labels, BACKGROUND)
        divisor = quality.sum(dtype=torch.float32).clamp(min=1)
        graded = (quality.clamp(max=1),) if self.takes_quality else ()
        loss: Tensor = self.loss(logits.flatten(0, 1), labels, *graded, normalizer=divisor)
        return loss * divisor


def side_file(checkpoint: str | Path) -> Path:
    """Where the statistics of a checkpoint are."""
    return Path(checkpoint).with_suffix(SIDE_FILE_SUFFIX)


def _unwrapped(model: nn.Module) -> Any:
    """The model inside `DistributedDataParallel`, `torch.compile` and distillation."""
    for wrapper in ("module", "_orig_mod", "student_model"):
        model = getattr(model, wrapper, model)
    return model


def _heads(criterion: Any) -> dict[str, Any]:
    found = {name: getattr(criterion, name) for name in _HEADS if hasattr(criterion, name)} or {"head": criterion}
    for head in found.values():
        if not (hasattr(head, "bce") and hasattr(head, "nc")):
            raise TypeError(
                f"{type(head).__name__} has no class scores with a sigmoid: equalize is for YOLO models that detect, "
                "segment, find poses or oriented boxes"
            )
    return found


def _require_classes(loss: nn.Module, num_classes: int) -> None:
    for part in find_statistics(loss).values():
        if part.num_classes != num_classes:
            raise ValueError(f"the loss is for {part.num_classes} categories, the data set has {num_classes}")
