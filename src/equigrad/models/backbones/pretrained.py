"""Reading trained weights into a backbone: logs in one line what was taken, and errors say what does not fit.

Files of torchvision, timm, mmcv and mmsegmentation, MoCo and DINO are read as they are published: `.pth`, `.pt` or
`.safetensors`, a plain `state_dict` or one inside a checkpoint, under whatever prefix the network has there.
"""

import argparse
import logging
import os
import pickle
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import torch
from torch import Tensor, nn

StateDict = Mapping[str, Tensor]

# Where checkpoints keep the weights: most trainers, detectors of Meta, and DINO, whose teacher is the better network.
_INSIDE = ("state_dict", "model", "teacher")
_UNSAFE = re.compile(r"GLOBAL (\S+)")
_NUM_NAMED = 3

_log = logging.getLogger(__name__)


def read_weights(file: str | os.PathLike[str]) -> StateDict:
    """The tensors of a weight file, without the `module.` of a wrapped model; nothing in it is executed."""
    file = Path(file)
    if not file.is_file():
        raise FileNotFoundError(f"{file}: no such weight file")
    content: Any = _read_safetensors(file) if file.suffix == ".safetensors" else _read_pickle(file)
    for _ in _INSIDE:  # a state_dict may be nested twice
        inside = [content[key] for key in _INSIDE if isinstance(content, Mapping) and key in content]
        content = next((each for each in inside if isinstance(each, Mapping)), content)
    is_named = isinstance(content, Mapping) and all(isinstance(name, str) for name in content)
    if not is_named or not content or not all(isinstance(value, Tensor) for value in content.values()):
        raise ValueError(f"{file}: expected a dictionary of tensors, as `torch.save(model.state_dict(), file)` writes")
    return {name.removeprefix("module."): value for name, value in content.items()}


def load_backbone(backbone: nn.Module, weights: StateDict, source: str, *, left_out: Sequence[str] = ()) -> None:
    """Load all weights of a backbone from a file that may have more: a classifier, other networks, a prefix.

    Args:
        backbone: what the weights are for.
        weights: weights in the file.
        source: name of the file, for messages.
        left_out: beginnings of names that lie inside the parts of the backbone and are not needed.

    Raises:
        ValueError: a weight is missing, has another shape, or is one more than a part of the backbone has.
    """
    own = {name: value for name, value in backbone.state_dict().items() if _matters(name)}
    prefix = _prefix_of(own, weights)
    found = {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}
    missing = [name for name in own if name not in found]
    if missing:
        raise ValueError(f"{source}: {len(missing)} weights of the model are missing, the first is {missing[0]}")
    for name, value in own.items():
        if value.shape != found[name].shape:
            raise ValueError(f"{source}: {name} must be {tuple(value.shape)}, got {tuple(found[name].shape)}")
    left = [name for name in found if name not in own and _matters(name)]
    # A deeper network has all weights that are needed and more. More weights outside of the backbone are a head.
    parts = {name.partition(".")[0] for name in own}
    unknown = [name for name in left if name.partition(".")[0] in parts and not name.startswith(tuple(left_out))]
    if unknown:
        raise ValueError(f"{source}: {len(unknown)} weights are not in the model, the first is {unknown[0]}")
    backbone.load_state_dict({name: found[name] for name in own}, strict=False)
    others = [name for name in weights if not name.startswith(prefix) and _matters(name)]
    _log.info("%s: %s", source, taken_and_left(len(own), [*left, *others]))


def taken_and_left(num_taken: int, left: Sequence[str]) -> str:
    """How many weights were taken, and the names of the first that were not."""
    if not left:
        return f"all {num_taken} weights taken"
    named = ", ".join(left[:_NUM_NAMED]) + (", …" if len(left) > _NUM_NAMED else "")
    return f"{num_taken} weights taken, {len(left)} left: {named}"


def _matters(name: str) -> bool:
    """Whether a missing weight matters: old files lack the counter of batches, which nothing here reads."""
    return not name.endswith("num_batches_tracked")


def _prefix_of(own: Iterable[str], names: Iterable[str]) -> str:
    """The prefix under which most of a network's names are found; of two alike, the first: MoCo's is `encoder_q.`."""
    names = list(names)
    counts = Counter(
        name.removesuffix(each) for each in own for name in names if name == each or name.endswith(f".{each}")
    )
    return max(counts, key=lambda prefix: counts[prefix], default="")


def _read_pickle(file: Path) -> object:
    try:
        # DINO's checkpoints hold their command-line arguments, which are plain values.
        with torch.serialization.safe_globals([argparse.Namespace]):
            return torch.load(file, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, BadZipFile, ValueError, LookupError, TypeError) as error:
        unsafe = _UNSAFE.search(str(error))
        if unsafe is not None:
            raise ValueError(f"{file}: holds {unsafe[1]}, which may execute code; save its state_dict alone") from None
        # The unpickler's message about a file that is no pickle would not help the user.
        reason = "" if isinstance(error, LookupError | EOFError | TypeError) else f" ({_first_line(error)})"
        raise ValueError(f"{file}: not a file of PyTorch weights{reason}") from None


def _read_safetensors(file: Path) -> object:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(file)
    except (SafetensorError, ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{file}: not a file of safetensors ({_first_line(error)})") from None


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0][:200] or type(error).__name__
