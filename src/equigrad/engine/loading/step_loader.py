"""From a data set and a sampler to batches that are the same however often the run was stopped.

Every sample is read for a *slot*: its epoch and its position in the epoch's global order. The random numbers of its
augmentation depend on the seed and the slot only, not on the worker, the rank or the history of the process. (They are
those of `random`, `numpy.random` and `torch`; a data set with a generator of its own must seed it itself.)
"""

import os
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from functools import partial
from itertools import islice
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info

from equigrad.engine.loading.workers import leave_signals_to_the_training
from equigrad.engine.random_state import mixed_seed, preserved, seed_cpu
from equigrad.errors import EngineError, reason

OnError = Literal["stop", "skip"]
Collate = Callable[[list[Any]], Any]

# What libraries raise for a missing or damaged file. Anything else is a bug and keeps its traceback.
UNREADABLE = (OSError, EOFError, SyntaxError, zlib.error, struct.error)
MAX_REPLACEMENTS = 20


class ResumableSampler(Protocol):
    """What the engine asks of a sampler; those of `equigrad.sampling` offer it."""

    rank: int
    num_replicas: int
    drop_last: bool

    def __iter__(self) -> Iterator[int]: ...
    def __len__(self) -> int: ...
    def set_epoch(self, epoch: int) -> None:
        """Go to the start of an epoch, or to where this epoch was resumed."""

    def state_dict(self, *, epoch: int, position: int) -> dict[str, Any]:
        """What `load_state_dict` needs to go on from a position of an epoch."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume; ValueError if the state is that of other data or settings."""


@runtime_checkable
class EpochAware(Protocol):
    """A data set or a model that changes over the epochs: stops mixing images, or has one more loss towards the end."""

    def set_epoch(self, epoch: int) -> None:
        """Called before an epoch begins or continues: in a data set by every worker, in a model by the training."""


class SampleSlot(NamedTuple):
    """Which sample to read, and where in the training it stands."""

    epoch: int
    position: int  # in the epoch's global order, over all ranks
    sample: int  # index in the data set


class Reading(NamedTuple):
    """One item of the data set, or why there is none."""

    slot: SampleSlot
    sample: int  # index in the data set, another than that of the slot if that one could not be read
    item: Any
    skipped: list[str]
    failure: str | None


class Batch(NamedTuple):
    """What a model call needs, and where it comes from."""

    data: Any  # (images, targets)
    samples: list[int]  # indices in the data set
    num_slots: int  # how far all ranks together advance in the epoch with it
    skipped: list[str]  # names of samples that could not be read and were replaced
    failure: str | None  # why the batch cannot be used


class BatchSlots:
    """The batches of one rank in one epoch, as slots. `num_micro_batches` batches together make one optimiser step."""

    def __init__(self, sampler: ResumableSampler, batch_size: int, num_micro_batches: int) -> None:
        self.sampler = sampler
        self.batch_size = batch_size
        self.num_micro_batches = num_micro_batches
        self.epoch = 0
        self.start = 0

    def begin(self, epoch: int, position: int) -> None:
        """Make the next iteration that of an epoch, from a position on."""
        self.epoch, self.start = epoch, position
        self.sampler.set_epoch(epoch)

    def num_steps(self, num_indices: int) -> int:
        """Steps that this many samples of the rank make."""
        per_step = self.batch_size * self.num_micro_batches
        return num_indices // per_step if self.sampler.drop_last else -(-num_indices // per_step)

    def __iter__(self) -> Iterator[list[SampleSlot]]:
        indices = list(self.sampler)
        rank, num_replicas = self.sampler.rank, self.sampler.num_replicas
        used = min(len(indices), self.num_steps(len(indices)) * self.batch_size * self.num_micro_batches)
        for first in range(0, used, self.batch_size):
            counts = range(first, min(first + self.batch_size, used))
            yield [SampleSlot(self.epoch, self.start + rank + num_replicas * count, indices[count]) for count in counts]


class SlotDataset(Dataset[Reading]):
    """Reads samples by slot: seeds the random numbers, and names or replaces samples that cannot be read.

    With `on_error="skip"`, a sample that cannot be read is replaced by the next readable one of the data set: the batch
    keeps its size, and all other samples keep their order.
    """

    def __init__(self, dataset: Any, seed: int, on_error: OnError, sample_name: Callable[[int], str]) -> None:
        self.dataset = dataset
        self.seed = seed
        self.on_error = on_error
        self.sample_name = sample_name
        self._epoch = -1

    def __getitems__(self, slots: list[SampleSlot]) -> list[Reading]:
        # Without workers, reading must not change the random numbers of the model, such as those of dropout.
        with preserved() if get_worker_info() is None else nullcontext():
            return [self[slot] for slot in slots]

    def __getitem__(self, slot: SampleSlot) -> Reading:
        if slot.epoch != self._epoch and isinstance(self.dataset, EpochAware):
            self.dataset.set_epoch(slot.epoch)
        self._epoch = slot.epoch
        seed_cpu(mixed_seed(self.seed, slot.epoch, slot.position))
        return self._read(slot)

    def _read(self, slot: SampleSlot) -> Reading:
        sample = slot.sample
        skipped: list[str] = []
        while True:
            try:
                return Reading(slot, sample, self.dataset[sample], skipped, None)
            except UNREADABLE as error:
                name = self.sample_name(sample)
                text = reason(error).removeprefix(f"{name}: ") or type(error).__name__
                failure = f"cannot read {name}: {text}"
            except Exception as error:
                error.add_note(f"while reading {self.sample_name(sample)}")
                raise
            if self.on_error == "stop":
                return Reading(slot, sample, None, skipped, failure)
            skipped.append(self.sample_name(sample))
            if len(skipped) == MAX_REPLACEMENTS:
                return Reading(
                    slot, sample, None, skipped, f"{len(skipped)} samples in a row failed, the last: {failure}"
                )
            sample = (sample + 1) % len(self.dataset)


class SlotCollate:
    """Collates items, and keeps the indices and names of their samples with the batch."""

    def __init__(self, collate: Collate, num_replicas: int) -> None:
        self.collate = collate
        self.num_replicas = num_replicas

    def __call__(self, readings: list[Reading]) -> Batch:
        """A batch; without data if a sample failed."""
        failure = next((reading.failure for reading in readings if reading.failure), None)
        data = None if failure else self.collate([reading.item for reading in readings])
        skipped = [name for reading in readings for name in reading.skipped]
        return Batch(
            data, [reading.sample for reading in readings], len(readings) * self.num_replicas, skipped, failure
        )


class StepLoader:
    """The batches of each optimiser step, epoch by epoch.

    Args:
        dataset: `dataset[index]` gives what `collate` takes.
        sampler: the order; built for this rank. Its `drop_last` leaves out what does not fill a step, too.
        batch_size: samples of one model call on this rank.
        num_micro_batches: model calls of one step.
        collate: from items to `(images, targets)`.
        num_workers: processes that read ahead; 0 reads in this one.
        prefetch: batches that each of them reads ahead.
        seed: seed of the augmentation.
        on_error: "stop" at a sample that cannot be read, or "skip" it.
        sample_name: from an index to the sample's name in messages, usually its file name.
        pin_memory: for accelerators.
    """

    def __init__(
        self,
        dataset: Any,
        sampler: ResumableSampler,
        *,
        batch_size: int,
        num_micro_batches: int,
        collate: Collate,
        num_workers: int,
        prefetch: int = 2,
        seed: int,
        on_error: OnError,
        sample_name: Callable[[int], str],
        pin_memory: bool,
    ) -> None:
        self.sampler = sampler
        self.slots = BatchSlots(sampler, batch_size, num_micro_batches)
        self.loader: DataLoader[Reading] = DataLoader(
            SlotDataset(dataset, seed, on_error, sample_name),
            batch_sampler=self.slots,
            collate_fn=SlotCollate(collate, sampler.num_replicas),
            num_workers=num_workers,
            persistent_workers=num_workers > 0,
            prefetch_factor=prefetch if num_workers > 0 else None,
            worker_init_fn=partial(leave_signals_to_the_training, training=os.getpid()),
            pin_memory=pin_memory,
            # Without a generator of its own each new iterator would use up random numbers of the model.
            generator=torch.Generator().manual_seed(seed),
        )

    def steps_per_epoch(self) -> int:
        """Steps of the first epoch."""
        self.sampler.set_epoch(0)
        return self.slots.num_steps(len(self.sampler))

    def epoch(self, epoch: int, position: int) -> Iterator[tuple[list[Batch], int]]:
        """The batches of every step of an epoch from a position on, and the position after the step."""
        self.slots.begin(epoch, position)
        batches: Iterator[Batch] = iter(self.loader)
        while step := list(islice(batches, self.slots.num_micro_batches)):
            position += sum(batch.num_slots for batch in step)
            yield [checked(batch) for batch in step], position


def checked(batch: Batch) -> Batch:
    """Refuse a batch with a sample that could not be read."""
    if batch.failure:
        raise EngineError(f"{batch.failure} (--set training.on_error=skip leaves such samples out)")
    return batch


def index_name(index: int) -> str:
    """Name of a sample without a file: its index."""
    return f"sample {index}"
