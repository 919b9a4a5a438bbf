"""Predictions of a trained model, for all tasks."""

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Protocol

from PIL import Image
from torch import nn

from equigrad.data.images.sources import ImageSource


class Prediction(Protocol):
    """The result of an image. Each task has its own, with what it predicts as plain arrays."""

    COLUMNS: ClassVar[tuple[str, ...]]
    """Of the rows that `equigrad predict --csv` writes."""

    @property
    def source(self) -> ImageSource:
        """The image."""
        ...

    @property
    def path(self) -> Path | None:
        """The file of the image, if there is one."""
        ...

    @property
    def summary(self) -> str:
        """One line with the best or largest: what `equigrad predict` prints."""
        ...

    def rows(self) -> Sequence[tuple[Any, ...]]:
        """Values of the columns, a row for each category or object."""
        ...

    def draw(self) -> Image.Image:
        """A picture of the prediction, in colours that show how often a category was trained."""
        ...

    def to_supervision(self) -> Any:
        """The same for the library supervision, which must be installed."""
        ...


class Predictor(Protocol):
    """A trained model with its preprocessing and postprocessing."""

    model: nn.Module

    @property
    def names(self) -> tuple[str, ...]:
        """Of the C categories, in the order of labels."""
        ...

    def __call__(self, sources: Sequence[ImageSource], threshold: float | None = None) -> Sequence[Prediction]:
        """A prediction for each image, the same as if it were alone; None is the threshold of the recipe."""
        ...


def check_threshold(threshold: float) -> None:
    """ValueError unless this can be compared with scores."""
    if not 0 <= threshold <= 1:
        raise ValueError(f"threshold must be in [0, 1], got {threshold}")


def supervision() -> ModuleType:
    """The library of that name; ModuleNotFoundError says how to install it."""
    try:
        import supervision as library
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"to_supervision: {error}; pip install supervision", name=error.name) from None
    return library  # type: ignore[no-any-return]
