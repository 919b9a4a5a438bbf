"""How long steps and evaluations take, and when the training will end."""

import resource
import sys
import time
from datetime import datetime, timedelta

import torch

_FORECAST_AFTER_STEPS = 5
_FORECAST_AFTER_SECONDS = 5.0


class StepTimer:
    """Time of the steps since the last line of the log, and how much of it was spent waiting for data."""

    def __init__(self) -> None:
        self._start = self._seconds = self._waited = 0.0
        self._count = 0

    def start(self) -> None:
        """Call it before waiting for the data of a step."""
        self._start = time.perf_counter()

    def data_arrived(self) -> None:
        """Call it when the data of the step has arrived."""
        self._waited += time.perf_counter() - self._start

    def step_done(self) -> None:
        """Call it after the step."""
        self._seconds += time.perf_counter() - self._start
        self._count += 1

    def per_step(self) -> dict[str, float]:
        """Means since the last `reset`."""
        count = max(self._count, 1)
        return {"seconds_per_step": self._seconds / count, "seconds_waiting_for_data": self._waited / count}

    def reset(self) -> None:
        """Start again, for the next line of the log."""
        self._seconds, self._waited, self._count = 0.0, 0.0, 0


class Forecast:
    """When a training will end.

    Args:
        total: steps of the run.
        evaluate_every: steps between two evaluations; None if there are none.
        device: whose memory is looked at.
    """

    def __init__(self, total: int, evaluate_every: int | None, device: torch.device) -> None:
        self.total, self.evaluate_every, self.device = total, evaluate_every, device
        self._first: tuple[int, float] | None = None  # the first step of this process, and when it ended
        self._is_told = False
        self._seconds_per_step = 0.0
        self._seconds_per_evaluation: float | None = None

    def step_done(self, step: int) -> str | None:
        """The forecast in one line, once: after a few steps, without the first, which also starts workers."""
        if self._is_told or step == self.total:
            return None
        now = time.monotonic()
        if self._first is None:
            self._first = step, now
        num_steps, seconds = step - self._first[0], now - self._first[1]
        if num_steps == 0 or (num_steps < _FORECAST_AFTER_STEPS and seconds < _FORECAST_AFTER_SECONDS):
            return None
        self._is_told = True
        self._seconds_per_step = seconds / num_steps
        left = (self.total - step) * self._seconds_per_step
        evaluations = "" if self.evaluate_every is None else ", evaluations not counted"
        return (
            f"{self._seconds_per_step:.3g} s per step: the last step is expected at {clock_time(left)}, "
            f"in {duration(left)}{evaluations}; peak memory so far {peak_memory(self.device)}"
        )

    def evaluation_done(self, step: int, seconds: float) -> str | None:
        """What the first evaluation adds to the forecast, in one line."""
        is_first, self._seconds_per_evaluation = self._seconds_per_evaluation is None, seconds
        if not is_first or step == self.total:
            return None
        left = (self.total - step) * self._seconds_per_step + self.evaluation_seconds(step)
        end = f"the run is expected to end at {clock_time(left)}, in {duration(left)}"
        return f"an evaluation takes {duration(seconds)}: {end}"

    def evaluation_seconds(self, step: int) -> float:
        """Of the evaluations after a step, if one was made already."""
        if self.evaluate_every is None or self._seconds_per_evaluation is None:
            return 0.0
        num_left = self.total // self.evaluate_every - step // self.evaluate_every
        is_last_extra = step < self.total and self.total % self.evaluate_every > 0
        return (num_left + is_last_extra) * self._seconds_per_evaluation


def duration(seconds: float) -> str:
    """Hours, minutes and seconds."""
    return str(timedelta(seconds=round(seconds)))


def clock_time(seconds: float) -> str:
    """The time of day so many seconds from now, with the date if it is another day."""
    now = datetime.now()
    then = now + timedelta(seconds=seconds)
    return then.strftime("%H:%M" if then.date() == now.date() else "%Y-%m-%d %H:%M")


def peak_memory(device: torch.device) -> str:
    """The most memory that this process has used so far: of its GPU, else of the machine."""
    if device.type == "cuda":
        return f"{torch.cuda.max_memory_reserved(device) / 2**30:.1f} GiB of the GPU"
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # KiB, but bytes on macOS
    return f"{used / (2**30 if sys.platform == 'darwin' else 2**20):.1f} GiB"
