"""The course of a run: train, test, and keep in the run folder what the last test said."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from torch import nn

from equigrad.engine import EngineError, TrainResult
from equigrad.engine.checkpoint import load_weights
from equigrad.engine.train import Evaluate

if TYPE_CHECKING:
    from lightning.fabric import Fabric

Model = TypeVar("Model", bound=nn.Module)


class Tested(Protocol):
    """What a model did on the test set, the same on every rank."""

    def result(self) -> dict[str, float]:
        """Metrics with the paper's names."""
        ...

    def save(self, folder: Path) -> None:
        """Keep everything in a run folder, its page included."""
        ...


def train_and_test(
    fabric: "Fabric",
    folder: Path,
    *,
    train: Callable[[Evaluate], TrainResult],
    test: Callable[[nn.Module], Tested],
    newest_model: Callable[[], nn.Module],
    remove_results: Callable[[Path], None],
) -> TrainResult:
    """Train in a run folder and save the last test; every rank must call.

    Args:
        fabric: from `launch`.
        folder: of the run.
        train: the training, given what to call for an evaluation.
        test: of a model on the device of the run.
        newest_model: of the run folder, for a run that was resumed when all steps were done.
        remove_results: of an earlier end, when this run was to go on from there and was interrupted.
    """
    tested: list[Tested] = []

    def evaluate(model: nn.Module, step: int) -> dict[str, float]:
        tested[:] = [test(model)]
        return tested[0].result()

    result = train(evaluate)
    if result.interrupted:
        if fabric.is_global_zero:
            remove_results(folder)
        return result
    if not tested:
        tested = [test(newest_model().to(fabric.device))]
    if fabric.is_global_zero:
        tested[0].save(folder)
    return result


def with_weights_of(model: Model, folder: Path) -> Model:
    """The model with the newest weights of a run, in evaluation mode."""
    try:
        model.load_state_dict(load_weights(folder))
    except RuntimeError as error:
        raise EngineError(f"{folder} does not fit its recipe: {str(error).splitlines()[-1].strip()}") from error
    return model.eval()
