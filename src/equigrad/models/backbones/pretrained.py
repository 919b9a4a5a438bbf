"""Reading trained weights into a backbone, with errors that say what does not fit."""

import os
import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from zipfile import BadZipFile

import torch
from torch import Tensor, nn

StateDict = Mapping[str, Tensor]


def read_weights(file: str | os.PathLike[str]) -> StateDict:
    """The tensors of a weight file; nothing in it is executed."""
    file = Path(file)
    if not file.is_file():
        raise FileNotFoundError(f"{file}: no such weight file")
    try:
        content = torch.load(file, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, BadZipFile, ValueError) as error:
        raise ValueError(f"{file}: not a file of PyTorch weights ({_first_line(error)})") from None
    if not isinstance(content, Mapping) or not all(isinstance(value, Tensor) for value in content.values()):
        raise ValueError(f"{file}: expected a dictionary of tensors, as `torch.save(model.state_dict(), file)` writes")
    return content


def load_backbone(backbone: nn.Module, weights: StateDict, source: str, *, left_out: Sequence[str] = ()) -> None:
    """Load weights, all of which must fit; names that start with one of `left_out` (the old classifier) are ignored."""
    weights = {name: value for name, value in weights.items() if not name.startswith(tuple(left_out))}
    own = backbone.state_dict()
    missing, unknown = sorted(own.keys() - weights.keys()), sorted(weights.keys() - own.keys())
    if missing:
        raise ValueError(f"{source}: {len(missing)} weights of the model are missing, the first is {missing[0]}")
    if unknown:
        raise ValueError(f"{source}: {len(unknown)} weights are not in the model, the first is {unknown[0]}")
    for name, value in own.items():
        if value.shape != weights[name].shape:
            shapes = f"{tuple(value.shape)}, got {tuple(weights[name].shape)}"
            raise ValueError(f"{source}: {name} must be {shapes}")
    backbone.load_state_dict(weights)


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0][:200] or type(error).__name__
