"""The settings of a training, as one frozen dataclass."""

from dataclasses import dataclass

from equigrad.engine.ema import Ema
from equigrad.engine.loading.step_loader import OnError
from equigrad.engine.optimizers import SGD, AdamW
from equigrad.engine.schedule import Schedule


@dataclass(frozen=True)
class TrainSettings:
    """How to train; model and data are arguments of `train` and `Training`.

    Args:
        optimizer: `SGD` or `AdamW`.
        schedule: length and learning rate.
        batch_size: samples of one optimiser step, over all ranks and micro-batches. The last batch of an epoch is
            smaller, or left out if the sampler has `drop_last`.
        accumulate: micro-batches that a rank computes its share of the batch in, to save memory. The gradient and the
            statistics are those of the joined batch; `docs/exactness.md` says where they cannot be, as in detectors.
        max_grad_norm: gradients are scaled down to this norm.
        ema: keep averaged weights beside the weights; they are evaluated.
        frozen: paths of parts that are not trained and stay in evaluation mode; patterns as in `ParameterRule`.
        sync_batch_norm: batch norm over the batches of all ranks, on CUDA devices; torch has none for others.
        average_batch_norm: batch norm of each rank over its own batches, with running means and variances that are
            averaged over ranks for evaluations and checkpoints; without either they are those of the first rank.
        channels_last: memory layout of model and images.
        compile: use `torch.compile`.
        num_workers: processes that read data, per rank.
        prefetch: batches that each of them reads ahead.
        on_error: what to do about a sample that cannot be read: "stop" or "skip".
        seed: of augmentation and dropout.
        log_every: steps between two lines of the log.
        checkpoint_every: steps between two checkpoints; none is an epoch, several where `schedule.length` adds epochs.
        keep_checkpoints: how many of them stay.
        keep_best: also keep that of the best evaluation, by the first metric, as `checkpoints/best.pt`.
        statistics_every: steps between two snapshots of the gradient statistics; None is 50 in the run.
        evaluate_every: epochs between two evaluations, more where `schedule.length` adds epochs; there is always one at
            the end, and with none only that one.
    """

    optimizer: SGD | AdamW
    schedule: Schedule
    batch_size: int
    accumulate: int = 1
    max_grad_norm: float | None = None
    ema: Ema | None = None
    frozen: tuple[str, ...] = ()
    sync_batch_norm: bool = False
    average_batch_norm: bool = False
    channels_last: bool = False
    compile: bool = False
    num_workers: int = 2
    prefetch: int = 2
    on_error: OnError = "stop"
    seed: int = 0
    log_every: int = 50
    checkpoint_every: int | None = None
    keep_checkpoints: int = 3
    keep_best: bool = False
    statistics_every: int | None = None
    evaluate_every: int | None = 1

    def __post_init__(self) -> None:
        for name in ("batch_size", "accumulate", "log_every", "keep_checkpoints", "prefetch"):
            check_positive(name, getattr(self, name))
        for name in ("checkpoint_every", "statistics_every", "evaluate_every", "max_grad_norm"):
            if getattr(self, name) is not None:
                check_positive(name, getattr(self, name))
        if self.num_workers < 0:
            raise ValueError(f"num_workers must be 0 or more, got {self.num_workers}")
        if self.sync_batch_norm and self.average_batch_norm:
            raise ValueError("sync_batch_norm and average_batch_norm exclude each other: choose one")
        if self.on_error not in ("stop", "skip"):
            raise ValueError(f'on_error must be "stop" or "skip", got {self.on_error!r}')


def check_positive(name: str, value: float) -> None:
    """Refuse what is not above zero."""
    if not value > 0:
        raise ValueError(f"{name} must be above 0, got {value}")
