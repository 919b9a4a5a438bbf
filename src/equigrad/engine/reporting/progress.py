"""Progress of a run: a live line in a terminal, plain lines anywhere else."""

import time
from collections.abc import Mapping
from itertools import islice
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
from rich.text import Text

from equigrad.engine.reporting.timing import duration
from equigrad.terminal import metric_line, printable

_REFRESH_SECONDS = 0.5
_NUM_METRICS = 4  # of an evaluation; the line at the end of the run and its page have all


class PlainProgress:
    """One line for each logged step.

    Args:
        total: steps of the run.
        is_silent: on all ranks but the first.
    """

    def __init__(self, total: int, *, is_silent: bool = False) -> None:
        self.total = total
        self.is_silent = is_silent
        self.wants_numbers = True  # also of the next step that is not logged: the first logged one may be minutes away

    def advance(self, step: int) -> None:
        """Called after every step; plain lines show only those that are logged."""

    def report(self, values: Mapping[str, Any], *, evaluation_seconds: float = 0.0) -> None:
        """The numbers of a step.

        Args:
            values: as in the log.
            evaluation_seconds: seconds of the remaining evaluations.
        """
        self.wants_numbers = False
        self.say(f"step {values['step']:,}/{self.total:,}  {summary(values, self.total, evaluation_seconds)}")

    def say(self, text: str) -> None:
        """One line for the user."""
        if not self.is_silent:
            print(printable(text), flush=True)

    def close(self) -> None:
        """Nothing to close: every line was written at once."""


class LiveProgress(PlainProgress):
    """A bar, and below it the numbers of the last logged step, on as many lines as they need."""

    def __init__(self, total: int, step: int, console: Console) -> None:
        super().__init__(total)
        step_column = TextColumn("step {task.completed:,}/{task.total:,}")
        self._bar = Progress(BarColumn(), TaskProgressColumn(), step_column, console=console)
        self._task = self._bar.add_task("", total=total, completed=step)
        # No refresh thread: it would take the interpreter from the training at any moment.
        self._live = Live(self._bar, console=console, auto_refresh=False)
        self._next_refresh = 0.0
        self._live.start()

    def advance(self, step: int) -> None:
        """Move the bar, twice a second at most."""
        if time.monotonic() >= self._next_refresh:
            self._bar.update(self._task, completed=step)
            self._live.refresh()
            self._next_refresh = time.monotonic() + _REFRESH_SECONDS
            self.wants_numbers = True

    def report(self, values: Mapping[str, Any], *, evaluation_seconds: float = 0.0) -> None:
        """The numbers of a step."""
        self.wants_numbers = False
        self._bar.update(self._task, completed=values["step"])
        numbers = Text(summary(values, self.total, evaluation_seconds))
        self._live.update(Group(self._bar, numbers), refresh=True)

    def say(self, text: str) -> None:
        """One line above the bar."""
        self._live.console.print(printable(text), markup=False, highlight=False, soft_wrap=True)
        self._live.refresh()  # the soft wrap of the line has cut the numbers below the bar

    def close(self) -> None:
        """Leave the bar as it is."""
        self._live.stop()


def make_progress(total: int, step: int, *, is_first_rank: bool) -> PlainProgress:
    """A live line if the first rank writes to a terminal."""
    console = Console()
    if is_first_rank and console.is_terminal:
        return LiveProgress(total, step, console)
    return PlainProgress(total, is_silent=not is_first_rank)


def summary(values: Mapping[str, Any], total: int, evaluation_seconds: float = 0.0) -> str:
    """Rate, time left, losses, learning rate, samples that tail and head win (or their ratio), metrics."""
    parts = [f"epoch {values['epoch']:.2f}"]
    seconds = values["seconds_per_step"]
    if seconds > 0:  # a run that was resumed for its evaluation has made no step
        left = (total - values["step"]) * seconds + evaluation_seconds
        parts += [f"{1 / seconds:.3g} steps/s", f"{duration(left)} left"]
    parts.append(f"loss {values['loss']:.4g}")
    terms = values["losses"]
    if len(terms) > 1:
        parts.append("(" + ", ".join(f"{name} {value:.4g}" for name, value in terms.items()) + ")")
    parts.append(f"lr {values['lr']:.3g}")
    if "tail_won" in values:
        parts.append(f"tail/head samples won {100 * values['tail_won']:.0f}/{100 * values['head_won']:.0f} %")
    elif "tail_ratio" in values:
        parts.append(f"tail/head ratio {values['tail_ratio']:.2f}/{values['head_ratio']:.2f}")
    if values.get("skipped"):
        parts.append(f"{values['skipped']} skipped")
    if "check" in values:
        parts.append(f"check on a part of the test set: {metric_line(values['check'])}")
    if "evaluation" in values:
        parts.append(metric_line(dict(islice(values["evaluation"].items(), _NUM_METRICS))))
    return "  ".join(parts)
