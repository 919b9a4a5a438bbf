"""Learning-rate schedules: how long to train, how to warm up, how to decay.

A schedule is a pure function from the step to a factor of the base learning rate. It has no state, so a resumed run
needs to know nothing but its step.

    Schedule(epochs=24, decay=MultiStep((16, 22)), warmup=Warmup(500))                      # detectors, 2x
    Schedule(epochs=90, decay=Cosine(per="epoch"))                                          # ImageNet-LT
    Schedule(steps=80_000, decay=Poly(floor=0.01))                                          # ADE20K
    Schedule(length=EnoughSteps(min_epochs=12, min_steps=1000), warmup=Warmup(0.1, "share"))    # data of any size
    yolox_schedule(epochs=300)
"""

import math
from dataclasses import dataclass
from typing import Literal

Unit = Literal["steps", "epochs"]
WarmupUnit = Literal["steps", "epochs", "share"]
WarmupShape = Literal["linear", "quadratic", "constant"]


@dataclass(frozen=True)
class Constant:
    """The learning rate is constant after the warm-up."""

    def factor(self, step: int, steps_per_epoch: int, total: int, warmup: int) -> float:
        """1 at every step."""
        return 1.0

    def describe(self) -> str:
        """A few words for the user."""
        return "constant"


@dataclass(frozen=True)
class MultiStep:
    """Multiply by `gamma` at every milestone.

    Args:
        milestones: when the rate changes, ascending, in `unit`.
        gamma: factor of each milestone.
        unit: unit of the milestones, "epochs" or "steps".
    """

    milestones: tuple[float, ...]
    gamma: float = 0.1
    unit: Unit = "epochs"

    def __post_init__(self) -> None:
        if list(self.milestones) != sorted(self.milestones) or any(m <= 0 for m in self.milestones):
            raise ValueError(f"milestones must be positive and ascending, got {self.milestones}")

    def factor(self, step: int, steps_per_epoch: int, total: int, warmup: int) -> float:
        """gamma to the number of milestones passed."""
        passed = sum(step >= in_steps(milestone, self.unit, steps_per_epoch) for milestone in self.milestones)
        return float(self.gamma**passed)

    def describe(self) -> str:
        """A few words for the user."""
        milestones = ", ".join(f"{milestone:,g}" for milestone in self.milestones)
        return f"x{self.gamma:g} at {self.unit[:-1]} {milestones}"


@dataclass(frozen=True)
class Cosine:
    """Half a cosine from 1 to `floor`.

    Args:
        floor: final learning rate, as a share of the base rate.
        per: when the rate changes: at every "step", or at the start of every "epoch".
        tail_epochs: number of last epochs at the floor.
        after_warmup: whether the cosine begins at the end of the warm-up (YOLOX) instead of at its start.
    """

    floor: float = 0.0
    per: Literal["step", "epoch"] = "step"
    tail_epochs: float = 0.0
    after_warmup: bool = False

    def __post_init__(self) -> None:
        check_floor(self.floor)
        if self.per not in ("step", "epoch"):
            raise ValueError(f'per must be "step" or "epoch", got {self.per!r}')
        if self.tail_epochs < 0:
            raise ValueError(f"tail_epochs must be at least 0, got {self.tail_epochs}")

    def factor(self, step: int, steps_per_epoch: int, total: int, warmup: int) -> float:
        """floor + (1 - floor) (1 + cos(pi x)) / 2, x from 0 to 1 between warm-up and tail."""
        if self.per == "epoch":
            step -= step % steps_per_epoch
        first = warmup if self.after_warmup else 0
        last = total - in_steps(self.tail_epochs, "epochs", steps_per_epoch)
        return self.floor + (1 - self.floor) * (1 + math.cos(math.pi * progress(step, first, last))) / 2

    def describe(self) -> str:
        """A few words for the user."""
        tail = f", constant for the last {self.tail_epochs:g} epochs" if self.tail_epochs else ""
        return f"cosine per {self.per} to {self.floor:g}{tail}"


@dataclass(frozen=True)
class Poly:
    """(1 - x)^power from 1 to `floor`, x the share of the steps taken.

    Args:
        power: exponent of the polynomial.
        floor: final learning rate, as a share of the base rate.
    """

    power: float = 0.9
    floor: float = 0.0

    def __post_init__(self) -> None:
        check_floor(self.floor)
        if self.power <= 0:
            raise ValueError(f"power must be above 0, got {self.power}")

    def factor(self, step: int, steps_per_epoch: int, total: int, warmup: int) -> float:
        """floor + (1 - floor) (1 - x)^power."""
        return float(self.floor + (1 - self.floor) * (1 - progress(step, 0, total)) ** self.power)

    def describe(self) -> str:
        """A few words for the user."""
        return f"poly, power {self.power:g}, to {self.floor:g}"


Decay = Constant | MultiStep | Cosine | Poly
"""The course of the learning rate after, and under, the warm-up.

`factor(step, steps_per_epoch, total, warmup)` is the share of the base learning rate at a step, counted from 0, where
`warmup` is the length of the warm-up in steps. `describe()` is a few words for the user.
"""


@dataclass(frozen=True)
class Warmup:
    """A gentle start: the factor grows from `start` to 1 and multiplies the decay.

    Args:
        length: length of the warm-up, in `unit`; 0 for none.
        unit: unit of the length: "steps", "epochs", or "share" of the whole training (0.1 is a tenth).
        shape: "linear", "quadratic", or "constant" (stays at `start`, then jumps).
        start: factor of the learning rate in the first step.
    """

    length: float = 0.0
    unit: WarmupUnit = "steps"
    shape: WarmupShape = "linear"
    start: float = 0.001

    def __post_init__(self) -> None:
        if self.length < 0:
            raise ValueError(f"length must be at least 0, got {self.length}")
        if self.unit == "share" and self.length > 1:
            raise ValueError(f"length is a share of the training, in [0, 1], got {self.length}; or set unit=steps")
        if self.shape not in ("linear", "quadratic", "constant"):
            raise ValueError(f'shape must be "linear", "quadratic" or "constant", got {self.shape!r}')

    def steps(self, steps_per_epoch: int, total: int) -> int:
        """Length of the warm-up in steps."""
        if self.unit == "share":
            return round(self.length * total)
        return in_steps(self.length, self.unit, steps_per_epoch)

    def factor(self, step: int, length: int) -> float:
        """From `start` at step 0 to 1 at step `length`."""
        if step >= length:
            return 1.0
        grown = {"linear": step / length, "quadratic": (step / length) ** 2, "constant": 0.0}[self.shape]
        return self.start + (1 - self.start) * grown

    def describe(self) -> str:
        """A few words for the user."""
        length = f"{self.length:.0%} of the steps" if self.unit == "share" else f"{self.length:,g} {self.unit}"
        return f"{self.shape} warm-up from {self.start:g} over {length}"


@dataclass(frozen=True)
class EnoughSteps:
    """Minimum numbers of epochs and of steps: with few samples more epochs are trained, because each has few steps.

    Args:
        min_epochs: minimum number of epochs; with many samples, the length is this.
        min_steps: minimum number of steps, rounded up to whole epochs; with few samples, the length is this.
    """

    min_epochs: int
    min_steps: int

    def __post_init__(self) -> None:
        if self.min_epochs < 1 or self.min_steps < 1:
            raise ValueError(f"min_epochs and min_steps must be above 0, got {self.min_epochs} and {self.min_steps}")

    def num_epochs(self, steps_per_epoch: int) -> int:
        """Length in epochs."""
        return max(self.min_epochs, math.ceil(self.min_steps / steps_per_epoch))

    def describe(self) -> str:
        """A few words for the user."""
        return f"{self.min_epochs} epochs, but at least {self.min_steps:,} steps"


@dataclass(frozen=True)
class Schedule:
    """Length of the training and course of the learning rate.

    Args:
        epochs: length in epochs; none if it is given in steps, or by `length`.
        steps: length in steps; none if it is given in epochs, or by `length`.
        length: length from the number of samples; `epochs` or `steps` override it.
        decay: course of the learning rate: `Constant`, `MultiStep`, `Cosine` or `Poly`.
        warmup: slow start, which multiplies the decay; none by default.
    """

    epochs: float | None = None
    steps: int | None = None
    length: EnoughSteps | None = None
    decay: Decay = Constant()
    warmup: Warmup = Warmup()

    def __post_init__(self) -> None:
        given = f"epochs={self.epochs} and steps={self.steps}"
        lengths = [length for length in (self.epochs, self.steps) if length is not None]
        if len(lengths) > 1 or not (lengths or self.length):
            raise ValueError(f"give either epochs or steps, got {given}")
        if not all(length > 0 for length in lengths):
            raise ValueError(f"a training has a positive length, got {given}")

    def total_steps(self, steps_per_epoch: int) -> int:
        """Length of the training in steps."""
        if self.steps is not None:
            return self.steps
        if self.epochs is not None:
            return in_steps(self.epochs, "epochs", steps_per_epoch)
        assert self.length is not None
        return self.length.num_epochs(steps_per_epoch) * steps_per_epoch

    def stretch(self, steps_per_epoch: int) -> float:
        """By how much `length` multiplies the least number of epochs; intervals between evaluations grow as much."""
        if self.length is None or self.epochs is not None or self.steps is not None:
            return 1.0
        return self.length.num_epochs(steps_per_epoch) / self.length.min_epochs

    def factor(self, step: int, steps_per_epoch: int, total: int) -> float:
        """Share of the base learning rate at a step, counted from 0."""
        warmup = self.warmup.steps(steps_per_epoch, total)
        return self.decay.factor(step, steps_per_epoch, total, warmup) * self.warmup.factor(step, warmup)

    def describe(self) -> str:
        """The schedule in one line."""
        length = self.length.describe() if self.length is not None else ""
        if self.epochs is not None:
            length = f"{self.epochs:g} epochs"
        elif self.steps is not None:
            length = f"{self.steps:,} steps"
        parts = [length, self.decay.describe()]
        return ", ".join([*parts, self.warmup.describe()] if self.warmup.length else parts)


def yolox_schedule(epochs: float = 300.0) -> Schedule:
    """YOLOX: five epochs of quadratic warm-up, cosine to 5 %, the last 15 epochs constant."""
    decay = Cosine(floor=0.05, tail_epochs=15, after_warmup=True)
    return Schedule(epochs=epochs, decay=decay, warmup=Warmup(5, "epochs", "quadratic", start=0.0))


def in_steps(length: float, unit: Unit, steps_per_epoch: int) -> int:
    """A length in steps."""
    return round(length * steps_per_epoch if unit == "epochs" else length)


def progress(step: int, first: int, last: int) -> float:
    """0 until the first step, 1 from the last one on."""
    return min(max(step - first, 0) / max(last - first, 1), 1.0)


def check_floor(floor: float) -> None:
    """Refuse a floor that is not a share of the base learning rate."""
    if not 0 <= floor <= 1:
        raise ValueError(f"floor is a share of the base learning rate, in [0, 1], got {floor}")
