"""Checkpoints of a run: written atomically, the last few kept, loaded without executing or trusting anything.

A checkpoint is `checkpoints/step_00001000.pt`, a dictionary of tensors and plain values. `checkpoints/best.pt` is the
checkpoint of the best evaluation, if the run keeps it.
"""

import shutil
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from equigrad.errors import EngineError, reason
from equigrad.files import atomic_write, remove_temporary_files
from equigrad.run_files import BEST, CHECKPOINTS, checkpoint_file, checkpoint_files as checkpoint_files


def save_checkpoint(run_folder: Path, content: dict[str, Any], step: int, keep: int) -> Path:
    """Write the checkpoint of a step and remove all but the last `keep`."""
    folder = run_folder / CHECKPOINTS
    folder.mkdir(parents=True, exist_ok=True)
    remove_temporary_files(folder)
    file = checkpoint_file(run_folder, step)
    with atomic_write(file) as stream:
        torch.save(content, stream)
    for old in checkpoint_files(run_folder)[:-keep]:
        old.unlink(missing_ok=True)
    return file


def keep_as_best(run_folder: Path, step: int) -> None:
    """Copy the checkpoint of a step to `best.pt`, which later checkpoints do not remove."""
    with checkpoint_file(run_folder, step).open("rb") as source, atomic_write(run_folder / BEST) as copy:
        shutil.copyfileobj(source, copy)


def load_checkpoint(file: Path) -> dict[str, Any]:
    """Read a checkpoint to the CPU; EngineError if it is missing or damaged. It takes no more memory than the file."""
    try:
        _check_archive(file)
        content = torch.load(file, map_location="cpu", weights_only=True)
        if not isinstance(content, dict):
            raise ValueError(f"expected a dictionary, got {type(content).__name__}")
        for tensor in _tensors(content):
            if tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
                raise ValueError(f"a tensor of {tuple(tensor.shape)} has more values than are stored")
    except Exception as error:  # zipfile and the unpickler raise nearly anything on a damaged file
        raise EngineError(f"cannot load the checkpoint {file}: {reason(error) or type(error).__name__}") from error
    return content


def _check_archive(file: Path) -> None:
    """Check checksums, which `torch.load` ignores, and sizes, which it trusts."""
    with zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
        if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
            raise zipfile.BadZipFile("compressed, which torch.save never does")
        if sum(entry.file_size for entry in entries) > file.stat().st_size:
            raise zipfile.BadZipFile("its parts claim to be larger than the file")
        damaged = archive.testzip()
        if damaged is not None:
            raise zipfile.BadZipFile(f"wrong checksum of {damaged}")


def _tensors(content: Any) -> Iterator[Tensor]:
    if isinstance(content, Tensor):
        yield content
    elif isinstance(content, dict | list | tuple):
        for value in content.values() if isinstance(content, dict) else content:
            yield from _tensors(value)


def latest_checkpoint(run_folder: Path, warn: Callable[[str], None] = print) -> tuple[Path, dict[str, Any]] | None:
    """The newest checkpoint that is whole, with one line of warning for each damaged one; None if there is none."""
    for file in reversed(checkpoint_files(run_folder)):
        try:
            return file, load_checkpoint(file)
        except EngineError as error:
            warn(f"warning: {error}; trying the one before")
    return None


def load_weights(run_folder: Path) -> dict[str, Tensor]:
    """`state_dict` of the run's newest model for evaluation: the averaged weights if the run keeps them."""
    found = latest_checkpoint(run_folder)
    if found is None:
        raise EngineError(f"{run_folder} has no checkpoint to load")
    file, content = found
    try:
        weights: dict[str, Tensor] = content["ema"]["model"] if content["ema"] else content["model"]
    except (KeyError, TypeError):
        raise EngineError(f"{file} is not a checkpoint of a run: it has no weights of a model") from None
    return weights
