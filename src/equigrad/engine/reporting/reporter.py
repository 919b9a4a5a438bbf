"""The lines of a training for the user and its log: the plan at the start, the numbers of steps, the estimated end."""

from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from torch import nn

from equigrad.engine.learner import Learner
from equigrad.engine.reporting.progress import PlainProgress, make_progress
from equigrad.engine.reporting.timing import Forecast, StepTimer
from equigrad.engine.run_log import RunLog
from equigrad.engine.settings import TrainSettings
from equigrad.engine.statistics_history import tail_and_head_ratio, tail_and_head_won
from equigrad.statistics import find_statistics

if TYPE_CHECKING:
    from lightning.fabric import Fabric


class Reporter:
    """Writes the numbers of a training for the user and, on the first rank, to the log.

    Args:
        fabric: from `launch`.
        total: steps of the run.
        steps_per_epoch: number of steps of the first epoch.
        evaluate_every: steps between two evaluations; None if there are none.
    """

    def __init__(self, fabric: "Fabric", total: int, steps_per_epoch: int, evaluate_every: int | None) -> None:
        self.fabric, self.total = fabric, total
        self.steps_per_epoch, self.evaluate_every = steps_per_epoch, evaluate_every
        self.log: RunLog | None = None  # on the first rank
        self.timer = StepTimer()
        self.forecast = Forecast(total, evaluate_every, fabric.device)
        self.progress = PlainProgress(total, is_silent=not fabric.is_global_zero)

    def say(self, text: str) -> None:
        """One line for the user."""
        self.progress.say(text)

    def open(self, stack: ExitStack, step: int) -> None:
        """Start the progress bar, if there is a terminal."""
        self.progress = make_progress(self.total, step, is_first_rank=self.fabric.is_global_zero)
        stack.callback(self.progress.close)

    def begin(self, settings: TrainSettings, model: nn.Module, data_summary: str | None) -> None:
        """Print the plan: data, number of steps, device."""
        if data_summary is not None:
            self.say(f"data: {data_summary}")
        length = f"{self.total:,} steps of {settings.batch_size:,} samples, {self.steps_per_epoch:,} in an epoch"
        if settings.schedule.stretch(self.steps_per_epoch) > 1:
            length += (
                f": {self.total // self.steps_per_epoch:,} epochs, as the samples are few (--epochs sets the number)"
            )
        self.say(f"training: {length}{self._when_it_is_evaluated()}")
        size = sum(parameter.numel() for parameter in model.parameters())
        world_size, device = self.fabric.world_size, self.fabric.device
        processes = f"{world_size} processes" if world_size > 1 else "1 process"
        precision = self.fabric.strategy.precision.precision
        self.say(f"device: {device}, {processes}, precision {precision}, {size:,} parameters")
        if settings.sync_batch_norm and world_size > 1 and device.type != "cuda":
            self.say("warning: batch norms are not synchronised, each rank has its own: torch has it for CUDA")

    def step_done(self, step: int) -> None:
        """Print when the training will end, as soon as it can be estimated."""
        if text := self.forecast.step_done(step):
            self.say(text)

    def evaluation_done(self, step: int, seconds: float) -> None:
        """Print how much time the evaluations add."""
        if text := self.forecast.evaluation_done(step, seconds):
            self.say(text)

    def numbers(self, step: int, learner: Learner, losses: dict[str, float], num_skipped: int) -> dict[str, Any]:
        """A line of the log: means since the last one."""
        values: dict[str, Any] = {
            "step": step,
            "epoch": round(step / self.steps_per_epoch, 4),
            "loss": sum(losses.values()),
            "losses": losses,
            "lr": learner.lr,
            **self.timer.per_step(),
            "skipped": num_skipped,
        }
        if learner.grad_norm is not None:
            values["grad_norm"] = learner.grad_norm.item()
        for statistics in list(find_statistics(learner.model).values())[:1]:
            values["tail_ratio"], values["head_ratio"] = tail_and_head_ratio(statistics)
        if learner.watched is not None:
            for recognition in list(learner.watched.recognitions().values())[:1]:
                values["tail_won"], values["head_won"] = tail_and_head_won(recognition)
        return values

    def write(self, values: Mapping[str, Any]) -> None:
        """Write a line of the log and show it."""
        self.timer.reset()
        if self.log is not None:
            self.log.write(values)
        self.show(values)

    def show(self, values: Mapping[str, Any]) -> None:
        """Show numbers that are not logged."""
        self.progress.report(values, evaluation_seconds=self.forecast.evaluation_seconds(values["step"]))

    def _when_it_is_evaluated(self) -> str:
        if self.evaluate_every is None:
            return ""
        often = "" if self.evaluate_every >= self.total else f"every {self.evaluate_every:,} steps and "
        return f"; evaluation {often}at the end"


def counted(names: Counter[str]) -> str:
    """The names with their counts, the most frequent ten."""
    shown = ", ".join(f"{name} ({count}x)" for name, count in names.most_common(10))
    return shown + (f" and {len(names) - 10} more" if len(names) > 10 else "")
