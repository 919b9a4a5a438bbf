"""Loading the weights of a run into the model of its recipe."""

from pathlib import Path
from typing import TypeVar

import torch
from torch import nn

from equigrad.engine import EngineError
from equigrad.engine.checkpoint import load_weights

Model = TypeVar("Model", bound=nn.Module)


def with_weights_of(model: Model, folder: Path, *, channels_last: bool = False) -> Model:
    """The model with the newest weights of a run, in evaluation mode.

    Args:
        model: model that the recipe of the run builds.
        folder: the run folder.
        channels_last: as in the training: in another memory layout scores differ in their last digits.
    """
    if channels_last:
        model.to(memory_format=torch.channels_last)
    try:
        model.load_state_dict(load_weights(folder))
    except RuntimeError as error:
        raise EngineError(f"{folder} does not fit its recipe: {str(error).splitlines()[-1].strip()}") from error
    return model.eval()
