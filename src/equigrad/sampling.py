"""Samplers for long-tailed data: repeat-factor sampling (RFS) and class-balanced sampling (CBS).

A sampler fixes one *global order* of image indices for every epoch, which depends on its seed and the epoch only.
Rank r of R takes the places r, r + R, r + 2R, … of it. The *position* is how many places all ranks together have
consumed, so a job may stop after any step and go on with another number of ranks.

    sampler = RepeatFactorSampler(image_categories, threshold=suggest_threshold(image_categories))
    print(sampler.preview())                    # what it does to the epoch, before training
    loader = DataLoader(dataset, batch_size=16, sampler=sampler, num_workers=4)
"""

import math
import operator
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any, Literal, get_args

import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils.data import Sampler

Rounding = Literal["ceil", "stochastic", "floor"]
BalancedForm = Literal["cycle", "replacement"]

# The LVIS groups, by number of training images.
GROUPS = {"rare": (1, 10), "common": (11, 100), "frequent": (101, None)}


@dataclass(frozen=True, eq=False)
class CategoryPresence:
    """Which categories are present in which images: P distinct pairs, sorted by image, then category."""

    images: Tensor  # (P,) int64
    categories: Tensor  # (P,) int64
    num_images: int
    num_classes: int

    @classmethod
    def of(cls, image_categories: "ImageCategories", num_classes: int | None = None) -> "CategoryPresence":
        """Read `image_categories` (see `RepeatFactorSampler`); a category listed twice in an image counts once."""
        if isinstance(image_categories, CategoryPresence):
            if num_classes is None:
                return image_categories
            return replace(image_categories, num_classes=_checked_num_classes(image_categories.categories, num_classes))
        categories, sizes = _flatten(image_categories)
        if len(sizes) == 0:
            raise ValueError("image_categories must describe at least one image, got none")
        num_classes = _checked_num_classes(categories, num_classes)
        pairs = torch.unique(torch.repeat_interleave(sizes) * num_classes + categories)
        divisor = max(num_classes, 1)  # no categories at all are no pairs, but no division by zero either
        return cls(pairs // divisor, pairs % divisor, len(sizes), num_classes)

    @property
    def image_counts(self) -> Tensor:
        """Number of images that contain each category, (C,) int64."""
        return torch.bincount(self.categories, minlength=self.num_classes)

    @property
    def is_empty(self) -> Tensor:
        """Which images have no category, (I,) bool."""
        return torch.bincount(self.images, minlength=self.num_images) == 0

    @cached_property
    def checksum(self) -> int:
        """A number that differs when another category is in any image."""
        return int(_scramble(_scramble(torch.tensor(0), self.images), self.categories).sum())


ImageCategories = Sequence[int] | Sequence[Iterable[int]] | Sequence[Tensor] | Tensor | CategoryPresence


def category_repeat_factors(
    image_categories: ImageCategories, *, threshold: float = 0.001, num_classes: int | None = None
) -> Tensor:
    r"""Repeat factor of every category, $r_c = \max(1, \sqrt{t / f_c})$, (C,) float64.

    $f_c$ is the share of all images, those without category included, that contain c. A category without images
    has factor 1: there is nothing to repeat.
    """
    presence = CategoryPresence.of(image_categories, num_classes)
    frequency = presence.image_counts.double() / presence.num_images
    factors = (_checked_threshold(threshold) / frequency).sqrt().clamp(min=1)
    return factors.masked_fill(frequency == 0, 1)


def image_repeat_factors(
    image_categories: ImageCategories, *, threshold: float = 0.001, num_classes: int | None = None
) -> Tensor:
    """Repeat factor of every image, the largest of its categories, (I,) float64; 1 for an image without category."""
    presence = CategoryPresence.of(image_categories, num_classes)
    category_factors = category_repeat_factors(presence, threshold=threshold)
    factors = torch.ones(presence.num_images, dtype=torch.float64)
    return factors.scatter_reduce(0, presence.images, category_factors[presence.categories], "amax")


def suggest_threshold(
    image_categories: ImageCategories, *, quantile: float = 0.5, num_classes: int | None = None
) -> float:
    """Threshold for `RepeatFactorSampler` that fits the data: a quantile (the median) of the category frequencies.

    RFS repeats exactly the categories rarer than its threshold. The usual 0.001 suits LVIS, where most categories
    are in fewer than one image of a thousand; on a set of few categories none is that rare, and 0.001 does nothing. At
    the median the rarer half of the categories is repeated; a larger quantile repeats more of them and more often.
    Categories without images are left out.
    """
    if not 0 <= quantile <= 1:
        raise ValueError(f"quantile must be in [0, 1], got {quantile}")
    presence = CategoryPresence.of(image_categories, num_classes)
    counts = presence.image_counts
    if not counts.any():
        raise ValueError(f"no threshold fits data without categories, got {presence.num_images} images without any")
    return float((counts[counts > 0].double() / presence.num_images).quantile(quantile))


class ResumableSampler(Sampler[int]):
    """An order of images per epoch, shared among ranks and resumable at any step; the base of the samplers here.

    Iterating yields this rank's part of the epoch and then moves on to the next epoch, with or without `set_epoch`.
    `iter` begins where `load_state_dict` or `set_epoch` put the sampler: looking at a first batch and dropping the
    iterator loses nothing, on one rank or on all. `len` is the length of the whole epoch on this rank, also after
    resuming in its middle. The sampler shares out the ranks itself: no `DistributedSampler` goes around it.
    """

    def __init__(
        self, presence: CategoryPresence, *, seed: int, rank: int | None, num_replicas: int | None, drop_last: bool
    ) -> None:
        super().__init__()
        self.presence = presence
        self.seed = _checked_int("seed", seed, minimum=0)
        self.rank, self.num_replicas = _checked_rank(rank, num_replicas)
        self.drop_last = drop_last
        self._epoch = 0
        self._start = 0
        self._position = 0

    @property
    def epoch(self) -> int:
        """The epoch that is running, or that the next iteration runs."""
        return self._epoch

    @property
    def position(self) -> int:
        """Places of the epoch's global order that all ranks together have consumed, padding not counted."""
        return self._position

    def set_epoch(self, epoch: int) -> None:
        """Go to the start of an epoch; the epoch the sampler is in keeps the place it was resumed at."""
        epoch = _checked_int("epoch", epoch, minimum=0)
        self._seek(epoch, self._start if epoch == self._epoch else 0)

    def __len__(self) -> int:
        return self._shard_length(self._epoch_length(self._epoch))

    def __iter__(self) -> Iterator[int]:
        epoch, start = self._epoch, self._start
        order = self._epoch_order(epoch)
        num_indices = self._shard_length(len(order) - start)
        # The padding wraps round to the start of the epoch, several times if there are more ranks than images.
        places = (start + self.rank + self.num_replicas * torch.arange(num_indices)) % len(order)
        for count, index in enumerate(order[places].tolist(), start=1):
            self._position = min(start + count * self.num_replicas, len(order))
            yield index
        self._seek(epoch + 1, 0)

    def state_dict(self, *, epoch: int | None = None, position: int | None = None) -> dict[str, Any]:
        """Place and identity of the sampler, of plain numbers and strings and the same on all ranks.

        Without arguments the place is that of the last index *yielded*. The workers of a `DataLoader` fetch ahead of
        the training, to the end of the epoch even, so a training loop says up to which place it has *trained*: its
        epoch and its position, the samples of all ranks since the epoch began (batches * batch size * ranks).
        """
        if (epoch is None) != (position is None):
            raise ValueError(f"epoch and position are given together or not at all, got {epoch} and {position}")
        if epoch is None or position is None:
            epoch, position = self._epoch, self._position
        epoch = _checked_int("epoch", epoch, minimum=0)
        return {"epoch": epoch, "position": self._checked_position(epoch, position), **self._identity()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where `state` was taken, by any number of ranks; refuses the state of other data, seed or settings."""
        if not isinstance(state, Mapping):
            raise TypeError(f"state must be a mapping from state_dict(), got {type(state).__name__}")
        identity = self._identity()
        missing = [key for key in ("epoch", "position", *identity) if key not in state]
        if missing:
            raise ValueError(f"state lacks {', '.join(missing)}")
        differences = [
            f"{key} is {state[key]!r} in the state and {value!r} here"
            for key, value in identity.items()
            if state[key] != value
        ]
        if differences:
            raise ValueError(f"state belongs to another sampler or data set: {'; '.join(differences)}")
        self._seek(_checked_int("epoch", state["epoch"], minimum=0), state["position"])

    def preview(self, *, category_names: Sequence[str] | None = None, num_rarest: int = 10) -> "EpochPreview":
        """What an epoch holds on average: its length and how often it shows each category. `print` it for a table."""
        return _preview(self.presence, self._mean_repeats(), category_names, num_rarest, note=self._preview_note())

    def _seek(self, epoch: int, position: int) -> None:
        self._start = self._position = self._checked_position(epoch, position)
        self._epoch = epoch

    def _checked_position(self, epoch: int, position: int) -> int:
        length = self._epoch_length(epoch)
        position = _checked_int("position", position, minimum=0)
        # Ranks that count what they trained on count up to num_replicas - 1 samples of padding.
        if position >= length + self.num_replicas:
            raise ValueError(f"position must be at most {length}, the length of epoch {epoch}, got {position}")
        return min(position, length)

    def _shard_length(self, num_places: int) -> int:
        return num_places // self.num_replicas if self.drop_last else math.ceil(num_places / self.num_replicas)

    def _identity(self) -> dict[str, Any]:
        """What the global order depends on, besides the epoch."""
        return {
            "sampler": type(self).__name__,
            "num_images": self.presence.num_images,
            "category_checksum": self.presence.checksum,
            "seed": self.seed,
        }

    def _preview_note(self) -> str:
        return ""

    @abstractmethod
    def _epoch_length(self, epoch: int) -> int:
        """Length of `_epoch_order(epoch)`."""

    @abstractmethod
    def _epoch_order(self, epoch: int) -> Tensor:
        """Image indices of the epoch, for all ranks together, int64."""

    @abstractmethod
    def _mean_repeats(self) -> Tensor:
        """How often an epoch holds each image, on average over epochs, (I,) float64."""


class RepeatFactorSampler(ResumableSampler):
    r"""Repeat-factor sampling (RFS): images with rare categories come several times in an epoch.

    $f_c$ is the share of images that contain category c, $r_c = \max(1, \sqrt{t / f_c})$ its repeat factor, and an
    image is repeated by the largest factor of its categories. Images without category come once.

    Args:
        image_categories: for each image the ids 0 … C-1 of its categories (any iterable of ints or 1-D int tensor,
            empty for none), or for single-label data one id per image (sequence of ints or 1-D int tensor).
        threshold: t in (0, 1], the frequency below which a category is repeated; 0.001 is for LVIS, for other data
            see `suggest_threshold`.
        rounding: `"ceil"` repeats ⌈r⌉ times, as the published numbers were made; `"stochastic"` draws ⌊r⌋ or ⌈r⌉ anew
            each epoch with mean r, so that epochs differ in length; `"floor"` repeats ⌊r⌋ times.
        shuffle: in image order if false, an image's repeats side by side.
        seed: epoch e draws with `seed + e`, whatever the global random state.
        num_classes: C; the largest id + 1 if not given.
        rank, num_replicas: default to those of `torch.distributed` if it is initialised, else to 0 of 1.
        drop_last: all ranks get equally many indices: by repeating the first ones of the epoch at its end, or if true
            by leaving out the last ones.
    """

    def __init__(
        self,
        image_categories: ImageCategories,
        *,
        threshold: float = 0.001,
        rounding: Rounding = "ceil",
        shuffle: bool = True,
        seed: int = 0,
        num_classes: int | None = None,
        rank: int | None = None,
        num_replicas: int | None = None,
        drop_last: bool = False,
    ) -> None:
        presence = CategoryPresence.of(image_categories, num_classes)
        super().__init__(presence, seed=seed, rank=rank, num_replicas=num_replicas, drop_last=drop_last)
        self.threshold = _checked_threshold(threshold)
        self.rounding = _checked_choice("rounding", rounding, get_args(Rounding))
        self.shuffle = shuffle
        self.repeat_factors = image_repeat_factors(presence, threshold=threshold)  # (I,)

    def _repeats(self, generator: torch.Generator) -> Tensor:
        whole = self.repeat_factors.floor()
        if self.rounding == "stochastic":
            draws = torch.rand(whole.shape, dtype=whole.dtype, generator=generator)
            return (whole + (draws < self.repeat_factors - whole)).long()
        return (self.repeat_factors.ceil() if self.rounding == "ceil" else whole).long()

    def _epoch_length(self, epoch: int) -> int:
        return int(self._repeats(_generator(self.seed + epoch)).sum())

    def _epoch_order(self, epoch: int) -> Tensor:
        generator = _generator(self.seed + epoch)
        order = torch.repeat_interleave(self._repeats(generator))
        return order[torch.randperm(len(order), generator=generator)] if self.shuffle else order

    def _mean_repeats(self) -> Tensor:
        if self.rounding == "stochastic":
            return self.repeat_factors
        return self._repeats(_generator(self.seed)).double()

    def _identity(self) -> dict[str, Any]:
        settings = {"threshold": self.threshold, "rounding": self.rounding, "shuffle": self.shuffle}
        return {**super()._identity(), **settings}

    def _preview_note(self) -> str:
        if self._mean_repeats().max() > 1 or self.presence.is_empty.all():
            return ""
        suggestion = suggest_threshold(self.presence)
        return f"threshold {self.threshold:g} repeats no image here; suggest_threshold gives {suggestion:.3g}"


class ClassBalancedSampler(ResumableSampler):
    """Class-balanced sampling (CBS): choose a category, all equally often, then one of its images.

    Images without category are never drawn, categories without images neither. An image of several categories is
    drawn on behalf of each of them.

    Args:
        image_categories: the categories of each image, as in `RepeatFactorSampler`.
        form: `"cycle"` visits the categories in an endless shuffled cycle, and the images of each in an endless
            shuffled cycle of their own: none comes again before all others have come. Epochs are sections of it.
            `"replacement"` draws category and image at random each time.
        per_class: images taken at each visit of the cycle: 1 in EQLv2's detectors, 4 in decoupled classifiers.
        num_samples: length of an epoch over all ranks; the number of images if not given.
        seed: decides the order, whatever the global random state.
        num_classes, rank, num_replicas, drop_last: as in `RepeatFactorSampler`.
    """

    def __init__(
        self,
        image_categories: ImageCategories,
        *,
        form: BalancedForm = "cycle",
        per_class: int = 1,
        num_samples: int | None = None,
        seed: int = 0,
        num_classes: int | None = None,
        rank: int | None = None,
        num_replicas: int | None = None,
        drop_last: bool = False,
    ) -> None:
        presence = CategoryPresence.of(image_categories, num_classes)
        super().__init__(presence, seed=seed, rank=rank, num_replicas=num_replicas, drop_last=drop_last)
        self.form = _checked_choice("form", form, get_args(BalancedForm))
        self.per_class = _checked_int("per_class", per_class, minimum=1)
        if form == "replacement" and per_class != 1:
            raise ValueError(f"per_class must be 1 with form='replacement', which has no visits, got {per_class}")
        self.num_samples = presence.num_images
        if num_samples is not None:
            self.num_samples = _checked_int("num_samples", num_samples, minimum=1)
        counts = presence.image_counts
        self._classes = counts.nonzero().flatten()  # (K,) the categories that have images
        if len(self._classes) == 0:
            raise ValueError(f"at least one image must have a category, got {presence.num_images} images without any")
        self._counts = counts[self._classes]  # (K,)
        self._first = self._counts.cumsum(0) - self._counts  # (K,) where their images begin in the next
        self._images_by_class = presence.images[presence.categories.argsort(stable=True)]  # (P,)

    def _epoch_length(self, epoch: int) -> int:
        return self.num_samples

    def _epoch_order(self, epoch: int) -> Tensor:
        if self.form == "cycle":
            return self._cycle_order(epoch * self.num_samples)
        generator = _generator(self.seed + epoch)
        slots = torch.randint(len(self._classes), (self.num_samples,), generator=generator)
        draws = torch.rand(self.num_samples, dtype=torch.float64, generator=generator)
        return self._images_by_class[self._first[slots] + (draws * self._counts[slots]).long()]

    def _cycle_order(self, start: int) -> Tensor:
        """The images at places start, start + 1, … of the endless stream."""
        place = torch.arange(start, start + self.num_samples)
        visit = place // self.per_class
        cycle, turn = visit // len(self._classes), visit % len(self._classes)
        slots = self._class_cycles(int(cycle[0]), int(cycle[-1]))[
            cycle - cycle[0], turn
        ]  # (S,) which of the K categories
        # Every cycle visits a category once, so its images drawn before are a matter of counting.
        draw = cycle * self.per_class + place % self.per_class
        return self._image_cycles(slots, draw // self._counts[slots], draw % self._counts[slots])

    def _class_cycles(self, first: int, last: int) -> Tensor:
        """The shuffled categories of the cycles first … last, a row each."""
        cycles = _scramble(torch.tensor(self.seed), torch.arange(first, last + 1))
        return _scramble(cycles[:, None], self._classes).argsort(dim=1, stable=True)

    def _image_cycles(self, slots: Tensor, cycle: Tensor, turn: Tensor) -> Tensor:
        """For each (category, cycle over its images, turn within the cycle) the image, (S,)."""
        num_cycles = int(cycle.max()) + 1
        blocks, block_of_sample = torch.unique(slots * num_cycles + cycle, return_inverse=True)
        block_slots, block_cycles = blocks // num_cycles, blocks % num_cycles
        sizes = self._counts[block_slots]
        first = sizes.cumsum(0) - sizes
        block = torch.repeat_interleave(sizes)  # one entry for each image of each block
        member = torch.arange(len(block)) - first[block]
        # ~seed: keys that have nothing to do with those of the class cycles.
        keys = _scramble(_scramble(torch.tensor(~self.seed), self._classes[block_slots]), block_cycles)
        shuffled = _argsort_within(block, _scramble(keys[block], member))
        return self._images_by_class[self._first[slots] + member[shuffled[first[block_of_sample] + turn]]]

    def _mean_repeats(self) -> Tensor:
        # (C,) draws of each image on behalf of one category
        draws = self.num_samples / len(self._classes) / self.presence.image_counts.double()
        repeats = torch.zeros(self.presence.num_images, dtype=torch.float64)
        return repeats.index_add(0, self.presence.images, draws[self.presence.categories])

    def _identity(self) -> dict[str, Any]:
        settings = {"form": self.form, "per_class": self.per_class, "num_samples": self.num_samples}
        return {**super()._identity(), **settings}


@dataclass(frozen=True)
class GroupPreview:
    """Categories with similar numbers of images, and how often an epoch shows each of their images on average."""

    name: str
    image_range: str
    num_categories: int
    mean_repeats: float | None  # None for an empty group


@dataclass(frozen=True)
class CategoryPreview:
    """One category: how many images have it, and how many of an epoch's samples do."""

    category: int
    name: str
    num_images: int
    images_per_epoch: float


@dataclass(frozen=True)
class EpochPreview:
    """What a sampler makes of an epoch, over all ranks and on average over epochs; `str` of it is a table."""

    num_images: int
    epoch_length: float
    num_images_without_category: int
    images_without_category_per_epoch: float
    num_categories_without_images: int
    groups: tuple[GroupPreview, ...]
    rarest: tuple[CategoryPreview, ...]
    note: str = ""

    @property
    def length_factor(self) -> float:
        """Length of the epoch over that of a plain one, which shows every image once."""
        return self.epoch_length / self.num_images

    def __str__(self) -> str:
        parts = [self._summary(), _table(self._group_rows())]
        if self.rarest:
            parts.append(_table(self._rarest_rows()))
        return "\n\n".join(parts)

    def _summary(self) -> str:
        factor = round(self.length_factor, 2)
        change = f"this makes the epoch {factor:.2f}x {'longer' if factor > 1 else 'as long'}"
        lines = [f"{self.num_images:,} images, {self.epoch_length:,.0f} samples per epoch: {change}"]
        if self.num_images_without_category:
            drawn = f"{self.images_without_category_per_epoch:,.0f} samples per epoch"
            lines.append(f"{self.num_images_without_category:,} images without category: {drawn}")
        if self.num_categories_without_images:
            lines.append(f"{self.num_categories_without_images:,} categories without images")
        return "\n".join([*lines, self.note] if self.note else lines)

    def _group_rows(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = [("group", "images", "categories", "mean repeats")]
        for group in self.groups:
            repeats = "empty" if group.mean_repeats is None else f"{group.mean_repeats:.2f}x"
            rows.append((group.name, group.image_range, f"{group.num_categories:,}", repeats))
        return rows

    def _rarest_rows(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = [("rarest", "images", "per epoch", "repeats")]
        for category in self.rarest:
            repeats = f"{category.images_per_epoch / category.num_images:.2f}x"
            rows.append((category.name, f"{category.num_images:,}", f"{category.images_per_epoch:,.1f}", repeats))
        return rows


def _preview(
    presence: CategoryPresence, repeats: Tensor, names: Sequence[str] | None, num_rarest: int, note: str
) -> EpochPreview:
    if names is not None and len(names) != presence.num_classes:
        raise ValueError(f"category_names must have {presence.num_classes} entries, got {len(names)}")
    counts = presence.image_counts
    per_epoch = torch.bincount(presence.categories, repeats[presence.images], minlength=presence.num_classes)
    by_rarity = [c for c in counts.argsort(stable=True).tolist() if counts[c] > 0]
    rarest = by_rarity[: _checked_int("num_rarest", num_rarest, minimum=0)]
    return EpochPreview(
        num_images=presence.num_images,
        epoch_length=float(repeats.sum()),
        num_images_without_category=int(presence.is_empty.sum()),
        images_without_category_per_epoch=float(repeats[presence.is_empty].sum()),
        num_categories_without_images=int((counts == 0).sum()),
        groups=tuple(_group_preview(name, counts, per_epoch) for name in GROUPS),
        rarest=tuple(
            CategoryPreview(c, str(c) if names is None else names[c], int(counts[c]), float(per_epoch[c]))
            for c in rarest
        ),
        note=note,
    )


def _group_preview(name: str, counts: Tensor, per_epoch: Tensor) -> GroupPreview:
    low, high = GROUPS[name]
    members = (counts >= low) & (counts <= (math.inf if high is None else high))
    image_range = f">{low - 1}" if high is None else f"{low}-{high}"
    mean = float((per_epoch[members] / counts[members]).mean()) if members.any() else None
    return GroupPreview(name, image_range, int(members.sum()), mean)


def _table(rows: list[tuple[str, ...]]) -> str:
    """Columns of equal width, the first one to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *rest in rows:
        cells = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _flatten(image_categories: ImageCategories) -> tuple[Tensor, Tensor]:
    """All category ids in a row, (sum of sizes,), and how many each image has, (I,)."""
    if isinstance(image_categories, Tensor):
        if image_categories.dim() != 1:
            raise ValueError(f"an image_categories tensor must be (images,), got {tuple(image_categories.shape)}")
        categories = _checked_ids(image_categories)
        return categories, torch.ones_like(categories)
    if isinstance(image_categories, str | bytes | Mapping | Set) or not isinstance(image_categories, Iterable):
        raise TypeError(f"image_categories must be a sequence with one entry per image, got {type(image_categories)}")
    entries: list[Any] = [entry.tolist() if isinstance(entry, Tensor) else entry for entry in image_categories]
    if entries and not any(isinstance(entry, Iterable) for entry in entries):
        entries = [(entry,) for entry in entries]
    lists = [_entry_ids(image, entry) for image, entry in enumerate(entries)]
    sizes = torch.tensor([len(ids) for ids in lists], dtype=torch.int64)
    flat = list(chain.from_iterable(lists))
    try:
        return _checked_ids(torch.tensor(flat) if flat else torch.zeros(0, dtype=torch.int64)), sizes
    except (ValueError, RuntimeError) as error:  # what torch raises for strings, nested lists and the like
        raise TypeError(f"image_categories must hold integer category ids: {error}") from error


def _entry_ids(image: int, entry: Any) -> tuple[Any, ...]:
    if not isinstance(entry, Iterable) or isinstance(entry, str | bytes):
        raise TypeError(f"image_categories[{image}] must be an iterable of ints as in the other images, got {entry!r}")
    return tuple(entry)


def _checked_ids(ids: Tensor) -> Tensor:
    if ids.dtype == torch.bool or ids.is_floating_point() or ids.is_complex():
        raise TypeError(f"category ids must be integers, got {ids.dtype}")
    if ids.dim() != 1:
        raise TypeError(f"category ids must be integers, got lists of {ids.shape[1]} of them")
    return ids.detach().to("cpu", torch.int64)


def _checked_num_classes(categories: Tensor, num_classes: int | None) -> int:
    smallest, largest = (int(categories.min()), int(categories.max())) if len(categories) else (0, -1)
    if smallest < 0:
        raise ValueError(f"category ids must be 0 or more, got {smallest}; an image without category has no ids")
    if num_classes is None:
        return largest + 1
    num_classes = _checked_int("num_classes", num_classes, minimum=1)
    if largest >= num_classes:
        raise ValueError(f"category ids must be below num_classes = {num_classes}, got {largest}")
    return num_classes


def _checked_rank(rank: int | None, num_replicas: int | None) -> tuple[int, int]:
    in_group = dist.is_available() and dist.is_initialized()
    if num_replicas is None:
        num_replicas = dist.get_world_size() if in_group else 1
    if rank is None:
        rank = dist.get_rank() if in_group else 0
    rank, num_replicas = _checked_int("rank", rank, minimum=0), _checked_int("num_replicas", num_replicas, minimum=1)
    if rank >= num_replicas:
        raise ValueError(f"rank must be below num_replicas = {num_replicas}, got {rank}")
    return rank, num_replicas


def _checked_threshold(threshold: float) -> float:
    if isinstance(threshold, bool) or not isinstance(threshold, int | float):
        raise TypeError(f"threshold must be a number, got {type(threshold).__name__}")
    if not 0 < threshold <= 1:  # refuses nan too
        raise ValueError(f"threshold must be in (0, 1], a share of the images, got {threshold}")
    return float(threshold)


def _checked_int(name: str, value: int, *, minimum: int) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    if not minimum <= value < 2**63:
        raise ValueError(f"{name} must be at least {minimum} and fit 64 bits, got {value}")
    return operator.index(value)


def _checked_choice(name: str, value: str, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")
    return value


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _argsort_within(block: Tensor, keys: Tensor) -> Tensor:
    """Indices that sort the keys inside each block; `block` is ascending."""
    by_key = keys.argsort(stable=True)
    return by_key[block[by_key].argsort(stable=True)]


def _scramble(bits: Tensor, counter: Tensor) -> Tensor:
    """Random-looking int64 for each (bits, counter): the output function of SplitMix64 (Steele et al. 2014).

    Shuffling by such keys gives any cycle of an endless stream without replaying the cycles before it.
    """
    bits = bits + (counter + 1) * (0x9E3779B97F4A7C15 - 2**64)  # int64 arithmetic wraps round, as intended
    bits = (bits ^ _shift_right(bits, 30)) * (0xBF58476D1CE4E5B9 - 2**64)
    bits = (bits ^ _shift_right(bits, 27)) * (0x94D049BB133111EB - 2**64)
    return bits ^ _shift_right(bits, 31)


def _shift_right(bits: Tensor, count: int) -> Tensor:
    # The shift of a signed tensor copies the sign bit; this one fills with zeros.
    return torch.bitwise_and(bits >> count, (1 << (64 - count)) - 1)
