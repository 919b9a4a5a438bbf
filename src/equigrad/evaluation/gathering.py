"""Sending what the ranks have collected to rank 0, in chunks of bounded size and without a shared folder.

Every rank must call each function. Tensors are sent from main memory: by the default group, or by another group of gloo
where the default one is of NCCL.
"""

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray

from equigrad.files import atomic_write

BYTES_AT_ONCE = 1 << 26


def own_rank() -> int:
    """The rank of this process; 0 for a single process."""
    return dist.get_rank() if is_distributed() else 0


def is_distributed() -> bool:
    """Whether this process is one of several ranks."""
    return dist.is_available() and dist.is_initialized()


def gathered_everywhere(value: Any) -> list[Any]:
    """The value of each rank, on every rank; for small ones."""
    if not is_distributed():
        return [value]
    values: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values


def gather_arrays(arrays: Sequence[NDArray[Any]]) -> list[list[NDArray[Any]]]:
    """The arrays of each rank, by rank, on the first rank; an empty list on the others.

    Types and shapes are the same on all ranks, but for the lengths (first dimension).
    """
    if not is_distributed():
        return [list(arrays)]
    with _cpu_group() as group:
        if dist.get_rank() == 0:
            others = range(1, dist.get_world_size())
            return [list(arrays), *([_receive_array(array, rank, group) for array in arrays] for rank in others)]
        for array in arrays:
            _send_number(len(array), group)
            _send(np.ascontiguousarray(array).reshape(-1).view(np.uint8), group)
    return []


def gather_files(files: Sequence[Path], folder: Path) -> None:
    """Copy the files of all ranks but the first into a folder of the first, where they replace those of their name."""
    with _cpu_group() as group:
        if dist.get_rank() == 0:
            for rank in range(1, dist.get_world_size()):
                for _ in range(_receive_number(rank, group)):
                    _receive_file(folder, rank, group)
            return
        _send_number(len(files), group)
        for file in files:
            _send_file(file, group)


def sees_first_folder(folder: Path) -> bool:
    """Whether the folder of this name is the same one here as on the first rank."""
    if not is_distributed():
        return True
    name = [f".seen-{uuid.uuid4().hex}"]
    dist.broadcast_object_list(name)
    mark = folder / name[0]
    if dist.get_rank() == 0:
        mark.touch()
    dist.barrier()
    is_seen = mark.exists()
    dist.barrier()
    if dist.get_rank() == 0:
        mark.unlink()
    return is_seen


@contextmanager
def _cpu_group() -> Iterator[dist.ProcessGroup | None]:
    if dist.get_backend() == "gloo":
        yield None
        return
    group: Any = dist.new_group(backend="gloo")
    try:
        yield group
    finally:
        dist.destroy_process_group(group)


def _receive_array(like: NDArray[Any], rank: int, group: dist.ProcessGroup | None) -> NDArray[Any]:
    array = np.empty((_receive_number(rank, group), *like.shape[1:]), like.dtype)
    _receive(array.reshape(-1).view(np.uint8), rank, group)
    return array


def _send_file(file: Path, group: dist.ProcessGroup | None) -> None:
    name = np.frombuffer(file.name.encode(), np.uint8).copy()
    _send_number(len(name), group)
    _send(name, group)
    size = file.stat().st_size
    _send_number(size, group)
    buffer = np.empty(min(size, BYTES_AT_ONCE), np.uint8)
    with file.open("rb") as stream:
        for start in range(0, size, BYTES_AT_ONCE):
            chunk = buffer[: size - start]
            if stream.readinto(chunk.data) != len(chunk):
                raise OSError(f"{file}: it became shorter while it was sent")
            _send(chunk, group)


def _receive_file(folder: Path, rank: int, group: dist.ProcessGroup | None) -> None:
    name = np.empty(_receive_number(rank, group), np.uint8)
    _receive(name, rank, group)
    size = _receive_number(rank, group)
    buffer = np.empty(min(size, BYTES_AT_ONCE), np.uint8)
    with atomic_write(folder / Path(name.tobytes().decode()).name) as stream:
        for start in range(0, size, BYTES_AT_ONCE):
            chunk = buffer[: size - start]
            _receive(chunk, rank, group)
            stream.write(chunk.data)


def _send(content: NDArray[np.uint8], group: dist.ProcessGroup | None) -> None:
    for start in range(0, len(content), BYTES_AT_ONCE):
        dist.send(torch.from_numpy(content[start : start + BYTES_AT_ONCE]), 0, group=group)


def _receive(content: NDArray[np.uint8], rank: int, group: dist.ProcessGroup | None) -> None:
    for start in range(0, len(content), BYTES_AT_ONCE):
        dist.recv(torch.from_numpy(content[start : start + BYTES_AT_ONCE]), rank, group=group)


def _send_number(number: int, group: dist.ProcessGroup | None) -> None:
    dist.send(torch.tensor([number]), 0, group=group)


def _receive_number(rank: int, group: dist.ProcessGroup | None) -> int:
    number = torch.zeros(1, dtype=torch.int64)
    dist.recv(number, rank, group=group)
    return int(number)
