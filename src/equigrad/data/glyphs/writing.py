"""Writing generated data sets: a folder appears complete or not at all; several processes may write its files."""

import csv
import json
import multiprocessing
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from numpy.typing import NDArray
from PIL import Image

from equigrad.csv_cells import defused
from equigrad.files import atomic_folder

Json = dict[str, Any]
MANIFEST = "manifest.json"  # the settings the folder was made with

_ZLIB_RLE = 3  # a third faster than the default strategy on noisy images, and no larger
_Result = TypeVar("_Result")


def write_once(folder: Path, settings: Json, fill: Callable[[Path], None]) -> Path:
    """Create a folder with `fill`, which writes into a temporary folder; do nothing if the same data exists already.

    FileExistsError if the folder has any other content or data made with other settings.
    """
    manifest = json.loads(json.dumps(settings))  # as it will be read back, with lists instead of tuples
    if _holds(folder, manifest):
        return folder
    try:
        with atomic_folder(folder) as fresh:
            fill(fresh)
            write_json(fresh / MANIFEST, manifest)
    except OSError:
        if not _holds(folder, manifest):  # another process may have written the same data meanwhile
            raise
    return folder


def _holds(folder: Path, manifest: Json) -> bool:
    """Whether the folder already has this data; FileExistsError if it has other content."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return False
    try:
        found: Json = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise FileExistsError(f"{folder}: expected a new or empty folder, but it has other content") from None
    if found == manifest:
        return True
    different = sorted(key for key in found.keys() | manifest.keys() if found.get(key) != manifest.get(key))
    raise FileExistsError(f"{folder} holds data made with another {' and '.join(different)}; choose another folder")


def run_jobs(job: Callable[[int], _Result], count: int, num_workers: int) -> list[_Result]:
    """Call a picklable job with 0 … count-1 and return the results in order; `num_workers` > 0 uses processes."""
    if num_workers == 0 or count == 0:
        return [job(index) for index in range(count)]
    # Spawned and not forked, because the caller may have threads.
    with multiprocessing.get_context("spawn").Pool(num_workers, _set_job, (job,)) as pool:
        return pool.map(_call_job, range(count), chunksize=32)


def _set_job(job: Callable[[int], Any]) -> None:
    global _job
    _job = job


def _call_job(index: int) -> Any:
    return _job(index)


_job: Callable[[int], Any]  # of a worker process: sent only once, because the glyphs are large


def save_image(array: NDArray[Any], file: Path) -> None:
    """Save (H, W, 3) uint8, or (H, W) uint8 or uint16, as PNG or JPEG, by the file's suffix."""
    if file.suffix == ".png":
        Image.fromarray(array).save(file, compress_level=1, compress_type=_ZLIB_RLE)
    else:
        Image.fromarray(array).save(file, quality=90)


def write_json(file: Path, content: Json) -> None:
    """Write JSON without whitespace."""
    file.write_text(json.dumps(content, separators=(",", ":")), encoding="utf-8")


def write_csv(file: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a CSV file with a header and rows."""
    with file.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(header)
        writer.writerows([defused(cell) if isinstance(cell, str) else cell for cell in row] for row in rows)
