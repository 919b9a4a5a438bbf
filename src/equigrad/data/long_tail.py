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
    """A subset whose counts fall from head to tail; `category_counts` and `write` of it give counts and list.

    The same settings give the same subset on every machine. Categories that exist keep at least one image, none gets
    more than there are.

    Args:
        images: what to choose from.
        imbalance_factor: largest count over smallest.
        profile: "exponential" or "pareto"; see `equigrad.data.frequency`.
        max_count: of the most frequent category; None is the largest there is.
        order: which categories are the head: those with most images ("count"), the first ("label", as in CIFAR-LT) or
            drawn ones ("random").
        seed: of the choice; another profile with the same seed takes more or fewer of the same images.
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
        raise ValueError(f"{images.source}: {wanted[label]} images of {name} asked for, there are {available[label]}")
    members = np.split(np.argsort(images.labels, kind="stable"), np.cumsum(available)[:-1])
    # A generator for each category: the choice in one does not depend on how many another one has.
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
