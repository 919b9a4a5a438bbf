"""Detection data as the arrays of an index, and back.

Besides the data, the arrays hold what every training would otherwise count at its start: which image shows which
category, and which boxes have an area. Arrays of a file are not trusted: types, shapes, offsets and labels are checked.
"""

import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equigrad.data.detection.data import Categories, CategoryLists, DetectionData, StoredNames
from equigrad.data.detection.mapped_arrays import Arrays
from equigrad.data.detection.masks import Segmentations
from equigrad.record_ids import Ids, id_column

_LISTS = ("negative", "not_exhaustive")
# Types by shape: I images, M annotations, C categories, P pairs of image and category.
_TYPES: dict[str, dict[str, str]] = {
    "I": {"image_ids": "int64", "heights": "int32", "widths": "int32"},
    "I + 1": {"offsets": "int64"},
    "M": {
        "labels": "int32",
        "areas": "float64",
        "is_crowd": "bool",
        "ids": "int64",
        "has_area": "bool",
        "mask_starts": "int64",
        "mask_lengths": "int32",
    },
    "M, 4": {"boxes": "float32", "xywh": "float64"},
    "C": {"category_ids": "int64", "frequency": "uint8", "category_counts": "int64", "instance_counts": "int64"},
    "P": {"presence_images": "int32", "presence_labels": "int32"},
}
_OPTIONAL = {"xywh", "mask_starts", "mask_lengths", "frequency", "has_area"}


def to_columns(data: DetectionData) -> Arrays:
    """The arrays of data whose masks, if any, are in the file `data.source`."""
    images, labels = data.presence
    arrays: dict[str, NDArray[Any] | None] = {
        name: getattr(data, name)
        for name in ("heights", "widths", "offsets", "boxes", "labels", "areas", "is_crowd", "ids", "xywh")
    }
    arrays |= {
        **_ids("image", data.image_ids),
        **_ids("category", data.categories.ids),
        "has_area": data.has_area if data.has_sizes else None,
        "category_counts": data.category_counts,
        "instance_counts": data.instance_counts,
        "presence_images": images.astype(np.int32),
        "presence_labels": labels.astype(np.int32),
        **_names("file_name", data.file_names),
        **_names("category", data.categories.names),
    }
    if data.categories.frequency is not None:
        arrays["frequency"] = np.frombuffer("".join(data.categories.frequency).encode(), np.uint8)
    if data.segmentations is not None:
        arrays |= {"mask_starts": data.segmentations.starts, "mask_lengths": data.segmentations.lengths}
    for name in _LISTS:
        arrays |= list_columns(name, getattr(data, name))
    return {name: array for name, array in arrays.items() if array is not None}


def from_columns(arrays: Arrays, source: Path) -> DetectionData:
    """Data from the arrays of an index of the file `source`; ValueError if they do not fit together."""
    checked = _checked(arrays)
    num_images, num_classes = len(checked["image_ids"]), len(checked["category_ids"])
    data = DetectionData(
        source=str(source),
        file_names=_stored_names(arrays, "file_name", num_images),
        categories=Categories(
            _read_ids(arrays, "category", checked["category_ids"]),
            tuple(name.decode() for name in _pieces(arrays, "category", num_classes)),
            tuple(bytes(checked["frequency"]).decode("ascii")) if "frequency" in checked else None,
        ),
        segmentations=_segmentations(checked, source),
        negative=category_lists(arrays, "negative", num_images, num_classes),
        not_exhaustive=category_lists(arrays, "not_exhaustive", num_images, num_classes),
        xywh=checked.get("xywh"),
        image_ids=_read_ids(arrays, "image", checked["image_ids"]),
        **{
            name: checked[name]
            for name in ("heights", "widths", "offsets", "boxes", "labels", "areas", "is_crowd", "ids")
        },
    )
    # Cached properties live in the instance: they need not be counted again.
    vars(data).update(
        {name: checked[name] for name in ("has_area", "category_counts", "instance_counts") if name in checked},
        presence=(checked["presence_images"], checked["presence_labels"]),
    )
    return data


def list_columns(name: str, lists: CategoryLists | None) -> Arrays:
    """The arrays of lists of categories; none if there are no lists."""
    return {} if lists is None else {f"{name}_offsets": lists.offsets, f"{name}_values": lists.values}


def category_lists(arrays: Arrays, name: str, num_images: int, num_classes: int) -> CategoryLists | None:
    """The lists that `list_columns` gave; ValueError if they are not lists of categories of so many images."""
    if f"{name}_offsets" not in arrays:
        return None
    offsets, values = typed(arrays, f"{name}_offsets", "int64", (num_images + 1,)), _array(arrays, f"{name}_values")
    _check_offsets(f"{name}_offsets", offsets, len(values))
    _check_range(f"{name}_values", typed(arrays, f"{name}_values", "int32", (len(values),)), num_classes)
    return CategoryLists(offsets, values)


def _checked(arrays: Arrays) -> Arrays:
    """The arrays of `_TYPES` that are there, which are all that must be."""
    lengths = {
        "I": len(_array(arrays, "image_ids")),
        "M": len(_array(arrays, "labels")),
        "C": len(_array(arrays, "category_ids")),
        "P": len(_array(arrays, "presence_images")),
    }
    shapes: dict[str, tuple[int, ...]] = {name: (length,) for name, length in lengths.items()}
    shapes |= {"I + 1": (lengths["I"] + 1,), "M, 4": (lengths["M"], 4)}
    checked = {
        name: typed(arrays, name, kind, shapes[shape])
        for shape, types in _TYPES.items()
        for name, kind in types.items()
        if name in arrays or name not in _OPTIONAL
    }
    _check_offsets("offsets", checked["offsets"], lengths["M"])
    for name, bound in (("labels", "C"), ("presence_labels", "C"), ("presence_images", "I")):
        _check_range(name, checked[name], lengths[bound])
    least_side = 1 if "has_area" in checked else 0  # of images whose size is not in the file
    for name, least in (
        *(("heights", least_side), ("widths", least_side)),
        *(("category_counts", 0), ("instance_counts", 0)),
    ):
        if (checked[name] < least).any():
            raise ValueError(f"{name}: expected numbers from {least}")
    if "frequency" in checked and not set(checked["frequency"].tobytes()) <= set(b"rcf"):
        raise ValueError("frequency: expected r, c or f")
    return checked


def _segmentations(checked: Arrays, source: Path) -> Segmentations | None:
    if "mask_starts" not in checked:
        return None
    status = os.stat(source)
    starts, lengths = checked["mask_starts"], typed(checked, "mask_lengths", "int32", checked["mask_starts"].shape)
    _check_range("mask_starts", starts, status.st_size)
    _check_range("mask_lengths", lengths, status.st_size)
    return Segmentations(source, starts, lengths, (status.st_size, status.st_mtime_ns))


def _ids(kind: str, ids: Ids) -> Arrays:
    """Numbers as they are; texts as their text, beside the numbers from 0."""
    if ids.dtype.kind != "U":
        return {f"{kind}_ids": ids}
    return {f"{kind}_ids": np.arange(len(ids)), **_names(f"{kind}_id", ids.tolist())}


def _read_ids(arrays: Arrays, kind: str, numbers: NDArray[np.int64]) -> Ids:
    """What `_ids` was given; ValueError if a text is no id."""
    if f"{kind}_id_text" not in arrays:
        return numbers
    return id_column([name.decode() for name in _pieces(arrays, f"{kind}_id", len(numbers))])


def _names(kind: str, names: Any) -> Arrays:
    stored = StoredNames.of(names)
    return {f"{kind}_text": stored.text, f"{kind}_offsets": stored.offsets}


def _stored_names(arrays: Arrays, kind: str, count: int) -> StoredNames:
    text = _array(arrays, f"{kind}_text")
    offsets = typed(arrays, f"{kind}_offsets", "int64", (count + 1,))
    _check_offsets(f"{kind}_offsets", offsets, len(text))
    return StoredNames(typed(arrays, f"{kind}_text", "uint8", (len(text),)), offsets)


def _pieces(arrays: Arrays, kind: str, count: int) -> list[bytes]:
    stored = _stored_names(arrays, kind, count)
    text, offsets = stored.text.tobytes(), stored.offsets.tolist()
    return [text[start:end] for start, end in pairwise(offsets)]


def _array(arrays: Arrays, name: str) -> NDArray[Any]:
    if name not in arrays or arrays[name].ndim == 0:
        raise ValueError(f"{name}: expected an array")
    return arrays[name]


def typed(arrays: Arrays, name: str, kind: str, shape: tuple[int, ...]) -> NDArray[Any]:
    """An array of this name, type and shape; ValueError if it is another."""
    array = _array(arrays, name)
    if array.dtype != np.dtype(kind) or array.shape != shape:
        raise ValueError(f"{name}: expected {kind} {shape}, got {array.dtype} {array.shape}")
    return array


def _check_offsets(name: str, offsets: NDArray[np.int64], total: int) -> None:
    if offsets[0] != 0 or offsets[-1] != total or (offsets[1:] < offsets[:-1]).any():
        raise ValueError(f"{name}: expected ascending numbers from 0 to {total}")


def _check_range(name: str, values: NDArray[Any], bound: int) -> None:
    if len(values) and not 0 <= values.min() <= values.max() < bound:
        raise ValueError(f"{name}: expected numbers from 0 to {bound - 1}")
