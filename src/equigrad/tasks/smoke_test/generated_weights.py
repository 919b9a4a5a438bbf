"""Weight files with generated numbers, in each layout in which real ones are published and that can be read."""

import argparse
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from equigrad.models.backbones.frozen_norm import FrozenNorm
from equigrad.models.backbones.pretrained import StateDict
from equigrad.models.backbones.resnets import TORCHVISION
from equigrad.tasks.backbones import Backbone, with_weights, without_weights

REAL_WEIGHTS = (TORCHVISION, "resnet50_v1c.pth", "resnet101_v1c.pth", "resnet50.pth", "resnet101.pth")
"""Weights that the recipes of the paper name and that are not there to be tried out: generated files stand in."""

Layout = Callable[[StateDict, Path], Path]
"""Writes the weights of a network below a path without suffix; gives the file."""


class GeneratedWeights:
    """Files in place of the real ones, kept for each network; the first rows try one layout after the other.

    Args:
        folder: for all files.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files: dict[Any, Path] = {}
        self._num_written: Counter[Sequence[Layout]] = Counter()

    def instead_of_real(self, backbone: Backbone) -> Backbone:
        """The backbone with a generated file, if it names a real one."""
        real = getattr(backbone, "weights", None)
        if real not in REAL_WEIGHTS:
            return backbone
        layouts = V1C_LAYOUTS if str(real).endswith("_v1c.pth") else LAYOUTS
        number = self._num_written[layouts]
        if backbone not in self._files or number < len(layouts):
            self._num_written[layouts] += 1
            earlier = self._files.get(backbone)
            layout, path = layouts[number % len(layouts)], self.folder / f"weights_{sum(self._num_written.values())}"
            self._files[backbone] = layout(_published_part(without_weights(backbone).build()), path)
            if earlier is not None:  # hundreds of megabytes
                earlier.unlink()
        return with_weights(backbone, str(self._files[backbone]))


def _published_part(network: nn.Module) -> StateDict:
    """The weights of a whole classifier, and of no pyramid."""
    for path, module in network.named_modules():  # keep the signal small in evaluation mode
        if isinstance(module, nn.BatchNorm2d | FrozenNorm) and path.endswith("bn3"):
            nn.init.zeros_(module.weight)
    state = {k.removeprefix("body."): value for k, value in network.state_dict().items() if not k.startswith("fpn.")}
    num_features = state["layer4.0.conv3.weight"].shape[0]
    return {**state, "fc.weight": torch.zeros(1000, num_features), "fc.bias": torch.zeros(1000)}


def torchvision_layout(state: StateDict, path: Path) -> Path:
    """A plain state_dict; old ones hold parameters, no counters of batches, and are no zip archives."""
    counted = {name: value for name, value in state.items() if not name.endswith("num_batches_tracked")}
    old = OrderedDict((name, nn.Parameter(value, requires_grad=False)) for name, value in counted.items())
    return _saved(old, path, ".pth", is_old=True)


def timm_layout(state: StateDict, path: Path) -> Path:
    """A plain state_dict in safetensors."""
    from safetensors.torch import save_file

    file = path.with_suffix(".safetensors")
    save_file({name: value.contiguous() for name, value in state.items()}, file)
    return file


def moco_layout(state: StateDict, path: Path) -> Path:
    """The network twice, and a queue, below `state_dict`."""
    queue = {"module.queue": torch.zeros(128, 16), "module.queue_ptr": torch.zeros(1, dtype=torch.int64)}
    body, head = _without_head(state), {"fc.0.weight": torch.zeros(8, 8), "fc.0.bias": torch.zeros(8)}
    both = [_prefixed(body | head, f"module.encoder_{kind}.") for kind in "qk"]
    content = {"epoch": 800, "arch": "resnet50", "state_dict": {**both[0], **both[1], **queue}, "optimizer": {}}
    return _saved(content, path, ".pth.tar", is_old=True)


def dino_layout(state: StateDict, path: Path) -> Path:
    """Student and teacher, each with a head, beside the words of the command line."""
    head = {"head.mlp.0.weight": torch.zeros(8, 8)}
    teacher = _prefixed(_without_head(state), "backbone.") | head
    content = {"student": _prefixed(teacher, "module."), "teacher": teacher, "epoch": 800}
    return _saved(content | {"args": argparse.Namespace(arch="resnet50")}, path, ".pth")


def wrapped_layout(state: StateDict, path: Path) -> Path:
    """A checkpoint of a model that was wrapped for several GPUs."""
    return _saved({"epoch": 90, "state_dict": _prefixed(state, "module.")}, path, ".pt")


def model_layout(state: StateDict, path: Path) -> Path:
    """A checkpoint with its weights below `model`."""
    return _saved({"model": dict(state), "epoch": 90}, path, ".pth")


def plain_layout(state: StateDict, path: Path) -> Path:
    """A plain state_dict as of today."""
    return _saved(dict(state), path, ".pt")


def mmcv_layout(state: StateDict, path: Path) -> Path:
    """A classifier below `state_dict`, beside its meta data."""
    return _saved({"meta": {"epoch": 100}, "state_dict": OrderedDict(state)}, path, ".pth", is_old=True)


def mmseg_layout(state: StateDict, path: Path) -> Path:
    """A whole segmenter, of which the network is a part."""
    head = {"decode_head.conv_seg.weight": torch.zeros(150, 8, 1, 1)}
    return _saved({"meta": {}, "state_dict": _prefixed(_without_head(state), "backbone.") | head}, path, ".pth")


LAYOUTS: tuple[Layout, ...] = (
    torchvision_layout,
    timm_layout,
    moco_layout,
    dino_layout,
    wrapped_layout,
    model_layout,
    plain_layout,
)
V1C_LAYOUTS: tuple[Layout, ...] = (mmcv_layout, mmseg_layout)


def _without_head(state: StateDict) -> dict[str, Tensor]:
    return {name: value for name, value in state.items() if not name.startswith("fc.")}


def _prefixed(state: StateDict, prefix: str) -> dict[str, Tensor]:
    return {prefix + name: value for name, value in state.items()}


def _saved(content: Mapping[str, Any], path: Path, suffix: str, *, is_old: bool = False) -> Path:
    """Save as torch does today, or as it did before version 1.6."""
    file = path.with_name(path.name + suffix)
    torch.save(content, file, _use_new_zipfile_serialization=not is_old)
    return file
