"""Reading COCO and LVIS annotation files into arrays, and writing COCO files."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from equigrad.data.detection.data import Categories, CategoryLists, DetectionData
from equigrad.data.detection.formats.coco_paths import image_path
from equigrad.data.detection.formats.coco_text import CocoText, fault, open_coco
from equigrad.data.detection.masks import Segmentations
from equigrad.files import atomic_write

MAX_PIXELS = 178_956_970  # of an image: above this, Pillow refuses it as a decompression bomb
_BLOCK = 16384  # annotations decoded at a time, so that few Python objects exist at once

_Id = Annotated[int, msgspec.Meta(ge=0, le=2**53)]  # larger integers are not exact in all JSON tools
_Side = Annotated[int, msgspec.Meta(ge=1, le=MAX_PIXELS)]
LARGEST_COORDINATE = 1e9
"""In pixels: what is larger is no box of an image, and its area would not fit into a float32."""

_Coordinate = Annotated[float, msgspec.Meta(ge=-LARGEST_COORDINATE, le=LARGEST_COORDINATE)]
_NO_MASK = msgspec.Raw()


class _Category(msgspec.Struct):
    id: _Id
    name: str
    frequency: Literal["r", "c", "f"] | None = None


class _Image(msgspec.Struct):
    id: _Id
    height: _Side
    width: _Side
    file_name: str | None = None
    coco_url: str | None = None
    neg_category_ids: list[_Id] | None = None
    not_exhaustive_category_ids: list[_Id] | None = None


class _Annotation(msgspec.Struct, gc=False):
    id: _Id
    image_id: _Id
    category_id: _Id
    bbox: tuple[_Coordinate, _Coordinate, _Coordinate, _Coordinate]
    segmentation: msgspec.Raw = _NO_MASK
    area: float | None = None
    iscrowd: Literal[0, 1] | bool = 0


_Record = TypeVar("_Record", _Category, _Image, _Annotation)


def read_coco(file: str | os.PathLike[str]) -> DetectionData:
    """Read an annotation file in the format of COCO or LVIS (v1 or v0.5).

    Boxes, categories and federated lists are read into arrays; masks stay in the file until they are needed. Labels
    follow ascending category ids. A broken or inconsistent file raises a ValueError that names the record and the
    field; `check_detection` lists all faults of a file.
    """
    text = open_coco(file)
    categories = _read_categories(text)
    images = list(chain.from_iterable(_decoded(text, "image", text.sections.images, _Image)))
    image_ids = _distinct_ids(text, "image", [image.id for image in images])
    columns = _read_annotations(text)
    _distinct_ids(text, "annotation", columns.ids)
    owners = _indices(text, columns, "image_id", columns.image_ids, image_ids)
    labels = _indices(text, columns, "category_id", columns.category_ids, categories.ids)
    order = np.argsort(owners, kind="stable")
    boxes = columns.boxes[order]
    segmentations = Segmentations(text.file, columns.starts[order], columns.lengths[order], text.stamp)
    return DetectionData(
        source=str(text.file),
        image_ids=image_ids,
        file_names=tuple(_path(text, image) for image in images),
        heights=np.array([image.height for image in images], np.int32),
        widths=np.array([image.width for image in images], np.int32),
        categories=categories,
        offsets=_offsets(np.bincount(owners, minlength=len(images))),
        boxes=np.concatenate([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], axis=1).astype(np.float32),
        labels=labels[order].astype(np.int32),
        areas=columns.areas[order],
        is_crowd=columns.is_crowd[order],
        ids=columns.ids[order],
        segmentations=segmentations if segmentations.lengths.any() else None,
        negative=_category_lists(text, images, "neg_category_ids", categories),
        not_exhaustive=_category_lists(text, images, "not_exhaustive_category_ids", categories),
        xywh=boxes,
    )


def write_coco(
    file: str | os.PathLike[str],
    images: Sequence[dict[str, Any]],
    annotations: Sequence[dict[str, Any]],
    categories: Sequence[dict[str, Any]],
) -> Path:
    """Write records with the fields of COCO; the file appears complete or not at all."""
    file = Path(file)
    file.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(file) as stream:
        stream.write(msgspec.json.encode({"images": images, "annotations": annotations, "categories": categories}))
    return file


@dataclass(frozen=True)
class _Columns:
    """Annotations in the order of the file, (M,) each."""

    ids: NDArray[np.int64]
    image_ids: NDArray[np.int64]
    category_ids: NDArray[np.int64]
    boxes: NDArray[np.float64]  # (M, 4) x, y, width, height
    areas: NDArray[np.float64]
    is_crowd: NDArray[np.bool_]
    starts: NDArray[np.int64]
    lengths: NDArray[np.int32]


def _read_annotations(text: CocoText) -> _Columns:
    records = text.sections.annotations
    numbers = np.empty((len(records), 3), np.int64)
    boxes = np.empty((len(records), 4), np.float64)
    areas = np.empty(len(records), np.float64)
    flags = np.empty((len(records), 2), np.bool_)
    start = 0
    for block in _decoded(text, "annotation", records, _Annotation):
        rows = slice(start, start + len(block))
        numbers[rows] = [(item.id, item.image_id, item.category_id) for item in block]
        boxes[rows] = np.fromiter(chain.from_iterable(item.bbox for item in block), float).reshape(-1, 4)
        areas[rows] = [item.bbox[2] * item.bbox[3] if item.area is None else item.area for item in block]
        flags[rows] = [(item.iscrowd, item.segmentation is not _NO_MASK) for item in block]
        start += len(block)
    starts, lengths = text.spans(records)
    lengths[~flags[:, 1]] = 0
    ids, image_ids, category_ids = (np.ascontiguousarray(column) for column in numbers.T)
    return _Columns(ids, image_ids, category_ids, boxes, areas, flags[:, 0].copy(), starts, lengths)


def _decoded(
    text: CocoText, kind: str, records: Sequence[msgspec.Raw], record_type: type[_Record]
) -> Iterator[list[_Record]]:
    """Decode the records in blocks; ValueError names the first record that has another type."""
    decode = msgspec.json.Decoder(record_type).decode
    for start in range(0, len(records), _BLOCK):
        block: list[_Record] = []
        try:
            for record in records[start : start + _BLOCK]:
                block.append(decode(record))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            index = start + len(block)
            raise ValueError(fault(text.file, kind, index, records[index], error)) from None
        yield block


def _read_categories(text: CocoText) -> Categories:
    records = list(chain.from_iterable(_decoded(text, "category", text.sections.categories, _Category)))
    if not records:
        raise ValueError(f"{text.file}: categories: expected one or more, got none")
    ids = _distinct_ids(text, "category", [record.id for record in records])
    ordered = [records[index] for index in np.argsort(ids)]
    letters = [record.frequency for record in ordered]
    frequency = tuple(letter for letter in letters if letter is not None)
    if frequency and len(frequency) < len(ordered):
        missing = ordered[letters.index(None)]
        raise ValueError(f"{text.file}: category {missing.id}: frequency: expected r, c or f, as others have")
    return Categories(np.sort(ids), tuple(record.name for record in ordered), frequency or None)


def _distinct_ids(text: CocoText, kind: str, ids: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
    found = np.array(ids, dtype=np.int64)
    values, counts = np.unique(found, return_counts=True)
    if len(values) < len(found):
        raise ValueError(f"{text.file}: {kind} {values[counts.argmax()]}: id: used {counts.max()} times")
    return found


def _indices(
    text: CocoText, columns: _Columns, field: str, wanted: NDArray[np.int64], ids: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Index of each wanted id in `ids`; ValueError if one is missing."""
    indices, found = _locate(wanted, ids)
    if not found.all():
        wrong = int(found.argmin())
        kind = field.removesuffix("_id")
        raise ValueError(
            f"{text.file}: annotation {columns.ids[wrong]}: {field}: there is no {kind} with id {wanted[wrong]}"
        )
    return indices


def _locate(wanted: NDArray[np.int64], ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Index in `ids` of each wanted value, and whether it occurs there, (N,) each."""
    if len(ids) == 0:
        return np.zeros(len(wanted), np.int64), np.zeros(len(wanted), np.bool_)
    order = np.argsort(ids)
    indices = order[np.minimum(np.searchsorted(ids, wanted, sorter=order), len(ids) - 1)]
    return indices, ids[indices] == wanted


def _path(text: CocoText, image: _Image) -> str:
    if image.height * image.width > MAX_PIXELS:
        size = f"{image.height} x {image.width}"
        raise ValueError(
            f"{text.file}: image {image.id}: height, width: expected up to {MAX_PIXELS} pixels, got {size}"
        )
    try:
        return image_path(image.file_name, image.coco_url)
    except ValueError as error:
        raise ValueError(f"{text.file}: image {image.id}: {error}") from None


def _category_lists(text: CocoText, images: list[_Image], field: str, categories: Categories) -> CategoryLists | None:
    lists = [getattr(image, field) for image in images]
    if all(ids is None for ids in lists):
        return None
    missing = next((image for image, ids in zip(images, lists, strict=True) if ids is None), None)
    if missing is not None:
        raise ValueError(f"{text.file}: image {missing.id}: {field}: expected a list, as other images have")
    lengths = np.array([len(ids) for ids in lists])
    wanted = np.fromiter(chain.from_iterable(lists), np.int64, int(lengths.sum()))
    values, found = _locate(wanted, categories.ids)
    if not found.all():
        wrong = int(found.argmin())
        image = images[int(np.searchsorted(np.cumsum(lengths), wrong, side="right"))]
        raise ValueError(f"{text.file}: image {image.id}: {field}: there is no category with id {wanted[wrong]}")
    return CategoryLists(_offsets(lengths), values.astype(np.int32))


def _offsets(lengths: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
