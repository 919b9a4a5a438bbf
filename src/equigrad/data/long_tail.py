"""Long-tailed subsets of balanced data."""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from equigrad.data.frequency import Counts, checked_counts, exponential_profile, pareto_profile
from equigrad.data.images.lists import ImageList

Profile = Literal["exponential", "pareto"]
Order = Literal["count", "label", "random"]


def long_tailed(
    images: ImageList,
    imbalance_factor: float,
    *,
    profile: Profile = "exponential",
    max_count: int | None = None,
    order: Order = "count",
    seed: int = 0,
) -> ImageList:
    """A subset whose category counts fall from head to tail; `subset.write(file)` saves it as a list.

    The same settings give the same subset on every machine. Every category that has images keeps at least one; a
    category with fewer images than the profile asks for keeps all of them.

    Args:
        images: the balanced data.
        imbalance_factor: largest count over smallest.
        profile: "exponential" or "pareto"; see `equigrad.data.frequency`.
        max_count: images of the most frequent category; None is the largest count of `images`.
        order: which categories form the head: those with most images ("count"), the first ones ("label", as in
            CIFAR-LT) or random ones ("random").
        seed: with the same seed, another profile keeps more or fewer of the same images.
    """
    available = images.category_counts
    profiles = {"exponential": exponential_profile, "pareto": pareto_profile}
    if profile not in profiles:
        raise ValueError(f"profile must be one of {sorted(profiles)}, got {profile!r}")
    wanted = np.empty_like(available)
    descending = profiles[profile](len(available), max_count or max(int(available.max()), 1), imbalance_factor)
    wanted[_head_first(available, order, seed)] = descending
    return with_counts(images, np.minimum(wanted, available), seed=seed)


def with_counts(images: ImageList, counts: Sequence[int] | Counts, *, seed: int = 0) -> ImageList:
    """A random subset with exactly these counts, (C,), in the order of the list."""
    wanted, available = checked_counts(counts), images.category_counts
    if len(wanted) != len(available):
        raise ValueError(f"counts must have {len(available)} entries, got {len(wanted)}")
    if (wanted > available).any():
        label = int((wanted > available).argmax())
        name = images.class_names[label]
        raise ValueError(f"{images.source}: {name} has {available[label]} images, {wanted[label]} were asked for")
    members = np.split(np.argsort(images.labels, kind="stable"), np.cumsum(available)[:-1])
    # One generator for each category, so that the choice in one does not depend on the counts of the others.
    chosen = [
        np.random.default_rng((seed, label)).permutation(indices)[:count]
        for label, (indices, count) in enumerate(zip(members, wanted, strict=True))
    ]
    return images.subset(np.sort(np.concatenate(chosen)))


def _head_first(available: Counts, order: Order, seed: int) -> Counts:
    """Labels from head to tail."""
    if order == "count":
        return np.argsort(-available, kind="stable")
    if order == "label":
        return np.arange(len(available))
    if order == "random":
        return np.random.default_rng(seed).permutation(len(available))
    raise ValueError(f'order must be "count", "label" or "random", got {order!r}')
