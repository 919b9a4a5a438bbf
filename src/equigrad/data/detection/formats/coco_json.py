"""Reading COCO and LVIS annotation files into arrays, and writing COCO files."""

import os
from collections import Counter
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
from equigrad.data.detection.formats.coco_text import CocoText, decoded, fault, open_coco
from equigrad.data.detection.masks import Segmentations
from equigrad.files import atomic_write
from equigrad.record_ids import Ids, IdTable, JsonId, id_column, plain_ids

MAX_PIXELS = 178_956_970  # of an image: above this, Pillow refuses it as a decompression bomb
_BLOCK = 16384  # annotations decoded at a time, so that few Python objects exist at once

_Side = Annotated[int, msgspec.Meta(ge=1, le=MAX_PIXELS)]
LARGEST_COORDINATE = 1e9
"""In pixels: what is larger is no box of an image, and its area would not fit into a float32."""

_Coordinate = Annotated[float, msgspec.Meta(ge=-LARGEST_COORDINATE, le=LARGEST_COORDINATE)]
_NO_MASK = msgspec.Raw()


class _Category(msgspec.Struct):
    id: JsonId
    name: str
    frequency: Literal["r", "c", "f"] | None = None


class _Image(msgspec.Struct):
    id: JsonId
    height: _Side | None = None
    width: _Side | None = None
    file_name: str | None = None
    coco_url: str | None = None
    neg_category_ids: list[JsonId] | None = None
    not_exhaustive_category_ids: list[JsonId] | None = None


class _Annotation(msgspec.Struct, gc=False):
    id: JsonId
    image_id: JsonId
    category_id: JsonId
    bbox: tuple[_Coordinate, _Coordinate, _Coordinate, _Coordinate]
    segmentation: msgspec.Raw = _NO_MASK
    area: float | None = None
    iscrowd: Literal[0, 1] | bool = 0


_Record = TypeVar("_Record", _Category, _Image, _Annotation)


def read_coco(file: str | os.PathLike[str]) -> DetectionData:
    """Read an annotation file in the format of COCO or LVIS (v1 or v0.5).

    Boxes, categories and federated lists are read into arrays; masks stay in the file until they are needed. Labels
    follow ascending category ids. An image without height or width has both as 0: `with_sizes` reads them from the
    images. A broken or inconsistent file raises a ValueError that names the record and the field; `check_detection`
    lists all faults of a file.
    """
    text = open_coco(file)
    categories = _read_categories(text)
    images = list(chain.from_iterable(_decoded(text, "image", text.sections.images, _Image)))
    image_ids = _distinct_ids(text, "image", [image.id for image in images])
    category_table = IdTable(categories.ids)
    columns = _read_annotations(text, IdTable(image_ids), category_table)
    owners, labels = columns.images, columns.labels
    order = np.argsort(owners, kind="stable")
    boxes = columns.boxes[order]
    sizes = np.array([_size(image) for image in images], np.int32).reshape(-1, 2)
    segmentations = Segmentations(text.file, columns.starts[order], columns.lengths[order], text.stamp)
    return DetectionData(
        source=str(text.file),
        image_ids=image_ids,
        file_names=tuple(_path(text, image) for image in images),
        heights=sizes[:, 0],
        widths=sizes[:, 1],
        categories=categories,
        offsets=_offsets(np.bincount(owners, minlength=len(images))),
        boxes=np.concatenate([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], axis=1).astype(np.float32),
        labels=labels[order].astype(np.int32),
        areas=columns.areas[order],
        is_crowd=columns.is_crowd[order],
        ids=columns.ids[order],
        segmentations=segmentations if segmentations.lengths.any() else None,
        negative=_category_lists(text, images, "neg_category_ids", category_table),
        not_exhaustive=_category_lists(text, images, "not_exhaustive_category_ids", category_table),
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
    images: NDArray[np.int32]  # indices
    labels: NDArray[np.int32]
    boxes: NDArray[np.float64]  # (M, 4) x, y, width, height
    areas: NDArray[np.float64]
    is_crowd: NDArray[np.bool_]
    starts: NDArray[np.int64]
    lengths: NDArray[np.int32]


def _read_annotations(text: CocoText, images: IdTable, categories: IdTable) -> _Columns:
    records = text.sections.annotations
    ids: list[Any] = []
    owners = np.empty((len(records), 2), np.int32)
    boxes = np.empty((len(records), 4), np.float64)
    areas = np.empty(len(records), np.float64)
    flags = np.empty((len(records), 2), np.bool_)
    start = 0
    for block in _decoded(text, "annotation", records, _Annotation):
        rows = slice(start, start + len(block))
        ids.append(_block_ids([item.id for item in block]))
        owners[rows, 0] = images.find([item.image_id for item in block])
        owners[rows, 1] = categories.find([item.category_id for item in block])
        boxes[rows] = np.fromiter(chain.from_iterable(item.bbox for item in block), float).reshape(-1, 4)
        areas[rows] = [item.bbox[2] * item.bbox[3] if item.area is None else item.area for item in block]
        flags[rows] = [(item.iscrowd, item.segmentation is not _NO_MASK) for item in block]
        start += len(block)
    numbers = _annotation_ids(text, ids)
    _check_owners(text, owners)
    starts, lengths = text.spans(records)
    lengths[~flags[:, 1]] = 0
    image_indices, labels = (np.ascontiguousarray(column) for column in owners.T)
    return _Columns(numbers, image_indices, labels, boxes, areas, flags[:, 0].copy(), starts, lengths)


def _block_ids(ids: list[Any]) -> NDArray[np.int64] | list[Any]:
    """Numbers as an array, which takes a fifth of the memory of a list."""
    return np.array(ids, np.int64) if set(map(type, ids)) == {int} else ids


def _annotation_ids(text: CocoText, blocks: Sequence[NDArray[np.int64] | list[Any]]) -> Ids:
    """The ids of annotations; where they are texts, which nothing else refers to, numbers from 1."""
    if all(isinstance(block, np.ndarray) for block in blocks):
        return _distinct(text, "annotation", np.concatenate([np.zeros(0, np.int64), *blocks]))
    try:
        ids = plain_ids([value for block in blocks for value in block])
    except ValueError as error:
        raise ValueError(f"{text.file}: annotation {error}") from None
    if isinstance(ids[0], int):
        return _distinct(text, "annotation", np.array(ids))
    ((first, count),) = Counter(ids).most_common(1)
    if count > 1:
        raise ValueError(_repeated(text, "annotation", first, count))
    return np.arange(1, len(ids) + 1)


def _check_owners(text: CocoText, owners: NDArray[np.int32]) -> None:
    """ValueError if the image or the category of an annotation is not in the file."""
    for field, column in zip(("image_id", "category_id"), owners.T, strict=True):
        if (column < 0).any():
            record = decoded(text.sections.annotations[int(column.argmin())])
            kind, wanted = field.removesuffix("_id"), record[field]
            shown = f"{wanted!r:.60}" if isinstance(wanted, str) else wanted
            raise ValueError(f"{text.file}: annotation {record['id']}: {field}: there is no {kind} with id {shown}")


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


def _distinct_ids(text: CocoText, kind: str, values: Sequence[Any]) -> Ids:
    try:
        ids = id_column(values)
    except ValueError as error:
        raise ValueError(f"{text.file}: {kind} {error}") from None
    return _distinct(text, kind, ids)


def _distinct(text: CocoText, kind: str, ids: Ids) -> Ids:
    """The ids; ValueError if one is used twice."""
    values, counts = np.unique(ids, return_counts=True)
    if len(values) < len(ids):
        raise ValueError(_repeated(text, kind, values[counts.argmax()], counts.max()))
    return ids


def _repeated(text: CocoText, kind: str, value: Any, count: int) -> str:
    return f"{text.file}: {kind} {value!s:.60}: id: used {count} times"


def _size(image: _Image) -> tuple[int, int]:
    """Height and width; zeros if one of them is missing."""
    return (image.height, image.width) if image.height and image.width else (0, 0)


def _path(text: CocoText, image: _Image) -> str:
    height, width = _size(image)
    if height * width > MAX_PIXELS:
        size = f"{height} x {width}"
        raise ValueError(
            f"{text.file}: image {image.id}: height, width: expected up to {MAX_PIXELS} pixels, got {size}"
        )
    try:
        return image_path(image.file_name, image.coco_url)
    except ValueError as error:
        raise ValueError(f"{text.file}: image {image.id}: {error}") from None


def _category_lists(text: CocoText, images: list[_Image], field: str, categories: IdTable) -> CategoryLists | None:
    lists = [getattr(image, field) for image in images]
    if all(ids is None for ids in lists):
        return None
    missing = next((image for image, ids in zip(images, lists, strict=True) if ids is None), None)
    if missing is not None:
        raise ValueError(f"{text.file}: image {missing.id}: {field}: expected a list, as other images have")
    lengths = np.array([len(ids) for ids in lists])
    wanted = list(chain.from_iterable(lists))
    values = categories.find(wanted)
    if (values < 0).any():
        wrong = int(values.argmin())
        image = images[int(np.searchsorted(np.cumsum(lengths), wrong, side="right"))]
        raise ValueError(f"{text.file}: image {image.id}: {field}: there is no category with id {wanted[wrong]}")
    return CategoryLists(_offsets(lengths), values)


def _offsets(lengths: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
