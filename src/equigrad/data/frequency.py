"""How often categories occur: counts of real benchmarks, generated long-tailed profiles, and frequency groups."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Counts = NDArray[np.int64]
Groups = dict[str, Counts]  # name of the group -> indices of its categories, ascending


@dataclass(frozen=True)
class Frequencies:
    """Training-set frequencies of a benchmark, in its own category order."""

    names: tuple[str, ...]
    image_counts: Counts  # (C,)
    instance_counts: Counts | None = None  # (C,) where the benchmark counts instances
    pixel_ratios: NDArray[np.float64] | None = None  # (C,) where it labels pixels

    def __len__(self) -> int:
        return len(self.image_counts)


_FILES = {
    "lvis_v1": "lvis_v1_train.csv",
    "places_lt": "places_lt_train.csv",
    "ade20k": "ade20k_150.csv",
    "imagenet_lt_like": "imagenet_lt_like.csv",
}


def load_frequencies(name: str) -> Frequencies:
    """Load the category frequencies of a benchmark; the tables ship with the package.

    `lvis_v1` (1,203 categories), `places_lt` (365) and `ade20k` (150) are exact. `imagenet_lt_like` (1,000) is a fit
    with ImageNet-LT's total, extremes and shot groups but not its per-class values: simulate with it, do not quote it.
    """
    if name not in _FILES:
        raise ValueError(f"name must be one of {sorted(_FILES)}, got {name!r}")
    text = files("equigrad.data").joinpath("frequencies", _FILES[name]).read_text(encoding="utf-8")
    rows = list(csv.DictReader(text.splitlines()))
    if name == "ade20k":
        ratios = np.array([float(row["Ratio"]) for row in rows])
        return Frequencies(tuple(row["Name"] for row in rows), _column(rows, "Train"), pixel_ratios=ratios)
    instance_counts = _column(rows, "instance_count") if "instance_count" in rows[0] else None
    names = tuple(row.get("name", f"rank_{index}") for index, row in enumerate(rows))
    return Frequencies(names, _column(rows, "image_count"), instance_counts)


def exponential_profile(num_classes: int, max_count: int, imbalance_factor: float) -> Counts:
    """Counts that fall from `max_count` to `max_count / imbalance_factor` by the same factor at every rank."""
    ranks = _unit_ranks(num_classes, max_count, imbalance_factor)
    return _to_counts(max_count * imbalance_factor**-ranks)


def pareto_profile(num_classes: int, max_count: int, imbalance_factor: float, *, scale: float = 0.2) -> Counts:
    """Counts along a Pareto curve `(1 + rank / scale) ** -power`; ranks span [0, 1].

    The power follows from the imbalance factor. A smaller `scale` has a shorter head and a longer tail; a very large
    one is the exponential profile.
    """
    if not scale > 0:
        raise ValueError(f"scale must be above 0, got {scale}")
    ranks = _unit_ranks(num_classes, max_count, imbalance_factor)
    power = np.log(imbalance_factor) / np.log1p(1 / scale)
    return _to_counts(max_count * (1 + ranks / scale) ** -power)


def pick_categories(counts: ArrayLike, num_classes: int) -> Counts:
    """A profile of the same shape with fewer categories: the counts at evenly spaced ranks, first and last included."""
    descending = np.sort(checked_counts(counts))[::-1]
    if not 1 <= num_classes <= len(descending):
        raise ValueError(f"num_classes must be in 1..{len(descending)}, got {num_classes}")
    return descending[np.rint(np.linspace(0, len(descending) - 1, num_classes)).astype(np.int64)]


def scale_counts(counts: ArrayLike, total: int) -> Counts:
    """Counts of about the same proportions that sum to `total`; a category with any count keeps at least one."""
    counts = checked_counts(counts)
    present = (counts > 0).astype(np.int64)
    spare = total - int(present.sum())
    if spare < 0 or not present.any():
        raise ValueError(f"total must be at least {present.sum()}, one for each category that occurs, got {total}")
    shares = counts * (spare / counts.sum())
    scaled: Counts = np.floor(shares).astype(np.int64)
    # Largest remainders first; the sort is stable, so ties are resolved in the same way on every machine.
    largest = np.argsort(scaled - shares, kind="stable")[: spare - int(scaled.sum())]
    scaled[largest] += 1
    scaled += present
    return scaled


def shot_split(counts: ArrayLike, convention: Literal["code", "paper"] = "code") -> Groups:
    """Many-, medium- and few-shot categories by number of training samples.

    `code` is the rule of the published evaluation code: many > 100, medium 20..100, few < 20. `paper` is the rule of
    its text: many >= 100, few <= 20, medium between; the text's ranges overlap, so 100 counts as many and 20 as few.
    """
    counts = checked_counts(counts)
    if convention == "code":
        many, few = counts > 100, counts < 20
    elif convention == "paper":
        many, few = counts >= 100, counts <= 20
    else:
        raise ValueError(f'convention must be "code" or "paper", got {convention!r}')
    return {"many": np.flatnonzero(many), "medium": np.flatnonzero(~many & ~few), "few": np.flatnonzero(few)}


def lvis_split(image_counts: ArrayLike) -> Groups:
    """LVIS groups by number of training images: rare 1-10 (and unseen), common 11-100, frequent above 100."""
    counts = checked_counts(image_counts)
    rare, frequent = counts <= 10, counts > 100
    return {
        "rare": np.flatnonzero(rare),
        "common": np.flatnonzero(~rare & ~frequent),
        "frequent": np.flatnonzero(frequent),
    }


def checked_counts(counts: ArrayLike) -> Counts:
    """`counts` as a (C,) int64 array; raises unless they are whole numbers from 0."""
    array = np.asarray(counts)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"counts must be (C,) with C >= 1, got shape {array.shape}")
    if not (np.issubdtype(array.dtype, np.number) and np.isfinite(array).all()):
        raise ValueError(f"counts must be finite numbers, got {array.dtype}")
    if (array < 0).any() or (array != np.floor(array)).any():
        raise ValueError("counts must be whole numbers from 0")
    return array.astype(np.int64)


def _column(rows: Sequence[dict[str, str]], name: str) -> Counts:
    return np.array([int(row[name]) for row in rows], dtype=np.int64)


def _unit_ranks(num_classes: int, max_count: int, imbalance_factor: float) -> NDArray[np.float64]:
    if num_classes < 1 or max_count < 1 or not imbalance_factor >= 1:
        raise ValueError(
            "num_classes, max_count and imbalance_factor must be at least 1, "
            f"got {num_classes}, {max_count} and {imbalance_factor}"
        )
    return np.linspace(0, 1, num_classes)


def _to_counts(values: NDArray[np.float64]) -> Counts:
    # Every category occurs at least once, even in a very steep profile.
    return np.maximum(np.rint(values), 1).astype(np.int64)
