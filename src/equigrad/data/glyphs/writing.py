"""Writing data sets: a folder appears complete or not at all, and its files may be made by several processes."""

import csv
import json
import multiprocessing
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from numpy.typing import NDArray
from PIL import Image

Json = dict[str, Any]
MANIFEST = "manifest.json"  # what the folder was made from

_ZLIB_RLE = 3  # a third faster than the default strategy on noisy images, and no larger
_Result = TypeVar("_Result")


def write_once(folder: Path, settings: Json, fill: Callable[[Path], None]) -> Path:
    """Let `fill` write into a new folder that takes its name when complete; do nothing if it is there already.

    Raises FileExistsError if the folder holds anything else, or data made with other settings.
    """
    manifest = json.loads(json.dumps(settings))  # as it will be read: lists for tuples
    if _holds(folder, manifest):
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as temporary:
        fresh = Path(temporary, "data")
        fresh.mkdir()
        fill(fresh)
        write_json(fresh / MANIFEST, manifest)
        try:
            fresh.rename(folder)  # replaces nothing but an empty folder
        except OSError:
            if not _holds(folder, manifest):  # another process may have written the same data meanwhile
                raise
    return folder


def _holds(folder: Path, manifest: Json) -> bool:
    """Whether the folder already has this data; raises if it has something else."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return False
    try:
        found: Json = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise FileExistsError(f"{folder} must be new or empty, but holds something else") from None
    if found == manifest:
        return True
    different = sorted(key for key in found.keys() | manifest.keys() if found.get(key) != manifest.get(key))
    raise FileExistsError(f"{folder} holds data made with another {' and '.join(different)}; choose another folder")


def run_jobs(job: Callable[[int], _Result], count: int, num_workers: int) -> list[_Result]:
    """Results of a picklable job for 0 … count-1, in order; with workers, scripts need their `__main__` guard."""
    if num_workers == 0 or count == 0:
        return [job(index) for index in range(count)]
    # Spawned, because the caller may hold threads that a fork would break.
    with multiprocessing.get_context("spawn").Pool(num_workers, _adopt, (job,)) as pool:
        return pool.map(_call_adopted, range(count), chunksize=32)


def _adopt(job: Callable[[int], Any]) -> None:
    global _adopted
    _adopted = job


def _call_adopted(index: int) -> Any:
    return _adopted(index)


_adopted: Callable[[int], Any]  # in a worker: sent once, because the glyphs are large


def save_image(array: NDArray[Any], file: Path) -> None:
    """Save (H, W, 3) uint8, or (H, W) uint8 or uint16, as PNG or JPEG, by the file's suffix."""
    if file.suffix == ".png":
        Image.fromarray(array).save(file, compress_level=1, compress_type=_ZLIB_RLE)
    else:
        Image.fromarray(array).save(file, quality=90)


def write_json(file: Path, content: Json) -> None:
    """Compact JSON."""
    file.write_text(json.dumps(content, separators=(",", ":")), encoding="utf-8")


def write_csv(file: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """A header and rows."""
    with file.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream, lineterminator="\n").writerows([header, *rows])
