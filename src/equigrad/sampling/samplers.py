"""Repeat-factor and class-balanced samplers: seeded, rank aware, resumable after any step."""

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, get_args

import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils.data import Sampler

from equigrad.sampling.arguments import checked_choice, checked_int, checked_threshold
from equigrad.sampling.presence import CategoryPresence, ImageCategories, image_repeat_factors, suggest_threshold
from equigrad.sampling.preview import EpochPreview, preview_epoch
from equigrad.sampling.scramble import scramble

Rounding = Literal["ceil", "stochastic", "floor"]
BalancedForm = Literal["cycle", "replacement"]


class SeededSampler(Sampler[int]):
    """An order of images per epoch, shared among ranks and resumable at any step; the base of the samplers here.

    Iterating yields this rank's part of the epoch and then moves on to the next epoch, with or without `set_epoch`.
    `iter` begins where `load_state_dict` or `set_epoch` put the sampler: looking at a first batch and dropping the
    iterator loses nothing, on one rank or on all. `len` is the length of the whole epoch on this rank, also after
    resuming in its middle. The sampler splits the indices among ranks itself: do not wrap it in a `DistributedSampler`.
    """

    def __init__(
        self, presence: CategoryPresence, *, seed: int, rank: int | None, num_replicas: int | None, drop_last: bool
    ) -> None:
        super().__init__()
        self.presence = presence
        self.seed = checked_int("seed", seed, minimum=0)
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
        """Indices of the epoch's global order that all ranks together have consumed, padding not counted."""
        return self._position

    def set_epoch(self, epoch: int) -> None:
        """Go to the start of an epoch; the epoch the sampler is in keeps the position it was resumed at."""
        epoch = checked_int("epoch", epoch, minimum=0)
        self._seek(epoch, self._start if epoch == self._epoch else 0)

    def __len__(self) -> int:
        return self._shard_length(self._epoch_length(self._epoch))

    def __iter__(self) -> Iterator[int]:
        epoch, start = self._epoch, self._start
        order = self._epoch_order(epoch)
        num_indices = self._shard_length(len(order) - start)
        # The padding wraps round to the start of the epoch, several times if there are more ranks than images.
        positions = (start + self.rank + self.num_replicas * torch.arange(num_indices)) % len(order)
        for count, index in enumerate(order[positions].tolist(), start=1):
            self._position = min(start + count * self.num_replicas, len(order))
            yield index
        self._seek(epoch + 1, 0)

    def state_dict(self, *, epoch: int | None = None, position: int | None = None) -> dict[str, Any]:
        """Position and identity of the sampler, of plain numbers and strings and the same on all ranks.

        Without arguments it is the position after the last index *yielded*. The workers of a `DataLoader` fetch ahead
        of the training, even to the end of the epoch, so a training loop says how far it has *trained*: its epoch and
        its position, the samples of all ranks since the epoch began (batches * batch size * ranks).
        """
        if (epoch is None) != (position is None):
            raise ValueError(f"epoch and position are given together or not at all, got {epoch} and {position}")
        if epoch is None or position is None:
            epoch, position = self._epoch, self._position
        epoch = checked_int("epoch", epoch, minimum=0)
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
        self._seek(checked_int("epoch", state["epoch"], minimum=0), state["position"])

    def preview(self, *, category_names: Sequence[str] | None = None, num_rarest: int = 10) -> EpochPreview:
        """What an epoch holds on average: its length and how often it shows each category. `print` it for a table."""
        return preview_epoch(self.presence, self._mean_repeats(), category_names, num_rarest, note=self._preview_note())

    def _seek(self, epoch: int, position: int) -> None:
        self._start = self._position = self._checked_position(epoch, position)
        self._epoch = epoch

    def _checked_position(self, epoch: int, position: int) -> int:
        length = self._epoch_length(epoch)
        position = checked_int("position", position, minimum=0)
        # Ranks that count what they trained on count up to num_replicas - 1 samples of padding.
        if position >= length + self.num_replicas:
            raise ValueError(f"position must be at most {length}, the length of epoch {epoch}, got {position}")
        return min(position, length)

    def _shard_length(self, num_indices_left: int) -> int:
        return (
            num_indices_left // self.num_replicas if self.drop_last else math.ceil(num_indices_left / self.num_replicas)
        )

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


class ShuffledSampler(SeededSampler):
    """Every image once in an epoch, in a new random order each time.

    Args:
        num_images: indices are 0 … num_images - 1.
        seed: epoch e is shuffled with `seed + e`; the global random state plays no part.
        rank, num_replicas, drop_last: as in `RepeatFactorSampler`.
    """

    def __init__(
        self,
        num_images: int,
        *,
        seed: int = 0,
        rank: int | None = None,
        num_replicas: int | None = None,
        drop_last: bool = False,
    ) -> None:
        nothing = torch.zeros(0, dtype=torch.int64)
        presence = CategoryPresence(nothing, nothing, checked_int("num_images", num_images, minimum=1), num_classes=0)
        super().__init__(presence, seed=seed, rank=rank, num_replicas=num_replicas, drop_last=drop_last)

    def _epoch_length(self, epoch: int) -> int:
        return self.presence.num_images

    def _epoch_order(self, epoch: int) -> Tensor:
        return torch.randperm(self.presence.num_images, generator=_generator(self.seed + epoch))

    def _mean_repeats(self) -> Tensor:
        return torch.ones(self.presence.num_images, dtype=torch.float64)


class RepeatFactorSampler(SeededSampler):
    r"""Repeat-factor sampling (RFS): images with rare categories come several times in an epoch.

    $f_c$ is the share of images that contain category c, $r_c = \max(1, \sqrt{t / f_c})$ its repeat factor, and an
    image is repeated by the largest factor of its categories. Images without category come once.

    Args:
        image_categories: for each image the ids 0 … C-1 of its categories (any iterable of ints or 1-D int tensor,
            empty for none), or for single-label data one id per image (sequence of ints or 1-D int tensor).
        threshold: t in (0, 1], the frequency below which a category is repeated; 0.001 is for LVIS, for other data
            see `suggest_threshold`.
        rounding: `"ceil"` repeats ⌈r⌉ times, as the published numbers were made; `"stochastic"` chooses ⌊r⌋ or ⌈r⌉
            in each epoch, with mean r, so that epochs differ in length; `"floor"` repeats ⌊r⌋ times.
        shuffle: in image order if false, an image's repeats side by side.
        seed: epoch e is shuffled with `seed + e`; the global random state plays no part.
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
        self.threshold = checked_threshold(threshold)
        self.rounding = checked_choice("rounding", rounding, get_args(Rounding))
        self.shuffle = shuffle
        self.repeat_factors = image_repeat_factors(presence, threshold=threshold)  # (I,)

    def _repeats(self, generator: torch.Generator) -> Tensor:
        whole = self.repeat_factors.floor()
        if self.rounding == "stochastic":
            numbers = torch.rand(whole.shape, dtype=whole.dtype, generator=generator)
            return (whole + (numbers < self.repeat_factors - whole)).long()
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


class ClassBalancedSampler(SeededSampler):
    """Class-balanced sampling (CBS): choose a category, all equally often, then one of its images.

    Images without category are left out, and so are categories without images. An image of several categories may be
    chosen for each of them.

    Args:
        image_categories: the categories of each image, as in `RepeatFactorSampler`.
        form: `"cycle"` visits the categories in an endless shuffled cycle, and the images of each in an endless
            shuffled cycle of their own: none comes again before all others have come. Epochs are sections of it.
            `"replacement"` chooses category and image at random each time.
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
        self.form = checked_choice("form", form, get_args(BalancedForm))
        self.per_class = checked_int("per_class", per_class, minimum=1)
        if form == "replacement" and per_class != 1:
            raise ValueError(f"per_class must be 1 with form='replacement', which has no visits, got {per_class}")
        self.num_samples = presence.num_images
        if num_samples is not None:
            self.num_samples = checked_int("num_samples", num_samples, minimum=1)
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
        numbers = torch.rand(self.num_samples, dtype=torch.float64, generator=generator)
        return self._images_by_class[self._first[slots] + (numbers * self._counts[slots]).long()]

    def _cycle_order(self, start: int) -> Tensor:
        """The images at positions start, start + 1, … of the endless stream."""
        position = torch.arange(start, start + self.num_samples)
        visit = position // self.per_class
        cycle, turn = visit // len(self._classes), visit % len(self._classes)
        cycles = self._class_cycles(int(cycle[0]), int(cycle[-1]))
        slots = cycles[cycle - cycle[0], turn]  # (S,) which of the K categories
        # Every cycle visits a category once, which says how many of its images came before.
        num_before = cycle * self.per_class + position % self.per_class
        return self._image_cycles(slots, num_before // self._counts[slots], num_before % self._counts[slots])

    def _class_cycles(self, first: int, last: int) -> Tensor:
        """The shuffled categories of the cycles first … last, a row each."""
        cycles = scramble(torch.tensor(self.seed), torch.arange(first, last + 1))
        return scramble(cycles[:, None], self._classes).argsort(dim=1, stable=True)

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
        keys = scramble(scramble(torch.tensor(~self.seed), self._classes[block_slots]), block_cycles)
        shuffled = _argsort_within(block, scramble(keys[block], member))
        return self._images_by_class[self._first[slots] + member[shuffled[first[block_of_sample] + turn]]]

    def _mean_repeats(self) -> Tensor:
        # (C,) how often an image is chosen for a category
        times = self.num_samples / len(self._classes) / self.presence.image_counts.double()
        repeats = torch.zeros(self.presence.num_images, dtype=torch.float64)
        return repeats.index_add(0, self.presence.images, times[self.presence.categories])

    def _identity(self) -> dict[str, Any]:
        settings = {"form": self.form, "per_class": self.per_class, "num_samples": self.num_samples}
        return {**super()._identity(), **settings}


def _checked_rank(rank: int | None, num_replicas: int | None) -> tuple[int, int]:
    in_group = dist.is_available() and dist.is_initialized()
    if num_replicas is None:
        num_replicas = dist.get_world_size() if in_group else 1
    if rank is None:
        rank = dist.get_rank() if in_group else 0
    rank, num_replicas = checked_int("rank", rank, minimum=0), checked_int("num_replicas", num_replicas, minimum=1)
    if rank >= num_replicas:
        raise ValueError(f"rank must be below num_replicas = {num_replicas}, got {rank}")
    return rank, num_replicas


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _argsort_within(block: Tensor, keys: Tensor) -> Tensor:
    """Indices that sort the keys inside each block; `block` is ascending."""
    by_key = keys.argsort(stable=True)
    return by_key[block[by_key].argsort(stable=True)]
