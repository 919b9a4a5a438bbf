"""Reading label maps: from the values stored in an image file to labels; errors name the file and the value."""

import io
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from equigrad.data.images.decoding import opened_image
from equigrad.data.images.stores import ImageStore
from equigrad.labels import IGNORE

LabelMap = NDArray[np.int16]  # (H, W): 0 … C-1, or IGNORE

_UNKNOWN = -1  # in the table of values: neither a category nor ignored
_NUM_VALUES = 1 << 16  # of a 16-bit PNG
_INDEX_MODES = ("1", "L", "P", "I;16", "I;16B", "I")  # one channel of integers; "P" has a palette too
_MAX_PIXELS = 1 << 27


@dataclass(frozen=True)
class LabelValues:
    """The meaning of the values of a label map.

    Args:
        categories: the value of each category, in the order of the categories.
        ignored: values of pixels that do not count.
    """

    categories: tuple[int, ...]
    ignored: tuple[int, ...]

    def __post_init__(self) -> None:
        values = (*self.categories, *self.ignored)
        if any(not 0 <= value < _NUM_VALUES for value in values):
            raise ValueError(f"values of a label map must be in 0..{_NUM_VALUES - 1}, got {min(values)}..{max(values)}")
        twice = sorted(value for value, count in Counter(values).items() if count > 1)
        if twice:
            raise ValueError(f"value {twice[0]} is used for two categories, or for a category and for ignored pixels")

    @classmethod
    def consecutive(cls, num_classes: int, *, first: int = 0, ignored: Iterable[int] = ()) -> "LabelValues":
        """Categories with the values `first`, `first` + 1, …."""
        return cls(tuple(range(first, first + num_classes)), tuple(ignored))

    @cached_property
    def table(self) -> NDArray[np.int16]:
        """The label of every possible value, (65536,)."""
        table = np.full(_NUM_VALUES, _UNKNOWN, dtype=np.int16)
        table[list(self.categories)] = np.arange(len(self.categories))
        table[list(self.ignored)] = IGNORE
        return table

    def to_categories(self, values: NDArray[np.unsignedinteger], name: str) -> LabelMap:
        """Convert stored values (H, W) to labels; `name` is the file in error messages."""
        categories: LabelMap = self.table[values]
        unknown = categories == _UNKNOWN
        if unknown.any():
            value, pixels = int(values[unknown][0]), int(unknown.sum())
            raise ValueError(
                f"{name}: {pixels:,} pixels have values like {value}; expected {self.expected()}; {_remedy(name)}"
            )
        return categories

    def expected(self) -> str:
        """The valid values as text, for error messages."""
        ignored = f" or {_spans(self.ignored)} (ignored)" if self.ignored else ""
        return f"{_spans(self.categories)}{ignored}"


def read_values(store: ImageStore, path: str) -> NDArray[np.unsignedinteger]:
    """Read the values of a label map, (H, W) uint8 or uint16, without any conversion of colours."""
    name = store.name(path)
    if store.size(path) is None:
        raise FileNotFoundError(f"{name}: no such label map")
    content = io.BytesIO(store.content(path))
    try:
        with opened_image(content) as image:
            mode, pixels = image.mode, image.width * image.height
            values = _one_channel(image) if pixels <= _MAX_PIXELS else None
    except OSError as error:
        raise OSError(f"{name}: {error}") from None
    if pixels > _MAX_PIXELS:
        raise OSError(f"{name}: expected a label map of at most {_MAX_PIXELS:,} pixels, got {pixels:,}")
    if values is None:
        raise ValueError(
            f"{name}: expected one channel with the category of each pixel, got {mode} colours; write the number "
            "of the category instead of its colour, as an index PNG"
        )
    if (
        values.dtype not in (np.uint8, np.uint16)
        and values.size
        and not 0 <= values.min() <= values.max() < _NUM_VALUES
    ):
        raise ValueError(f"{name}: values must be in 0..{_NUM_VALUES - 1}, got {values.min()}..{values.max()}")
    return values.astype(np.uint8 if values.dtype in (np.uint8, np.bool_) else np.uint16, copy=False)


def _one_channel(image: Image.Image) -> NDArray[Any] | None:
    """The values of an image; None if it has colours. Many tools store an index three times, as red, green and blue."""
    values = np.asarray(image)
    if image.mode in _INDEX_MODES:
        return values
    if image.mode in ("RGB", "RGBA") and bool((values[..., :3] == values[..., :1]).all()):
        return values[..., 0]
    return values[..., 0] if image.mode == "LA" else None


def _remedy(name: str) -> str:
    if name.lower().endswith((".jpg", ".jpeg")):
        return "JPEG changes values, so that label maps must be PNG"
    return "a .csv file with the columns id and name names any values"


def check_sizes(image_name: str, image: tuple[int, int], label_name: str, labels: tuple[int, ...]) -> None:
    """Raise ValueError if an image and its label map differ in (height, width)."""
    if image != labels:
        raise ValueError(
            f"{label_name}: {labels[1]} x {labels[0]} pixels, but its image {image_name} has {image[1]} x {image[0]}"
        )


def _spans(values: Sequence[int]) -> str:
    """Numbers as text, with consecutive ones joined: "0..29, 31"."""
    if not values:
        return "no value"
    ordered = np.sort(np.asarray(values))
    parts = np.split(ordered, np.flatnonzero(np.diff(ordered) != 1) + 1)
    return ", ".join(str(part[0]) if len(part) == 1 else f"{part[0]}..{part[-1]}" for part in parts)
