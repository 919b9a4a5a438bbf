"""The batches of an evaluation: each rank reads its share of the test set."""

import os
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

from torch.utils.data import DataLoader, Dataset, default_collate

from equigrad.engine.distributed import ranks
from equigrad.engine.loading.step_loader import UNREADABLE, Collate
from equigrad.engine.loading.workers import leave_signals_to_the_training
from equigrad.errors import EngineError, one_line


class EvaluationLoader:
    """The batches of this rank's share of a test set: every image is on one rank.

    Args:
        dataset: `dataset[index]` gives what `collate` takes.
        batch_size: samples of one model call.
        num_workers: processes that read ahead; 0 reads in this one.
        collate: from items to `(images, targets)`.
    """

    def __init__(self, dataset: Any, *, batch_size: int, num_workers: int, collate: Collate = default_collate) -> None:
        rank, num_ranks = ranks()
        self.share = range(rank, len(dataset), num_ranks)
        self.loader: DataLoader[Any] = DataLoader(
            _ReadableDataset(dataset),
            sampler=self.share,
            batch_size=batch_size,
            collate_fn=_ReadableCollate(collate),
            num_workers=min(num_workers, -(-len(self.share) // batch_size)),  # more workers than batches would be idle
            worker_init_fn=partial(leave_signals_to_the_training, training=os.getpid()),
        )

    def __iter__(self) -> Iterator[Any]:
        for batch in self.loader:
            if isinstance(batch, _Unreadable):
                raise EngineError(batch.reason)
            yield batch


class _Unreadable(NamedTuple):
    reason: str


class _ReadableDataset(Dataset[Any]):
    """Returns the error of a sample instead of raising it: a worker would put its traceback into the message."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __getitem__(self, index: int) -> Any:
        try:
            return self.dataset[index]
        except (*UNREADABLE, ValueError) as error:
            return _Unreadable(one_line(error))


class _ReadableCollate:
    def __init__(self, collate: Collate) -> None:
        self.collate = collate

    def __call__(self, items: list[Any]) -> Any:
        return next((item for item in items if isinstance(item, _Unreadable)), None) or self.collate(items)
