"""The recognition of a model in training, whatever its losses: for runs, whose page shows which categories starve."""

from typing import Any

import torch
from torch import Tensor, nn

from equigrad.losses.category_loss import CategoryLoss
from equigrad.meter.recognition import Recognition
from equigrad.statistics import is_recomputing


class WatchedLosses(nn.Module):
    """A `Recognition` for each loss of categories in a model, fed by a hook before the loss; the model stays the same.

    Args:
        model: not a part of this module, so that its weights and checkpoints do not change.
        num_classes: C; columns of logits after them are background or objectness.
    """

    def __init__(self, model: nn.Module, num_classes: int) -> None:
        super().__init__()
        losses = outermost_losses(model)
        self.paths = tuple(losses)
        self.parts = nn.ModuleList(Recognition(num_classes) for _ in losses)
        for loss, part in zip(losses.values(), self.recognitions().values(), strict=True):
            loss.register_forward_pre_hook(_Hook(part))

    def recognitions(self) -> dict[str, Recognition]:
        """By the path of the loss in the model."""
        return dict(zip(self.paths, self.parts, strict=True))  # type: ignore[arg-type]


def outermost_losses(model: nn.Module) -> dict[str, CategoryLoss]:
    """Losses whose columns are categories, by path; a loss inside another one is a part of that one."""
    found: dict[str, CategoryLoss] = {}
    for path, part in model.named_modules():
        is_inside = any(path.startswith(f"{outer}.") for outer in found)
        if isinstance(part, CategoryLoss) and part.columns_are_categories and not is_inside:
            found[path] = part
    return found


class _Hook:
    def __init__(self, recognition: Recognition) -> None:
        self.recognition = recognition

    def __call__(self, loss: CategoryLoss, inputs: tuple[Any, ...]) -> None:
        if loss.training and torch.is_grad_enabled() and not is_recomputing():
            logits: Tensor = inputs[0]
            self.recognition.look(logits, inputs[1], ignore_index=loss.ignore_index)
