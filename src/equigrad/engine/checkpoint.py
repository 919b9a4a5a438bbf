"""Checkpoints of a run: written atomically, the last few kept, loaded without executing anything.

A checkpoint is `checkpoints/step_00001000.pt`, a dictionary of tensors and plain values.
"""

import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from equigrad.errors import EngineError, one_line
from equigrad.files import atomic_write, remove_temporary_files
from equigrad.run_files import CHECKPOINTS


def save_checkpoint(run_folder: Path, content: dict[str, Any], step: int, keep: int) -> Path:
    """Write the checkpoint of a step and remove all but the last `keep`."""
    folder = run_folder / CHECKPOINTS
    folder.mkdir(parents=True, exist_ok=True)
    remove_temporary_files(folder)
    file = folder / f"step_{step:08d}.pt"
    with atomic_write(file) as stream:
        torch.save(content, stream)
    for old in checkpoint_files(run_folder)[:-keep]:
        old.unlink(missing_ok=True)
    return file


def checkpoint_files(run_folder: Path) -> list[Path]:
    """The checkpoints of a run, oldest first."""
    return sorted((run_folder / CHECKPOINTS).glob("step_*.pt"))


def load_checkpoint(file: Path) -> dict[str, Any]:
    """Read a checkpoint to the CPU; EngineError if it is missing or damaged."""
    try:
        with zipfile.ZipFile(file) as archive:
            damaged = archive.testzip()  # torch.load alone does not notice a flipped bit
        if damaged is not None:
            raise zipfile.BadZipFile(f"wrong checksum of {damaged}")
        content: dict[str, Any] = torch.load(file, map_location="cpu", weights_only=True)
    except (OSError, EOFError, RuntimeError, ValueError, pickle.UnpicklingError, zipfile.BadZipFile) as error:
        raise EngineError(f"cannot load the checkpoint {file}: {one_line(error)}") from error
    return content


def latest_checkpoint(run_folder: Path, warn: Callable[[str], None] = print) -> tuple[Path, dict[str, Any]] | None:
    """The newest checkpoint that is whole, with one line of warning for each damaged one; None if there is none."""
    for file in reversed(checkpoint_files(run_folder)):
        try:
            return file, load_checkpoint(file)
        except EngineError as error:
            warn(f"warning: {error}; trying the one before")
    return None


def load_weights(run_folder: Path, warn: Callable[[str], None] = print) -> dict[str, Tensor]:
    """`state_dict` of the run's newest model for evaluation: the averaged weights if the run keeps them."""
    found = latest_checkpoint(run_folder, warn)
    if found is None:
        raise EngineError(f"{run_folder} has no checkpoint to load")
    _, content = found
    weights: dict[str, Tensor] = content["ema"]["model"] if content["ema"] else content["model"]
    return weights
