"""What is written into an exported file besides the model: all that a deployer has to know."""

from collections.abc import Sequence
from typing import Any

from torch import nn

import equigrad
from equigrad.models.backbones.normalization import Normalization

FORMAT = 1


def metadata(task: str, names: Sequence[str], model: nn.Module, *, preprocessing: dict[str, Any]) -> dict[str, Any]:
    """The metadata, for JSON.

    Args:
        task: the task of the run.
        names: names of the categories, in the order of labels.
        model: the trained one; its pixel normalisation is listed for information, because it is part of the model.
        preprocessing: what the caller does to an image, in pixels.
    """
    pixels = next((part.pixels for part in model.modules() if isinstance(part, Normalization)), None)
    return {
        "format": FORMAT,
        "equigrad": equigrad.__version__,
        "task": task,
        "categories": list(names),
        "preprocessing": preprocessing,
        "normalization": None if pixels is None else {"inside": True, "mean": pixels.mean, "std": pixels.std},
    }
