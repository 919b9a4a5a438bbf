"""Ids of images and categories in annotation files: whole numbers or, as some tools write, texts.

Ids are kept as the file has them, in an array of numbers or of texts, so that whatever is written about a record
carries the id that other tools know it by. All ids of a list are of one kind. Records that name one may write it in the
other kind: `1.0` and `"1"` mean the id 1, and `1` the id `"1"`.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

LARGEST_ID = 2**53  # larger integers are not exact in all JSON tools
LONGEST_ID = 200  # characters: an array of texts takes as much for each as for the longest
LARGEST_TABLE = 1 << 24  # entries of four bytes

EXPECTED = "a whole number from 0 or a text"
_KINDS = {int: "whole number", str: "text"}

Ids = NDArray[Any]
"""(N,), of int64 or of texts."""

JsonId = Annotated[int, msgspec.Meta(ge=0, le=LARGEST_ID)] | float | Annotated[str, msgspec.Meta(max_length=LONGEST_ID)]
"""What a decoder takes; `plain_id` refuses some of it."""


def plain_id(value: Any) -> int | str | None:
    """A valid id as a whole number or a text; None for other values."""
    if isinstance(value, str):
        return value if 0 < len(value) <= LONGEST_ID and value.isprintable() else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LARGEST_ID:
        return None
    return int(value) if value == int(value) else None  # floats are what tables with gaps make of numbers


def plain_ids(values: Sequence[Any]) -> list[int] | list[str]:
    """All ids of a list; ValueError names the first that is no id, or not of the kind of the first."""
    kind = str if values and isinstance(values[0], str) else int
    plain: list[Any] = [plain_id(value) for value in values]
    for number, (value, found) in enumerate(zip(values, plain, strict=True), start=1):
        if not isinstance(found, kind):
            expected = EXPECTED if found is None else f"a {_KINDS[kind]}, as the first has"
            raise ValueError(f"number {number}: id: expected {expected}, got {value!r:.60}")
    return plain


def id_column(values: Sequence[Any]) -> Ids:
    """The same as an array (N,)."""
    if set(map(type, values)) <= {int}:
        return np.array(values, dtype=np.int64)
    return np.array(plain_ids(values))


class IdTable:
    """Looks up the index of an image or category by its id in the annotation file."""

    def __init__(self, ids: NDArray[Any]) -> None:
        self.ids = np.asarray(ids)
        self.is_text = self.ids.dtype.kind == "U"
        self.order = np.argsort(self.ids, kind="stable").astype(np.int32)
        self.sorted = self.ids[self.order]
        # Ids are mostly small numbers: then they are looked up in a table, and not searched for.
        self.table = np.full(0, -1, np.int32)
        if len(self.ids) and not self.is_text and self.sorted[0] >= 0 and self.sorted[-1] < LARGEST_TABLE:
            self.table = np.full(self.sorted[-1] + 1, -1, np.int32)
            self.table[self.sorted] = self.order

    def find(self, ids: Sequence[Any] | NDArray[Any]) -> NDArray[np.int32]:
        """The index of each id, (N,), and -1 for those that are not in the table."""
        are_numbers = ids.dtype.kind == "i" if isinstance(ids, np.ndarray) else set(map(type, ids)) <= {int}
        if self.is_text or not are_numbers:
            return self._found(ids.tolist() if isinstance(ids, np.ndarray) else ids)
        column = np.asarray(ids, np.int64)
        if len(self.table) and len(column) and column.min() >= 0 and column.max() < len(self.table):
            found: NDArray[np.int32] = self.table[column]
            return found
        if not len(self.sorted):
            return np.full(len(column), -1, np.int32)
        ranks = np.searchsorted(self.sorted[1:], column, side="right")
        return np.where(self.sorted[ranks] == column, self.order[ranks], np.int32(-1))

    def indices(self, ids: Sequence[Any] | NDArray[Any]) -> NDArray[np.int32]:
        """The index of each id, (N,); ValueError if one is not in the table."""
        found = self.find(ids)
        if (found < 0).any():
            raise ValueError("ids of the annotations")
        return found

    def has(self, value: Any) -> bool:
        """Whether this is the id of an image or category, whatever JSON it is."""
        return bool(self._found([value])[0] >= 0)

    def _found(self, values: Iterable[Any]) -> NDArray[np.int32]:
        """The same for ids one of which is written in the other kind: slower, one after the other."""
        plain = map(plain_id, values)
        return np.array([-1 if value is None else self._by_text.get(str(value), -1) for value in plain], np.int32)

    @cached_property
    def _by_text(self) -> dict[str, int]:
        return {str(value): index for index, value in enumerate(self.ids.tolist())}
