"""The class hierarchy of OpenImages: a dog is an animal, and an image without animals has no dogs.

hierarchy = read_hierarchy("challenge-2019-label500-hierarchy.json", mids)
rows, labels = hierarchy.upwards(labels)      # every label and its ancestors; labels[k] comes from row rows[k]
rows, labels = hierarchy.downwards(labels)    # every label and its descendants
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equigrad.data.detection.data import CategoryLists
from equigrad.data.text_files import read_small

Indices = NDArray[np.int64]

_MAX_BYTES = 1 << 24  # of the file; that of OpenImages has 60 kB


@dataclass(frozen=True, eq=False)
class ClassHierarchy:
    """Which categories are subcategories of which others; a category may have several parents."""

    is_ancestor: NDArray[np.bool_]  # (C, C): [c, a] is True if a is above c; False on the diagonal

    @property
    def num_classes(self) -> int:
        """C, the number of categories."""
        return len(self.is_ancestor)

    def upwards(self, labels: ArrayLike) -> tuple[Indices, Indices]:
        """Expand labels (M,) to themselves and their ancestors: the row each comes from, and the labels, (M',) each."""
        return _expanded(self._up, labels)

    def downwards(self, labels: ArrayLike) -> tuple[Indices, Indices]:
        """Expand labels (M,) to themselves and their descendants, which are absent when they are; as in `upwards`."""
        return _expanded(self._down, labels)

    @cached_property
    def _up(self) -> CategoryLists:
        return _with_relatives(self.is_ancestor)

    @cached_property
    def _down(self) -> CategoryLists:
        return _with_relatives(self.is_ancestor.T)


def _with_relatives(is_relative: NDArray[np.bool_]) -> CategoryLists:
    """For each category a list of the category itself and its relatives."""
    lists = [np.concatenate([[label], np.flatnonzero(row)]) for label, row in enumerate(is_relative)]
    offsets = np.cumsum([0, *map(len, lists)], dtype=np.int64)
    return CategoryLists(offsets, np.concatenate(lists).astype(np.int32))


def _expanded(lists: CategoryLists, labels: ArrayLike) -> tuple[Indices, Indices]:
    taken = lists.take(np.asarray(labels, dtype=np.int64))
    lengths = np.diff(taken.offsets)
    return np.repeat(np.arange(len(lengths)), lengths), taken.values.astype(np.int64)


def read_hierarchy(file: str | os.PathLike[str], mids: Sequence[str]) -> ClassHierarchy:
    """Read a tree of `{"LabelName": mid, "Subcategory": [...]}`.

    The root node is not a category. A category may occur several times in the tree. `Part` is not followed: a wheel is
    not a kind of car.

    Args:
        file: the JSON file.
        mids: identifiers of the C categories, in the order of their labels.
    """
    file = Path(file)
    if not file.is_file():
        raise FileNotFoundError(f"{file}: no such file; expected the class hierarchy (JSON)")
    try:
        tree = json.loads(read_small(file, _MAX_BYTES))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file}: not a valid JSON file ({error})") from None
    label_of = {mid: label for label, mid in enumerate(mids)}
    is_ancestor = np.zeros((len(mids), len(mids)), dtype=np.bool_)
    for mid, above in _nodes(tree, file):
        if mid not in label_of:
            raise ValueError(f"{file}: LabelName {mid!r} is not one of the {len(mids)} categories")
        is_ancestor[label_of[mid], [label_of[name] for name in above]] = True
    below_itself = (is_ancestor & is_ancestor.T).any(1)
    if below_itself.any():
        raise ValueError(f"{file}: LabelName {mids[int(below_itself.argmax())]!r} is a subcategory of itself")
    return ClassHierarchy(is_ancestor)


def _nodes(tree: Any, file: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Every node below the root with the names above it; parents come before their children."""
    # A stack instead of recursion, because a file may be nested to any depth.
    pending: list[tuple[Any, tuple[str, ...]]] = [(child, ()) for child in reversed(_children(tree, file))]
    while pending:
        node, above = pending.pop()
        name = node.get("LabelName") if isinstance(node, Mapping) else None
        if not isinstance(name, str):
            raise ValueError(f"{file}: every Subcategory must be an object with a LabelName, got {str(node)[:80]}")
        yield name, above
        pending += [(child, (*above, name)) for child in reversed(_children(node, file))]


def _children(node: Any, file: Path) -> list[Any]:
    children = node.get("Subcategory", []) if isinstance(node, Mapping) else None
    if not isinstance(children, list):
        raise ValueError(f"{file}: Subcategory must be a list, got {str(node)[:80]}")
    return children
