"""The model with everything that trains it: gradients, optimiser, loss scaler, averaged weights."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from equigrad.engine.distributed import average_batch_norms, share_buffers
from equigrad.engine.ema import AveragedModel
from equigrad.engine.optimizers import build_optimizer, freeze, load_optimizer_state, set_learning_rate
from equigrad.engine.settings import TrainSettings
from equigrad.errors import EngineError, one_line
from equigrad.meter.watched_losses import WatchedLosses
from equigrad.statistics import one_batch, sum_over_ranks

if TYPE_CHECKING:
    from lightning.fabric import Fabric


@runtime_checkable
class CountsSamples(Protocol):
    """A model whose losses are means over samples that it can count; it takes a `normalizer` among its targets."""

    def num_counted(self, targets: Any) -> float | None:
        """Number of samples in the mean; None if the losses are not means over samples."""
        ...


class Learner:
    """A model in training.

    Args:
        fabric: from `launch`.
        model: `model(images, targets)` gives a dictionary of losses. Changed in place.
        settings: settings of the training.
        num_classes: C of its losses, to record which samples they win; None records nothing.
    """

    def __init__(
        self, fabric: "Fabric", model: nn.Module, settings: TrainSettings, num_classes: int | None = None
    ) -> None:
        self.fabric, self.settings = fabric, settings
        _check_clipping(fabric, settings)
        if settings.sync_batch_norm and fabric.world_size > 1 and fabric.device.type == "cuda":
            model = nn.SyncBatchNorm.convert_sync_batchnorm(model)  # type: ignore[no-untyped-call]
        self.frozen = freeze(model, settings.frozen)
        self.model = model.to(fabric.device)
        if settings.channels_last:
            self.model.to(memory_format=torch.channels_last)
        self.average = AveragedModel(self.model, settings.ema) if settings.ema else None
        self.watched = None if num_classes is None else WatchedLosses(self.model, num_classes).to(fabric.device)
        if settings.compile:
            self.model.compile()  # in place, so that the names of the weights stay the same
        self.train_mode()
        self.wrapped = fabric.setup_module(self.model)
        if settings.average_batch_norm:
            for module in self.wrapped.modules():
                if isinstance(module, DistributedDataParallel):
                    module.broadcast_buffers = False  # it would copy the buffers of rank 0 to all ranks in each step
        self.optimizer = build_optimizer(self.model, settings.optimizer)
        self.scaled_optimizer: Any = fabric.setup_optimizers(self.optimizer)
        self.grad_norm: Tensor | None = None  # of the last step, if gradients are clipped

    def train_mode(self) -> None:
        """Training mode, except for what is frozen: its batch norms must not move either."""
        self.model.train()
        for module in self.frozen:
            module.eval()

    def to_device(self, data: Any) -> tuple[Any, Any]:
        """Images and targets of a batch where the model is, in the memory layout of the settings."""
        images, targets = data if self.fabric.device.type == "cpu" else self.fabric.to_device(data)
        if self.settings.channels_last and isinstance(images, Tensor) and images.dim() == 4:
            images = images.contiguous(memory_format=torch.channels_last)
        return images, targets

    def one_step(self, num_micro_batches: int) -> AbstractContextManager[object]:
        """For the micro-batches of a step: gradient statistics move once, as by the joined batch."""
        stack = ExitStack()
        if num_micro_batches > 1:
            stack.enter_context(one_batch(self.model, micro_batches=num_micro_batches))
        if self.watched is not None:
            stack.enter_context(one_batch(self.watched))
        return stack

    def shared_normalizer(self, batches: Sequence[Any]) -> dict[str, Tensor]:
        """The divisor for losses of parts of unequal size, with which their mean is that of the joined batch.

        Empty if there is only one part, and for models whose losses are not means over samples.

        Args:
            batches: `(images, targets)` of the micro-batches of this rank.
        """
        num_parts = len(batches) * self.fabric.world_size
        if num_parts == 1 or not isinstance(self.model, CountsSamples):
            return {}
        counts = [self.model.num_counted(targets) for _, targets in batches]
        if None in counts:
            return {}
        # Not `torch.tensor`, which copies from the host and waits.
        total = torch.full((), sum(filter(None, counts)), dtype=torch.float64, device=self.fabric.device)
        total = sum_over_ranks(total)
        return {"normalizer": torch.where(total > 0, total, 1.0) / num_parts}

    def gradient_exchange(self, is_last: bool) -> AbstractContextManager[Any]:
        """For the backward of a micro-batch: ranks exchange gradients once per step, with the last one."""
        alone = is_last or self.fabric.world_size == 1
        return nullcontext() if alone else self.fabric.no_backward_sync(self.wrapped)

    def step(self, lr_factor: float) -> None:
        """Clip the gradients if asked to, apply them at a share of the base rate, and move the averaged weights."""
        set_learning_rate(self.optimizer, lr_factor)
        if self.settings.max_grad_norm is not None:
            self.grad_norm = self.fabric.clip_gradients(
                self.wrapped,
                self.scaled_optimizer,
                max_norm=self.settings.max_grad_norm,
                error_if_nonfinite=False,  # with fp16 it may happen; the scaler then leaves the step out
            )
        self.scaled_optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if self.average is not None:
            self.average.update(self.model)

    @property
    def lr(self) -> float:
        """Learning rate of the first group in the last step."""
        return float(self.optimizer.param_groups[0]["lr"])

    def broken_parameter(self) -> str | None:
        """Name of a parameter with a value that is not finite."""
        parameters = dict(self.model.named_parameters())
        norms = torch.stack([norm.float() for norm in torch._foreach_norm(list(parameters.values()))])
        if norms.isfinite().all():
            return None
        return next((name for name, value in parameters.items() if not value.isfinite().all()), None)

    @contextmanager
    def evaluating(self) -> Iterator[nn.Module]:
        """The model to evaluate, in evaluation mode; afterwards every module has the mode that it had before.

        All ranks evaluate the same model, the one that checkpoints hold.
        """
        self.agree_on_buffers()
        if self.average is not None:
            yield self.average.model
            return
        self.model.eval()
        try:
            yield self.model
        finally:
            self.train_mode()

    @torch.no_grad()
    def agree_on_buffers(self) -> None:
        """Give all ranks the same batch statistics: each has its own. Every rank must call."""
        for model in (self.model, *([] if self.average is None else [self.average.model])):
            if self.settings.average_batch_norm:
                average_batch_norms(self.fabric, model)
            else:
                share_buffers(self.fabric, model)

    def state_dict(self) -> dict[str, Any]:
        """Weights and all that decides about the next step."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.fabric.strategy.precision.state_dict(),
            "ema": self.average.state_dict() if self.average else None,
            "watched": self.watched.state_dict() if self.watched else None,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where `state` was taken."""
        try:
            self.model.load_state_dict(state["model"])
            load_optimizer_state(self.optimizer, state["optimizer"])
            if state["scaler"]:
                self.fabric.strategy.precision.load_state_dict(state["scaler"])
            if self.average is not None:
                self.average.load_state_dict(state["ema"] or {"model": state["model"], "updates": 0})
            if self.watched is not None and state.get("watched"):  # earlier versions did not write it
                self.watched.load_state_dict(state["watched"])
        except (RuntimeError, ValueError, KeyError) as error:
            raise EngineError(f"the checkpoint is that of another model or optimiser: {one_line(error)}") from error


def _check_clipping(fabric: "Fabric", settings: TrainSettings) -> None:
    is_scaled = fabric.strategy.precision.precision == "16-mixed"
    if is_scaled and settings.optimizer.fused and settings.max_grad_norm is not None:
        raise EngineError(
            "a fused optimiser divides fp16 gradients by their scale itself, too late to clip them; use "
            "precision=bf16, training.optimizer.fused=false or training.max_grad_norm=none"
        )


def sum_of(losses: dict[str, Tensor]) -> Tensor:
    """The total loss; TypeError if the model gave no dictionary of losses."""
    if not isinstance(losses, dict) or not losses:
        raise TypeError(f"model(images, targets) must give a dictionary of losses, got {type(losses).__name__}")
    first, *others = losses.values()
    return sum(others, first)
