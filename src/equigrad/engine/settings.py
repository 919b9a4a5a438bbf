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
        optimizer: the optimiser, `SGD` or `AdamW`.
        schedule: length of the training and course of the learning rate.
        batch_size: samples of one optimiser step, over all ranks and micro-batches. The last batch of an epoch is
            smaller, or left out if the sampler has `drop_last`.
        accumulate: micro-batches into which a rank divides its share of the batch, to save memory. Gradient and
            statistics are those of the joined batch; `docs/exactness.md` lists the exceptions, such as detectors.
        max_grad_norm: clip the norm of the gradient to this value.
        ema: also keep an average of the weights, and evaluate that.
        frozen: parts of the model that are not trained and stay in evaluation mode; patterns as in `ParameterRule`.
        sync_batch_norm: batch norm over the batches of all ranks; on CUDA devices only.
        average_batch_norm: batch norm over each rank's own batches, with running means and variances averaged over
            ranks for evaluations and checkpoints. Without either setting those of the first rank are used.
        channels_last: use the channels-last memory layout for model and images.
        compile: use `torch.compile`.
        num_workers: processes that read data, per rank.
        prefetch: batches that each of these processes reads ahead.
        on_error: what to do with a sample that cannot be read: "stop" or "skip".
        seed: random seed of augmentation and dropout.
        log_every: steps between two lines of the log.
        checkpoint_every: steps between two checkpoints; none is an epoch, or several if `schedule.length` adds epochs.
        keep_checkpoints: how many of the newest checkpoints are kept.
        keep_best: also keep the checkpoint of the best evaluation, by the first metric, as `checkpoints/best.pt`.
        statistics_every: steps between two snapshots of the gradient statistics; None makes 50 snapshots in the run.
        evaluate_every: epochs between two evaluations, more if `schedule.length` adds epochs. There is always one at
            the end; with none, only that one.
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
    """Raise an error unless the value is above zero."""
    if not value > 0:
        raise ValueError(f"{name} must be above 0, got {value}")
