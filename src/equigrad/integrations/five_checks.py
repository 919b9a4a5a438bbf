"""Five checks that a loss with statistics works in a training loop, the same for every host library."""

import copy
import pickle
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from unittest.mock import patch

import torch
from torch import Tensor, nn

from equigrad.statistics import GradientStatistics, find_statistics

GRADIENT_TOLERANCE = 1e-4
"""Relative deviation of float32 gradients that are the same but for the order of their sums."""


class NotApplicable(Exception):
    """Raised by a method of a `HostRun`: the host has no such thing; the text says why."""


class HostRun:
    """One short training in a host library, as the few things that `check` does with it. Subclass it for your set-up.

        class MyRun(integrations.HostRun):
            def __init__(self):
                torch.manual_seed(0)
                self.module = ...       # the model, with the loss inside
            def train(self, steps): ...
            def evaluate(self): ...

        print(integrations.check(MyRun))

    Each new object must start from the same weights and see the same samples. A method that is not defined is reported
    as not applicable.
    """

    module: nn.Module
    """What holds the losses and the weights. It may be replaced while the run goes on."""

    def train(self, steps: int) -> None:
        """Train that many optimiser steps further with the host's own loop, without gradient accumulation."""
        raise NotImplementedError

    def evaluate(self) -> None:
        """Evaluate as the host does between epochs, on samples with labels."""
        raise NotApplicable("the run defines no evaluate()")

    def save(self, folder: Path) -> None:
        """Write the host's own checkpoint into a folder."""
        raise NotApplicable("the run defines no save()")

    def resume(self, folder: Path) -> None:
        """Read the checkpoint of another run from a folder, as the host does before its first further step."""
        raise NotApplicable("the run defines no resume()")

    def weights(self) -> Mapping[str, Tensor]:
        """The weights that a checkpoint must restore bit for bit; by default all parameters."""
        return dict(self.module.named_parameters())

    def gradients(self, micro_batches: int) -> Mapping[str, Tensor]:
        """Gradient of one step of the host's loop on the same samples, in so many micro-batches.

        As the optimiser sees it, before clipping. The model must have no batch normalisation and no dropout.
        """
        raise NotApplicable("the run defines no gradients()")


@dataclass(frozen=True)
class CheckResult:
    """The outcome of one check, with the reason unless it passed."""

    name: str
    state: Literal["pass", "fail", "not applicable"]
    reason: str = ""


@dataclass(frozen=True)
class CheckReport:
    """The outcome of all checks; `print(report)` shows it as a table."""

    results: Sequence[CheckResult]

    @property
    def passed(self) -> bool:
        """Whether no check failed."""
        return all(result.state != "fail" for result in self.results)

    def __str__(self) -> str:
        width = max(len(result.name) for result in self.results)
        return "\n".join(f"{r.name:{width}}  {r.state:14}  {r.reason}".rstrip() for r in self.results)


def check(make: Callable[[], HostRun], *, micro_batches: int = 2) -> CheckReport:
    """Check a training set-up; every check builds a run of its own, so nothing is changed.

    Args:
        make: builds a run: a subclass of `HostRun`, or a function.
        micro_batches: parts in which the accumulation check divides a batch.
    """
    return CheckReport(
        [
            _result("moves once a step", lambda: _check_steps(make())),
            _result("rests in evaluation", lambda: _check_evaluation(make())),
            _result("resumes", lambda: _check_resume(make)),
            _result("accumulates", lambda: _check_accumulation(make, micro_batches)),
            _result("copies", lambda: _check_copies(make())),
        ]
    )


class _Failed(Exception):
    """The text says what was expected and what came."""


def _result(name: str, attempt: Callable[[], None]) -> CheckResult:
    try:
        attempt()
    except NotApplicable as reason:
        return CheckResult(name, "not applicable", str(reason))
    except _Failed as reason:
        return CheckResult(name, "fail", str(reason))
    except Exception as error:  # a host may raise anything; the other checks still run
        return CheckResult(name, "fail", f"{type(error).__name__}: {' '.join(str(error).split())}")
    return CheckResult(name, "pass")


def _check_steps(run: HostRun) -> None:
    """The loss is called, and the statistics of every loss move once a step."""
    steps = 2
    _statistics(run.module)
    with _counted_updates() as updates:
        run.train(steps)
    for name, part in _statistics(run.module).items():
        if updates[id(part)] != steps:
            raise _Failed(f"{name} moved {updates[id(part)]} times in {steps} steps")
        if not part.positive.any() or not part.negative.any():
            raise _Failed(f"{name} recorded no gradient in {steps} steps")
        del updates[id(part)]
    if others := updates.total():
        raise _Failed(f"statistics outside the module moved {others} times: the host trains a copy of the loss")


def _check_evaluation(run: HostRun) -> None:
    """Evaluation leaves the statistics bit-equal, and training goes on moving them."""
    run.train(1)
    before = _state(run.module)
    run.evaluate()
    _require_equal(before, _state(run.module), "evaluation changed")
    run.train(1)
    for name, values in _state(run.module).items():
        if name.endswith("negative") and torch.equal(values, before[name]):
            raise _Failed(f"{name} no longer moves in training after an evaluation")


def _check_resume(make: Callable[[], HostRun]) -> None:
    """A new run that reads a checkpoint has the statistics and weights of the run that wrote it."""
    run = make()
    started = _cloned(run.weights())
    run.train(2)
    with tempfile.TemporaryDirectory() as folder:
        run.save(Path(folder))
        resumed = make()
        resumed.resume(Path(folder))
    weights = _cloned(run.weights())
    if all(torch.equal(weights[name], values) for name, values in started.items() if name in weights):
        raise _Failed("training changed no weight, so that nothing can be said about resuming")
    _require_equal(_state(run.module), _state(resumed.module), "resuming lost")
    _require_equal(weights, _cloned(resumed.weights()), "resuming lost the weights")


def _check_accumulation(make: Callable[[], HostRun], micro_batches: int) -> None:
    """k micro-batches have the gradient of the batch that they are parts of."""
    joined, parts = (_flat(make().gradients(count)) for count in (1, micro_batches))
    if joined.shape != parts.shape:
        raise _Failed(f"{parts.numel()} numbers of gradient in micro-batches, {joined.numel()} in one batch")
    if not joined.any():
        raise _Failed("the gradient of the joined batch is zero")
    deviation = float((parts - joined).norm() / joined.norm())
    if not deviation <= GRADIENT_TOLERANCE:
        size = float(parts.norm() / joined.norm())
        raise _Failed(
            f"the gradient of {micro_batches} micro-batches deviates by {deviation:.2g} from that of the joined batch "
            f"and is {size:.3g} times as large"
        )


def _check_copies(run: HostRun) -> None:
    """Copies of all kinds have equal float64 statistics of their own, which go on working."""
    run.train(1)
    before = _state(run.module)
    copies = {
        "deepcopy": copy.deepcopy(run.module),
        "pickle": pickle.loads(pickle.dumps(run.module)),
        ".half()": copy.deepcopy(run.module).half(),
    }
    for kind, copied in copies.items():
        _require_equal(before, _state(copied), f"{kind} changed")
        for name, part in _statistics(copied).items():
            if part.positive.dtype != torch.float64:
                raise _Failed(f"{kind} made {name} {part.positive.dtype}")
            one = torch.ones_like(part.positive)
            expected = part.positive * part.kept + one
            part.update(one, one)
            if not torch.equal(part.positive, expected):
                raise _Failed(f"{name} no longer moves after {kind}")
        _require_equal(before, _state(run.module), f"a {kind} shares memory with")


def _statistics(module: nn.Module) -> dict[str, GradientStatistics]:
    found = find_statistics(module)
    if not found:
        raise _Failed("the module holds no loss with gradient statistics")
    return found


def _state(module: nn.Module) -> dict[str, Tensor]:
    return {
        f"{name}.{key}": value.clone()
        for name, part in _statistics(module).items()
        for key, value in part.state_dict().items()
    }


def _cloned(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: values.detach().clone() for name, values in weights.items()}


def _flat(gradients: Mapping[str, Tensor]) -> Tensor:
    return torch.cat([gradients[name].detach().double().flatten().cpu() for name in sorted(gradients)])


def _require_equal(expected: Mapping[str, Tensor], found: Mapping[str, Tensor], what: str) -> None:
    if expected.keys() != found.keys():
        raise _Failed(f"{what} {sorted(expected.keys() ^ found.keys())[0]}")
    for name, values in expected.items():
        if values.dtype != found[name].dtype or not torch.equal(values, found[name].to(values.device)):
            raise _Failed(f"{what} {name}")


@contextmanager
def _counted_updates() -> Iterator[Counter[int]]:
    """How often each statistics object is updated, by its id, no matter which code or copy calls the loss."""
    updates: Counter[int] = Counter()
    moved: list[GradientStatistics] = []  # kept alive: an id may be used again
    original = GradientStatistics.add_batch

    def counted(self: GradientStatistics, *arguments: Any, **options: Any) -> None:
        updates[id(self)] += 1
        moved.append(self)
        original(self, *arguments, **options)

    with patch.object(GradientStatistics, "add_batch", counted):
        yield updates
