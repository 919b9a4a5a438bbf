"""ADE20K-LT: a long-tailed subset of a segmentation set, built from the paper's text (Sec. 5.4).

Category i, counted from the head, keeps the ratio exp(-0.01 i), and the categories are processed from the tail to the
head. The paper does not say what is done for a category, and neither list nor code is public. The possible readings of
the text are functions here; docs/ade20k_lt.md explains why `quota` is the default.

    presence = count_pixels(read_ade20k(folder, "training")).presence
    subset = long_tailed_subset(presence)
    subset.kept                                     # indices of images
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from equigrad.data.frequency import Counts
from equigrad.data.segmentation.category_pixels import CategoryPixels, Progress, count_pixels
from equigrad.data.segmentation.data import SegmentationData
from equigrad.terminal import printable

Presence = NDArray[np.bool_]  # (N, C): which categories are in which images
Reading = Literal["quota", "union", "top_up", "drop", "rarest"]
Order = Literal["index", "pixels", "images"]

RATE = 0.01
PUBLISHED_SIZE, ADE20K_SIZE = 11_578, 20_210


@dataclass(frozen=True, eq=False)
class Subset:
    """The images that are kept, and the counts of the categories before and after."""

    kept: Counts  # indices of images, ascending
    counts_before: Counts  # (C,) images that contain each category
    counts_after: Counts  # (C,)
    ratios: NDArray[np.float64]  # (C,) exp(-rate i)

    @property
    def lost(self) -> Counts:
        """Categories that had images before and have none now."""
        return np.flatnonzero((self.counts_before > 0) & (self.counts_after == 0))


def long_tailed_subset(
    presence: Presence,
    *,
    rate: float = RATE,
    reading: Reading = "quota",
    head_first: Sequence[int] | Counts | None = None,
    seed: int = 0,
) -> Subset:
    """Choose images; the same arguments choose the same images on every machine.

    Args:
        presence: which categories are in which images, (N, C) bool; `count_pixels(data).presence`.
        rate: the ratio of the i-th category from the head is exp(-rate i).
        reading: how to read the paper's text: what is done for each category, from the tail to the head.
            `quota`: if more than ratio x (all its images) are left, remove random ones down to that number.
            `drop`: remove the share 1 - ratio of its images that are left.
            `rarest`: of the images in which it is the rarest category, keep the ratio.
            `union`: every category selects the ratio of its images at random; an image that any selects is kept.
            `top_up`: add random images until the ratio of its images is kept.
        head_first: the C categories from head to tail; None is the order of labels, as in ADE20K.
        seed: seed of the random choice.
    """
    if presence.ndim != 2 or presence.dtype != np.bool_:
        raise ValueError(f"presence must be (N, C) bool, got {presence.shape} {presence.dtype}")
    if not (np.isfinite(rate) and rate >= 0):
        raise ValueError(f"rate must be a number from 0, got {rate}")
    if reading not in _READINGS:
        raise ValueError(f"reading must be one of {', '.join(_READINGS)}, got {reading!r}")
    num_classes = presence.shape[1]
    order = np.arange(num_classes) if head_first is None else np.asarray(head_first)
    if sorted(order.tolist()) != list(range(num_classes)):
        raise ValueError(f"head_first must name the categories 0..{num_classes - 1}, each once")
    ratios = np.empty(num_classes)
    ratios[order] = np.exp(-rate * np.arange(num_classes))
    is_kept = _READINGS[reading](presence, ratios, order[::-1], seed)
    return Subset(np.flatnonzero(is_kept), presence.sum(0), presence[is_kept].sum(0), ratios)


def simulated_presence(
    image_counts: Sequence[int] | Counts, num_images: int, *, richness: float = 0.5, seed: int = 0
) -> Presence:
    """Simulate presence (N, C) so that every category has exactly its true number of images.

    Every image has a richness w (log-normal). Category j gets n_j images, sampled without replacement with weights w
    and independently of other categories. So some images have many categories and some few, but categories are not
    correlated.

    Args:
        image_counts: n_j, (C,).
        num_images: N.
        richness: standard deviation of log w; 0 gives all images the same weight.
        seed: seed of the simulation.
    """
    rng = np.random.default_rng(seed)
    richnesses = rng.normal(0, richness, num_images) if richness else np.zeros(num_images)
    presence = np.zeros((num_images, len(image_counts)), dtype=np.bool_)
    for category, count in enumerate(image_counts):
        # The n largest of log w + Gumbel noise are a sample without replacement (Efraimidis and Spirakis, 2006).
        keys = richnesses + rng.gumbel(size=num_images)
        presence[np.argsort(-keys, kind="stable")[:count], category] = True
    return presence


def head_to_tail(pixels: CategoryPixels, order: Order) -> Counts:
    """The categories from head to tail: in the order of labels, or by pixels or images, most first."""
    if order == "index":
        return np.arange(pixels.pixels.shape[1])
    if order not in get_args(Order):
        raise ValueError(f"order must be one of {', '.join(get_args(Order))}, got {order!r}")
    return np.argsort(-(pixels.pixel_counts if order == "pixels" else pixels.image_counts), kind="stable")


def write_long_tailed(
    data: SegmentationData,
    output: str | os.PathLike[str],
    *,
    rate: float = RATE,
    reading: Reading = "quota",
    order: Order = "index",
    seed: int = 0,
    cache: Path | None = None,
    num_workers: int = 0,
    progress: Progress | None = None,
) -> str:
    """Choose a long-tailed subset of a training set, write the names of its images, and return a report as text.

    Args:
        data: the training set.
        output: the list to write, one name on each line; `SegmentationData.listed` reads it.
        rate, reading, seed: see `long_tailed_subset`.
        order: which categories form the head: the first ("index", as in ADE20K), those with most "pixels" or "images".
        cache, num_workers, progress: see `count_pixels`.
    """
    pixels = count_pixels(data, cache=cache, num_workers=num_workers, progress=progress)
    head_first = head_to_tail(pixels, order)
    subset = long_tailed_subset(pixels.presence, rate=rate, reading=reading, head_first=head_first, seed=seed)
    if not len(subset.kept):
        raise ValueError(f"{data.source}: rate {rate} and reading {reading} leave no image; choose a smaller rate")
    file = data.subset(subset.kept).write_list(output)
    settings = f"reading {reading}, rate {rate:g}, order {order}, seed {seed}"
    return f"{file}: {report(subset, data.class_names, len(data), head_first)}\n{settings}"


def report(subset: Subset, class_names: Sequence[str], num_images: int, head_first: Counts) -> str:
    """A table with the images of a category before and after, for three equal groups and for the extremes."""
    lines = [f"{len(subset.kept):,} of {num_images:,} images kept"]
    lines.append(f"{'images with a category':28}{'before':>10}{'after':>10}{'kept':>8}{'ratio':>8}")
    for name, members in zip(("head", "medium", "tail"), np.array_split(head_first, 3), strict=True):
        if len(members):
            lines.append(_row(f"{name}, mean of {len(members)}", subset, members))
    for category in dict.fromkeys((*head_first[:3], *head_first[-3:])):
        lines.append(_row(printable(class_names[category].split(";")[0]), subset, np.array([category])))
    if len(subset.lost):
        names = ", ".join(printable(class_names[category]) for category in subset.lost)
        lines.append(f"categories that lost all their images: {names}")
    return "\n".join(lines)


def _row(name: str, subset: Subset, members: Counts) -> str:
    before, after = subset.counts_before[members].mean(), subset.counts_after[members].mean()
    share = f"{after / before:8.1%}" if before else f"{'–':>8}"
    return f"{name[:27]:28}{before:10,.0f}{after:10,.0f}{share}{subset.ratios[members].mean():8.1%}"


def _quota(presence: Presence, ratios: NDArray[np.float64], tail_first: Counts, seed: int) -> NDArray[np.bool_]:
    quotas = np.rint(ratios * presence.sum(0)).astype(np.int64)
    return _removed(presence, tail_first, seed, lambda category, left: left - int(quotas[category]))


def _drop(presence: Presence, ratios: NDArray[np.float64], tail_first: Counts, seed: int) -> NDArray[np.bool_]:
    return _removed(presence, tail_first, seed, lambda category, left: left - round(float(ratios[category]) * left))


def _removed(
    presence: Presence, tail_first: Counts, seed: int, surplus: Callable[[int, int], int]
) -> NDArray[np.bool_]:
    """Remove random images of each category, `surplus(category, images left)` of them."""
    is_kept = np.ones(len(presence), dtype=np.bool_)
    for category in tail_first.tolist():
        left = np.flatnonzero(presence[:, category] & is_kept)
        is_kept[_random_subset(left, surplus(category, len(left)), seed, category)] = False
    return is_kept


def _rarest(presence: Presence, ratios: NDArray[np.float64], tail_first: Counts, seed: int) -> NDArray[np.bool_]:
    is_kept, is_decided = np.ones(len(presence), dtype=np.bool_), np.zeros(len(presence), dtype=np.bool_)
    for category in tail_first.tolist():
        images = np.flatnonzero(presence[:, category] & ~is_decided)
        is_decided[images] = True
        num_removed = len(images) - round(float(ratios[category]) * len(images))
        is_kept[_random_subset(images, num_removed, seed, category)] = False
    return is_kept


def _union(presence: Presence, ratios: NDArray[np.float64], tail_first: Counts, seed: int) -> NDArray[np.bool_]:
    return _added(presence, ratios, tail_first, seed, counts_chosen=False)


def _top_up(presence: Presence, ratios: NDArray[np.float64], tail_first: Counts, seed: int) -> NDArray[np.bool_]:
    return _added(presence, ratios, tail_first, seed, counts_chosen=True)


def _added(
    presence: Presence, ratios: NDArray[np.float64], tail_first: Counts, seed: int, *, counts_chosen: bool
) -> NDArray[np.bool_]:
    """Add random images of each category; with `counts_chosen` only as many as are missing."""
    is_kept = np.zeros(len(presence), dtype=np.bool_)
    for category in tail_first.tolist():
        images = np.flatnonzero(presence[:, category])
        wanted = round(float(ratios[category]) * len(images))
        if counts_chosen:
            wanted -= int(is_kept[images].sum())
            images = images[~is_kept[images]]
        is_kept[_random_subset(images, wanted, seed, category)] = True
    return is_kept


def _random_subset(images: Counts, count: int, seed: int, category: int) -> Counts:
    # One generator for each category, so that its choice does not depend on the other categories.
    return np.random.default_rng((seed, category)).permutation(images)[: max(count, 0)]


_READINGS: dict[str, Callable[[Presence, NDArray[np.float64], Counts, int], NDArray[np.bool_]]] = {
    "quota": _quota,
    "union": _union,
    "top_up": _top_up,
    "drop": _drop,
    "rarest": _rarest,
}
