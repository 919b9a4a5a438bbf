"""Reading and writing the standard result format of detections, which all detection tools know:

[{"image_id": 42, "category_id": 18, "bbox": [x, y, width, height], "score": 0.24, "segmentation": {…}}, …]

The file is read in parts, so that the objects of millions of detections are never in memory together.
"""

import json
import os
import sys
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pycocotools.mask as mask_api  # type: ignore[import-untyped]
from numpy.typing import NDArray

from equigrad.evaluation.detection.annotations import Annotations, Floats
from equigrad.evaluation.detection.json_entries import json_entries, list_parts
from equigrad.evaluation.detection.packed_masks import PackedMasks, are_valid
from equigrad.evaluation.detection.predictions import Predictions
from equigrad.files import atomic_write
from equigrad.record_ids import IdTable, JsonId

FLOAT_MAX = sys.float_info.max
MAX_COORDINATE = 1e9  # pixels
ENTRIES_AT_ONCE = 1000  # few enough for the cache of the processor


def read_predictions(file: str | os.PathLike[str], annotations: Annotations) -> Predictions:
    """Read a file in the standard result format.

    Either `bbox` or `segmentation` may be missing, but then in all detections. Masks are run lengths, compressed or
    not, or polygons.

    Raises:
        ValueError: names file, index and field of the first wrong detection.
    """
    path = Path(file)
    return Predictions.joined(list(_Reader(path, annotations).parts()))


def write_predictions(predictions: Predictions, annotations: Annotations, file: str | os.PathLike[str]) -> Path:
    """Write detections in the standard result format, for other tools; scores and boxes keep all digits."""
    file = Path(file)
    with atomic_write(file) as stream:
        stream.write(b"[")
        for index, entry in enumerate(_entries(predictions, annotations)):
            text = json.dumps(entry, allow_nan=False, separators=(",", ":"))
            stream.write(f",\n{text}".encode() if index else text.encode())
        stream.write(b"]\n")
    return file


def _entries(predictions: Predictions, annotations: Annotations) -> Iterator[dict[str, Any]]:
    """The detections as dictionaries, one at a time; a list of all would need much memory."""
    for start in range(0, len(predictions), ENTRIES_AT_ONCE):
        rows = slice(start, start + ENTRIES_AT_ONCE)
        images = predictions.images[rows]
        columns = (
            annotations.image_ids[images],
            annotations.categories.ids[predictions.labels[rows]],
            predictions.boxes[rows],
            predictions.scores[rows],
        )
        sizes = np.stack([annotations.heights[images], annotations.widths[images]], 1).tolist()
        for index, row in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
            entry = dict(zip(("image_id", "category_id", "bbox", "score"), row, strict=True))
            if predictions.masks is not None:
                counts = predictions.masks.counts(start + index).decode("ascii")
                entry["segmentation"] = {"size": sizes[index], "counts": counts}
            yield entry


class _Detection(msgspec.Struct, gc=False):
    image_id: JsonId
    category_id: JsonId
    score: float


class _Box(_Detection, gc=False):
    bbox: tuple[float, float, float, float]


class _Mask(_Detection):
    segmentation: Any


class _BoxAndMask(_Box):
    segmentation: Any


class _Reader:
    """Reads typed detections and checks whole columns.

    Only if one is wrong, the entries are checked one by one to name the first wrong one.
    """

    def __init__(self, file: Path, annotations: Annotations) -> None:
        self.file, self.annotations = file, annotations
        self.image_ids = IdTable(annotations.image_ids)
        self.category_ids = IdTable(annotations.categories.ids)
        self.sizes = np.stack([annotations.heights, annotations.widths], 1).astype(np.int64)
        self.kind: Any = list[_Box]  # unless the first detection is another
        self.has_boxes, self.has_masks = True, False

    def parts(self) -> Iterator[Predictions]:
        """The detections of the file, some at a time."""
        for entry in islice(json_entries(self.file), 1):
            self._look_at(entry)
        decode, index = msgspec.json.Decoder(self.kind).decode, 0
        for position, text in list_parts(self.file):
            try:
                part = self._columns(decode(text))
            except (msgspec.MsgspecError, RecursionError, KeyError, TypeError, ValueError, OverflowError):
                yield from self._checked(json_entries(self.file, position, index), index)
                return
            index += len(part)
            yield part

    def _look_at(self, entry: Any) -> None:
        if not isinstance(entry, dict) or not ({"bbox", "segmentation"} & entry.keys()):
            raise ValueError(f"{self.file}: entry 0: expected an object with bbox or segmentation")
        self.has_boxes, self.has_masks = "bbox" in entry, "segmentation" in entry
        if self.has_masks:
            self.annotations.require_sizes()
            self.kind = list[_BoxAndMask] if self.has_boxes else list[_Mask]

    def _checked(self, entries: Iterator[Any], index: int) -> Iterator[Predictions]:
        """Detections from entries that are not as they should be: the error names the first wrong one."""
        while batch := list(islice(entries, ENTRIES_AT_ONCE)):
            try:
                part = self._columns(msgspec.convert(batch, self.kind))
            except (msgspec.MsgspecError, KeyError, TypeError, ValueError, OverflowError):
                for number, entry in enumerate(batch, index):
                    self._check(number, entry)
                raise
            index += len(batch)
            yield part

    def _columns(self, entries: list[Any]) -> Predictions:
        num = len(entries)
        images = self.image_ids.indices([entry.image_id for entry in entries])
        labels = self.category_ids.indices([entry.category_id for entry in entries])
        scores = np.fromiter([entry.score for entry in entries], np.float64, num)
        _require(np.isfinite(scores).all(), "a finite number")
        masks = self._masks(entries, images) if self.has_masks else None
        if self.has_boxes:
            boxes = _boxes([entry.bbox for entry in entries])
            areas = boxes[:, 2] * boxes[:, 3]
        else:
            assert masks is not None
            rles = [masks.rle(index, self.sizes[image]) for index, image in enumerate(images)]
            boxes, areas = _boxes(mask_api.toBbox(rles)), mask_api.area(rles).astype(np.float64)
        return Predictions(images, labels, boxes, scores, areas, masks)

    def _masks(self, entries: list[Any], images: NDArray[np.int32]) -> PackedMasks:
        sizes = self.sizes[images]
        pairs = zip(entries, sizes.tolist(), strict=True)
        masks = PackedMasks.of([_counts(entry.segmentation, size) for entry, size in pairs])
        _require(are_valid(masks, sizes[:, 0] * sizes[:, 1]).all(), "run lengths that cover the image")
        return masks

    def _check(self, index: int, entry: Any) -> None:
        where = f"{self.file}: entry {index}"
        if not isinstance(entry, dict):
            raise ValueError(f"{where}: expected an object, got {_short(entry)}")
        fields = {"image_id": self._image, "category_id": self._label, "score": _score}
        fields |= {"bbox": _box} if self.has_boxes else {}
        for field, check in fields.items():
            self._check_field(where, entry, field, check)
        if self.has_masks:
            size = self.sizes[self._image(entry["image_id"])].tolist()
            self._check_field(where, entry, "segmentation", lambda value: _mask(value, size))

    @staticmethod
    def _check_field(where: str, entry: dict[str, Any], field: str, check: Any) -> None:
        if field not in entry:
            raise ValueError(f"{where}: {field} is missing")
        try:
            check(entry[field])
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"{where}: {field} must be {error}, got {_short(entry[field])}") from None

    def _image(self, value: Any) -> int:
        _require(self.image_ids.has(value), "the id of an image of the annotations")
        return int(self.image_ids.indices([value])[0])

    def _label(self, value: Any) -> None:
        _require(self.category_ids.has(value), "the id of a category of the annotations")


def _boxes(rows: Iterable[Iterable[float]]) -> Floats:
    boxes = np.fromiter(chain.from_iterable(rows), np.float64).reshape(-1, 4)
    _require((np.abs(boxes) <= MAX_COORDINATE).all() and (boxes[:, 2:] >= 0).all(), "sides from 0")
    return boxes


def _counts(mask: Any, size: list[int]) -> bytes:
    """A mask of any form as compressed run lengths."""
    if isinstance(mask, dict) and isinstance(mask["counts"], str):
        _require(mask["size"] == size, "a mask of the size of its image")
        return mask["counts"].encode("ascii")
    height, width = size
    if isinstance(mask, dict):
        runs = np.array(mask["counts"])
        _require(mask["size"] == size and runs.ndim == 1 and runs.dtype.kind == "i", "run lengths")
        _require((runs >= 0).all() and runs.sum() == height * width, "run lengths that cover the image")
        counts: bytes = mask_api.frPyObjects(mask, height, width)["counts"]
        return counts
    _require(isinstance(mask, list) and len(mask) > 0 and all(_is_polygon(part) for part in mask), "run lengths")
    merged: bytes = mask_api.merge(mask_api.frPyObjects(mask, height, width))["counts"]
    return merged


def _is_polygon(part: Any) -> bool:
    numbers = np.array(part)
    within = numbers.dtype.kind in "if" and numbers.ndim == 1 and len(numbers) >= 6 and len(numbers) % 2 == 0
    # With coordinates far outside, pycocotools would allocate memory without limit.
    return bool(within and (np.abs(numbers) < 1e6).all())


def _mask(value: Any, size: list[int]) -> None:
    height, width = size
    expected = f"a mask of {height} x {width} pixels (run lengths or polygons)"
    try:
        valid = are_valid(PackedMasks.of([_counts(value, size)]), np.array([height * width])).all()
    except (KeyError, TypeError, ValueError, OverflowError):
        raise ValueError(expected) from None
    _require(valid, expected)


def _score(value: Any) -> None:
    _require(_is_finite(value), "a finite number")


def _box(value: Any) -> None:
    is_box = isinstance(value, list) and len(value) == 4 and all(map(_is_coordinate, value)) and min(value[2:]) >= 0
    _require(is_box, "x, y, width, height: four finite numbers in pixels, the sides from 0")


def _is_coordinate(value: Any) -> bool:
    return _is_finite(value) and abs(value) <= MAX_COORDINATE


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < FLOAT_MAX


def _require(fulfilled: Any, expected: str) -> None:
    if not fulfilled:
        raise ValueError(expected)


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
