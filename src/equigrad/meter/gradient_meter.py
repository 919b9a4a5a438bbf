"""The meter: what gradient any loss sends to every category, and how well each is learnt.

meter = equigrad.GradientMeter(num_classes)
for images, labels in loader:
    logits = model(images)
    loss = any_loss(logits, labels)
    meter.watch(logits, labels)          # before backward; changes nothing in the training
    loss.backward()
print(meter)                             # or meter.table(), to_json(), plot(), write_scalars()
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from equigrad.labels import IGNORE
from equigrad.meter import showing
from equigrad.meter.recognition import HALF_LIFE, Recognition
from equigrad.meter.samples import Samples, other_dims, read_labels
from equigrad.meter.senders import SenderTable
from equigrad.meter.table import CategoryRow, category_rows
from equigrad.meter.watched_statistics import View, WatchedStatistics
from equigrad.statistics import is_host, is_recomputing


class Scaler(Protocol):
    """A `torch.amp.GradScaler`."""

    def scale(self, outputs: Tensor) -> Tensor:
        """The values times the scale."""
        ...


Scale = float | Tensor | Scaler
"""What the loss is multiplied by before backward."""


class GradientMeter(nn.Module):
    """Watches the logits of any loss: positive and negative gradient of every category, exactly.

    `watch` puts a hook on the gradient of the logits, which reads it and changes nothing. In evaluation mode, and
    without gradients, it does nothing. Nothing waits for a device. With `torch.distributed` every rank must watch the
    same calls, and every rank holds the mean over the ranks, which is what DDP trains with. `equigrad.one_batch(meter)`
    joins several calls.

    Args:
        num_classes: C, without background. Logits may have more columns, for background or objectness.
        names: C names of the categories, for tables.
        window: updates of the windowed view.
        half_life: updates after which a gradient counts half in the decayed view.
        recognition_half_life: samples of a category after which an earlier one counts half in `recognition`.
        senders: keep which categories push a category down: at most 33 MB; see `SenderTable`.
        ignore_index: the label of samples that do not count.
    """

    def __init__(
        self,
        num_classes: int,
        *,
        names: Sequence[str] | None = None,
        window: int = 1000,
        half_life: float = 300.0,
        recognition_half_life: float = HALF_LIFE,
        senders: bool = True,
        ignore_index: int = IGNORE,
    ) -> None:
        super().__init__()
        self.statistics = WatchedStatistics(num_classes, window=window, decay_half_life=half_life)
        self.recognition = Recognition(num_classes, recognition_half_life)
        self.senders = SenderTable(num_classes) if senders else None
        if names is not None and len(names) != num_classes:
            raise ValueError(f"names must be {num_classes}, one for each category, got {len(names)}")
        self.names = tuple(str(index) for index in range(num_classes)) if names is None else tuple(names)
        self.ignore_index = ignore_index
        self._num_watched = 0

    @property
    def num_classes(self) -> int:
        """C, without background."""
        return self.statistics.num_classes

    def watch(self, logits: Tensor, labels: Tensor, *, loss: Tensor | None = None, scale: Scale | None = None) -> None:
        """Record the gradient that the next backward sends to the logits.

        Without `loss` and `scale` it is the gradient of what `backward` is called on, as it is.

        Args:
            logits: (N, C, ...), the very tensor that the loss was or will be computed from.
            labels: (N, ...) class indices, BACKGROUND or `ignore_index`; or targets in [0, 1] of the logits' shape.
            loss: what the loss returned, one number: its own gradient is recorded, whatever it is multiplied or divided
                by before backward. So neither a `GradScaler` nor accumulation enters.
            scale: in place of it, what the loss is multiplied by: a number or the `GradScaler` itself.
        """
        if not (self.training and torch.is_grad_enabled()) or is_recomputing():
            return
        if torch.compiler.is_compiling():
            raise RuntimeError("a meter cannot be compiled: compile the model, and call watch outside of it")
        if not isinstance(logits, Tensor) or not isinstance(labels, Tensor):
            kinds = f"{type(logits).__name__} and {type(labels).__name__}"
            raise ValueError(f"logits and labels must be tensors, got {kinds}")
        if not logits.requires_grad:
            raise ValueError("logits have no gradient: watch the tensor that the loss is computed from, not a copy")
        samples = read_labels(logits, labels, self.num_classes, self.ignore_index)
        self._num_watched += 1
        self.recognition.add(logits, samples)
        factor = _Factor(loss, scale, logits)

        def record(gradient: Tensor) -> None:
            self._add(gradient[:, : self.num_classes], samples, factor())

        logits.register_hook(record)  # type: ignore[no-untyped-call]

    def wrap(self, loss: Callable[..., Tensor]) -> "WatchedLoss":
        """A loss function or module that is watched whenever it is called with logits and labels."""
        return WatchedLoss(self, loss)

    def attach(self, layer: nn.Module) -> "AttachedLayer":
        """Watch the output of a layer, for models that compute their loss themselves."""
        return AttachedLayer(self, layer)

    @torch.no_grad()
    def _add(self, gradient: Tensor, samples: Samples, factor: Tensor | float) -> None:
        if samples.ignored is not None:
            gradient = gradient.masked_fill(samples.ignored.unsqueeze(1), 0)
        total = torch.linalg.vector_norm(gradient, 1, other_dims(gradient), dtype=torch.float64)
        if samples.has_targets:
            positive = (gradient.abs() * samples.labels).sum(other_dims(gradient), dtype=torch.float64)
        else:
            positive = samples.sum_by_category(samples.own(gradient).abs())
        negative = (total - positive).clamp_(min=0)
        # The mean over ranks: each has divided by its own samples, and DDP takes the mean.
        self.statistics.update(positive * factor, negative * factor, divisor=1.0)
        if self.senders is not None:
            self.senders.add(gradient, samples, factor)

    def table(self, view: View = "cumulative", *, num_senders: int = 3, all_ranks: bool = False) -> list[CategoryRow]:
        """A row for each category: count seen, positive, negative, ratio, recognition, state, and what drowns it.

        Args:
            view: whose gradients the rows have.
            num_senders: most categories in `drowned_by`.
            all_ranks: `drowned_by` is about the samples of all ranks and not of this one alone. Then every rank must
                ask for the table, and the table of senders is summed once. Everything else is of all ranks anyway.
        """
        if self._num_watched and not self.statistics.updates:
            raise ValueError(
                "no gradient arrived at the watched logits: call watch before backward, on the tensor that the loss is "
                "computed from"
            )
        senders = self.senders.mean_over_ranks() if all_ranks and self.senders is not None else self.senders
        return category_rows(self.names, self.statistics.view(view), self.recognition, senders, num_senders=num_senders)

    def to_json(self, file: str | Path | None = None, *, view: View = "cumulative") -> str:
        """The table as JSON, also written to a file if one is named."""
        return showing.to_json(self.table(view), file)

    def plot(self, file: str | Path, *, view: View = "cumulative") -> None:
        """Gradients, ratio and recognition of all categories, most seen first, as PNG; needs matplotlib."""
        showing.plot(self.table(view), file)

    def write_scalars(self, writer: showing.Writer, step: int, *, tag: str = "meter") -> None:
        """Medians of tail and head, numbers of states and histograms, to a TensorBoard `SummaryWriter` or its like."""
        showing.write_scalars(self.table("windowed"), writer, step, tag)

    def reset(self) -> None:
        """Forget everything."""
        self.statistics.reset()
        self.recognition.reset()
        if self.senders is not None:
            self.senders.reset()
        self._num_watched = 0

    def __str__(self) -> str:
        return showing.as_text(self.table())


class WatchedLoss(nn.Module):
    """A loss with a meter; called like the loss, with logits and labels first.

    A value of one number is recorded as the loss returned it, whatever it is multiplied by before backward. With
    `reduction="none"` the gradient of what is made of the values is recorded.
    """

    def __init__(self, meter: GradientMeter, loss: Callable[..., Tensor]) -> None:
        super().__init__()
        self.loss = loss
        object.__setattr__(self, "meter", meter)  # not a part of it: a meter may watch several losses

    def forward(self, logits: Tensor, labels: Tensor, *more: Any, **options: Any) -> Tensor:
        """The loss as it is."""
        value = self.loss(logits, labels, *more, **options)
        meter: GradientMeter = self.meter  # type: ignore[assignment]
        if self.training:
            meter.watch(logits, labels, loss=value if value.numel() == 1 and value.requires_grad else None)
        return value


class AttachedLayer:
    """A layer whose output is watched.

    classifier = meter.attach(model.fc)
    loss = model(images, labels).loss
    classifier.watch(labels)
    loss.backward()
    classifier.remove()
    """

    def __init__(self, meter: GradientMeter, layer: nn.Module) -> None:
        self._meter = meter
        self._outputs: list[Tensor] = []
        self._handle = layer.register_forward_hook(self._keep)

    def _keep(self, layer: nn.Module, inputs: Any, output: Tensor) -> None:
        if self._meter.training and torch.is_grad_enabled():
            self._outputs = [output]

    def watch(self, labels: Tensor, *, loss: Tensor | None = None, scale: Scale | None = None) -> None:
        """Watch the last output of the layer; labels as in `GradientMeter.watch`."""
        if not self._meter.training or not torch.is_grad_enabled():
            return
        if not self._outputs:
            raise RuntimeError("the layer has not been called since it was watched last")
        self._meter.watch(self._outputs.pop(), labels, loss=loss, scale=scale)

    def remove(self) -> None:
        """Take the hook off the layer."""
        self._handle.remove()


class _Factor:
    """What a gradient is multiplied by to become that of the loss itself; known when backward is at the logits."""

    def __init__(self, loss: Tensor | None, scale: Scale | None, logits: Tensor) -> None:
        if loss is not None and scale is not None:
            raise ValueError("give loss or scale, not both: with the loss, its scale is found")
        self._scale: Tensor | float | None = None
        if isinstance(scale, int | float | Tensor):
            self._scale = scale
        elif scale is not None:  # the scaler's own number would have to be waited for
            self._scale = scale.scale(torch.ones((), device=logits.device))
        if loss is not None:
            if loss.numel() != 1 or not loss.requires_grad:
                raise ValueError(f"loss must be one number with a gradient, got shape {tuple(loss.shape)}")
            loss.register_hook(self._remember)  # type: ignore[no-untyped-call]

    def _remember(self, gradient: Tensor) -> None:
        self._scale = gradient.detach().reshape(())

    def __call__(self) -> Tensor | float:
        if self._scale is None:
            return 1.0
        if not isinstance(self._scale, Tensor):
            return 1.0 / self._scale
        scale = self._scale.double()
        # A loss that backward did not come from has no gradient, and neither have its logits.
        return 1.0 / scale.item() if is_host(scale) and scale.item() else torch.where(scale != 0, 1.0 / scale, 0.0)
