"""A trained model: from images of any source to predictions."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from equigrad.data.images.sources import ImageSource, OneImage, image_sources, is_one_image
from equigrad.tasks.prediction import Prediction, Predictor


class TrainedModel:
    """The model of a run, as `equigrad.load` gives it.

    Args:
        predictor: predictor for the task of the run.
        recipe: the settings of the run.
    """

    def __init__(self, predictor: Predictor, recipe: Any) -> None:
        self._predictor = predictor
        self.recipe = recipe

    @property
    def module(self) -> nn.Module:
        """The network, in evaluation mode."""
        return self._predictor.model

    @property
    def names(self) -> tuple[str, ...]:
        """Of the C categories, in the order of labels."""
        return self._predictor.names

    @property
    def device(self) -> torch.device:
        """Where the network is."""
        return next(self.module.parameters()).device

    def to(self, device: str | torch.device) -> "TrainedModel":
        """Move the network to a device; ValueError if there is none of that name."""
        try:
            self.module.to(device)
        except (RuntimeError, AssertionError) as error:  # torch raises either, by device
            raise ValueError(f"device {str(device)!r}: {str(error).splitlines()[0]}") from None
        return self

    def predict(
        self,
        images: OneImage | Iterable[OneImage],
        *,
        batch_size: int = 1,
        threshold: float | None = None,
        device: str | torch.device | None = None,
    ) -> Prediction | list[Prediction] | Iterator[Prediction]:
        """Predict images; each is predicted as if it were alone, whatever the batch.

        Args:
            images: one image gives one prediction. A list, a folder (its sub-folders included) and a batch
                (N, H, W, 3) or (N, 3, H, W) give a list. A generator gives an iterator, which reads no more than a
                batch ahead. An image is a path, a PIL image, an array (H, W, 3) of uint8, or a tensor (3, H, W) of
                uint8 or of floats in [0, 1].
            batch_size: images at once, which is faster on a GPU.
            threshold: least score of a category, an object or a pixel; None takes that of the recipe for objects, 0.5
                where images have several categories, and 0 for other tasks.
            device: where to compute from now on, such as "cuda".

        Raises:
            ValueError: an image is none of these, or the threshold is not in [0, 1].
            OSError: a file is missing or cannot be read.
        """
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}")
        if device is not None:
            self.to(device)
        if is_one_image(images):
            (prediction,) = self.predict_sources(image_sources([images]), threshold=threshold)  # type: ignore[list-item]
            return prediction
        if isinstance(images, Iterator):
            return self.predict_sources(image_sources(images), batch_size=batch_size, threshold=threshold)
        sources = image_sources(_several(images))
        return list(self.predict_sources(sources, batch_size=batch_size, threshold=threshold))

    def predict_sources(
        self, sources: Iterable[ImageSource], *, batch_size: int = 1, threshold: float | None = None
    ) -> Iterator[Prediction]:
        """Predict images that are given as `ImageSource`."""
        waiting = iter(sources)
        while batch := list(islice(waiting, batch_size)):
            yield from self._predictor(batch, threshold)

    def __repr__(self) -> str:
        return f"TrainedModel({type(self.recipe).__name__}, {len(self.names)} categories, {self.device})"


def _several(images: Any) -> Iterable[Any]:
    """A list of what may be a folder, a batch or a collection."""
    if isinstance(images, bytes | bytearray):
        raise ValueError("bytes are no image; give PIL.Image.open(io.BytesIO(content)) for the content of a file")
    if isinstance(images, Mapping):
        return [images]  # which is refused, and not its keys
    if isinstance(images, np.ndarray | Tensor) and images.ndim != 4:
        return [images]  # which is refused with its shape
    return images if isinstance(images, Iterable) and not isinstance(images, str) else [images]
