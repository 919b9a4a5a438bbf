"""A loss with statistics as the `compute_loss_func` of the Trainer, for classification of images, texts and tokens."""

import sys
from types import FrameType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, Trainer

from equigrad.integrations.accumulation import PendingBatch
from equigrad.labels import IGNORE


def loss(model: PreTrainedModel, loss: nn.Module) -> "TrainerLoss":
    """Make a loss a part of the model, and return what the Trainer takes as `compute_loss_func`.

        trainer = Trainer(model, args, compute_loss_func=hf.loss(model, equigrad.SoftmaxEqualizationLoss(10)), ...)

    The checkpoints of the Trainer then hold the statistics, as `equalization.statistics.*`. A model without the loss
    reads them too: `from_pretrained` lists these names as unexpected and leaves them out.

    Args:
        model: a model with C labels (`num_labels`).
        loss: any loss of equigrad for C categories. Its `ignore_index` must be -100, which is what the Trainer counts.
    """
    _check(model, loss)
    model.equalization = loss
    return TrainerLoss(loss)


class TrainerLoss(nn.Module):
    """The loss of one micro-batch such that those of a step add up to the mean over all its samples.

    The micro-batches of an optimiser step are one batch to the statistics.
    """

    def __init__(self, loss: nn.Module) -> None:
        super().__init__()
        self.loss = loss
        self._step: _Step | None = None

    def forward(self, outputs: Any, labels: Tensor | None, num_items_in_batch: Any = None) -> Tensor:
        """Loss of the logits in a model's outputs; the Trainer gives the samples of the step, on all ranks."""
        if labels is None:
            raise ValueError("the batch has no `labels`; rename the column, or set `label_names` of the arguments")
        logits = outputs["logits"] if isinstance(outputs, dict) else outputs[0]
        samples = _num_samples(num_items_in_batch, logits, labels)
        logits, labels = _classes_last(logits, labels)
        trainer = _calling_trainer(self)
        if trainer is None or samples is None:
            return self._value(logits, labels, samples)
        _check_arguments(trainer.args)
        factor = _later_factor(trainer)
        if not self.loss.training:
            return self._value(logits, labels, samples / factor) / factor
        step = self._step_of(num_items_in_batch, samples / factor)
        value = self._value(logits, labels, step.normalizer) / factor
        if trainer.accelerator.sync_gradients:  # the last micro-batch
            step.batch.record()
            self._step = None
        return value

    def _value(self, logits: Tensor, labels: Tensor, normalizer: Tensor | None) -> Tensor:
        value: Tensor = self.loss(logits, labels, normalizer=normalizer)
        return value

    def _step_of(self, key: Any, normalizer: Tensor) -> "_Step":
        """The step that a micro-batch belongs to."""
        if self._step is not None and self._step.key is key:
            return self._step
        if self._step is not None:  # a training that was interrupted within a step, whose gradient is lost too
            self._step.batch.forget()
        self._step = _Step(key, normalizer, PendingBatch(self.loss))
        return self._step

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_step": None}  # a copy starts with a step of its own


class _Step(NamedTuple):
    """An optimiser step that has not ended."""

    key: Any  # the count of its samples: the Trainer gives all micro-batches of a step the same object
    normalizer: Tensor  # one object too, by which the calls of a step take one row of the collective
    batch: PendingBatch


def _check(model: PreTrainedModel, loss: nn.Module) -> None:
    num_classes, num_labels = getattr(loss, "num_classes", None), model.config.num_labels
    if num_classes is not None and num_classes != num_labels:
        raise ValueError(f"the model has {num_labels} labels (num_labels), the loss {num_classes} categories")
    if getattr(loss, "ignore_index", IGNORE) != IGNORE:
        raise ValueError(f"ignore_index must be {IGNORE}, which the Trainer counts by, got {loss.ignore_index}")


def _calling_trainer(function: TrainerLoss) -> Trainer | None:
    """The Trainer that is calling; it gives its loss function nothing of its settings, which change what is right."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        owner = frame.f_locals.get("self")
        if isinstance(owner, Trainer):
            return owner if owner.compute_loss_func is function else None
        frame = frame.f_back
    return None


def _check_arguments(arguments: Any) -> None:
    if arguments.label_smoothing_factor:
        raise ValueError(
            f"label_smoothing_factor={arguments.label_smoothing_factor} does nothing beside a compute_loss_func; give "
            "the loss itself label_smoothing=, and the arguments label_smoothing_factor=0"
        )
    if arguments.n_gpu > 1:
        raise ValueError("torch.nn.DataParallel is not supported; start the script with torchrun or accelerate launch")


def _later_factor(trainer: Trainer) -> int:
    """What the Trainer multiplies the value with: the ranks, if the samples were counted over all of them.

    Each rank then has to divide by the samples of all ranks, while the statistics divide by what a rank has on average.
    """
    ranks: int = trainer.accelerator.num_processes // trainer.get_tp_size()
    return ranks if trainer.args.average_tokens_across_devices else 1


def _num_samples(num_items: Any, logits: Tensor, labels: Tensor) -> Tensor | None:
    """The samples of a step. The Trainer counts the numbers in `labels`, which are C for a sample with soft labels."""
    if num_items is None:
        return None
    per_sample = logits.shape[-1] if labels.shape == logits.shape else 1
    return torch.as_tensor(num_items, dtype=torch.float64, device=logits.device) / per_sample


def _classes_last(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Logits (N, T, C) of tokens as (N T, C)."""
    if logits.dim() != 3:
        return logits, labels
    return logits.flatten(0, 1), labels.flatten(0, 1)
