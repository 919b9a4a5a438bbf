"""Backbones as settings: which network, and the weights it starts from.

equigrad train image_classification:places_lt_resnet152 --set backbone.weights=resnet152.pth
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from torch import nn


@dataclass(frozen=True)
class Backbone:
    """A network that can start from trained weights.

    Args:
        build: from weights, given by name, to the network.
        weights: None is from scratch; otherwise a file, or a word that `build` knows, such as "torchvision".
    """

    build: Callable[..., nn.Module]
    weights: str | None = None

    def __call__(self) -> nn.Module:
        """The network before its first step."""
        return self.build(weights=self.weights)


def untrained(backbone: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
    """The same network without reading weights, for a model whose weights come from a run."""
    return replace(backbone, weights=None) if isinstance(backbone, Backbone) else backbone
