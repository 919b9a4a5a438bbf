"""Weights of finished runs, read into the model of their recipe."""

from pathlib import Path
from typing import TypeVar

from torch import nn

from equigrad.engine import EngineError
from equigrad.engine.checkpoint import load_weights

Model = TypeVar("Model", bound=nn.Module)


def with_weights_of(model: Model, folder: Path) -> Model:
    """The model with the newest weights of a run, in evaluation mode."""
    try:
        model.load_state_dict(load_weights(folder))
    except RuntimeError as error:
        raise EngineError(f"{folder} does not fit its recipe: {str(error).splitlines()[-1].strip()}") from error
    return model.eval()
