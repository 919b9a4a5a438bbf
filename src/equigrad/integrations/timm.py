"""timm: a classification task whose checkpoints hold the statistics of its loss."""

import warnings
from typing import Any

from timm import task as timm_task
from torch import nn

if not hasattr(timm_task.TrainingTask, "get_task_state"):
    # Such a task would be trained, and its checkpoints would silently lack the statistics.
    raise ImportError("equigrad.integrations.timm needs timm 1.0.27 or newer, whose tasks have a state of their own")


class ClassificationTask(timm_task.ClassificationTask):
    """`timm.task.ClassificationTask` with the state of the criterion in its checkpoints, as `task_state`.

        task = ClassificationTask(model, equigrad.SoftmaxEqualizationLoss(1000), device=device)

    timm's own task leaves out the criterion: its statistics would start again at every resume.
    """

    def get_task_state(self, module: nn.Module | None = None, ema: bool = False) -> dict[str, Any]:
        """What a checkpoint holds beside the model."""
        return {"criterion": self.criterion.state_dict()} if isinstance(self.criterion, nn.Module) else {}

    def load_task_state(
        self, state: dict[str, Any] | None, strict: bool = True, module: nn.Module | None = None, ema: bool = False
    ) -> None:
        """Read it back; the averaged model has the same criterion."""
        if not isinstance(self.criterion, nn.Module):
            return
        if state is None or "criterion" not in state:
            warnings.warn("the checkpoint has no statistics of the criterion; they start at zero", stacklevel=2)
            return
        self.criterion.load_state_dict(state["criterion"], strict=strict)
