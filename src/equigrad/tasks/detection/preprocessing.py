"""Preprocessing of a detector's images in training and in the test, and how they are put into batches."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

from equigrad.data.detection.batches import collate_detection
from equigrad.data.detection.dataset import DetectionDataset
from equigrad.data.detection.mosaic import YOLOX_SIZES, yolox_train
from equigrad.data.detection.transformed_dataset import DetectionItems, TransformedDataset
from equigrad.data.detection.transforms import (
    LVIS_SHORT_SIDES,
    DetectionTransform,
    evaluation_transform,
    letterbox,
    train_transform,
)

Collate = Callable[[Sequence[Any]], Any]


@dataclass(frozen=True)
class ShorterSide:
    """Images scaled by their shorter side, mirrored at random: most detectors.

    Args:
        short: lengths of the shorter side to choose from in training.
        test_short: length of the shorter side in the test.
        long: maximum length of the longer side.
        flip: probability that a training image is mirrored.
        stride: batches are padded to multiples of it.
    """

    short: tuple[int, ...] = tuple(LVIS_SHORT_SIDES)
    test_short: int = 800
    long: int = 1333
    flip: float = 0.5
    stride: int = 32

    def training(self, dataset: DetectionDataset) -> DetectionItems:
        """The data set with random sizes."""
        return TransformedDataset(dataset, train_transform(short=self.short, long=self.long, flip=self.flip))

    def testing(self) -> DetectionTransform:
        """Every test image is scaled to one shorter side and not mirrored."""
        return evaluation_transform(self.test_short, self.long)

    def collate(self) -> Collate:
        """Padded at the right and the bottom."""
        return partial(collate_detection, stride=self.stride)

    def at_size(self, size: int) -> Self:
        """With a shorter side of `size` in the test, and a range below it in proportion."""
        factor = size / self.test_short
        short = tuple(dict.fromkeys(round(side * factor) for side in self.short))
        return replace(self, short=short, test_short=size, long=round(self.long * factor))


@dataclass(frozen=True)
class Mosaics:
    """YOLOX: four images in one, mixed with another, and plain ones in the last epochs; squares in the test.

    Args:
        size: size of mosaics and of test images.
        sizes: longer sides of training images to choose from.
        num_strong_epochs: number of epochs with mosaics, before plain ones.
        mixup: also mix two images; not for small models.
    """

    size: int = 640
    sizes: tuple[int, ...] = tuple(YOLOX_SIZES)
    num_strong_epochs: int = 285
    mixup: bool = True

    def training(self, dataset: DetectionDataset) -> DetectionItems:
        """The data set behind mosaics."""
        return yolox_train(
            dataset,
            self.size,
            num_strong_epochs=self.num_strong_epochs,
            sizes=self.sizes,
            mixup_scale=(0.8, 1.6) if self.mixup else None,
        )

    def testing(self) -> DetectionTransform:
        """Squares, padded at the right or the bottom."""
        return letterbox(self.size)

    def collate(self) -> Collate:
        """Padded to the strides of the network."""
        return collate_detection

    def at_size(self, size: int) -> Self:
        """Mosaics of `size`, and sizes around it in proportion, in multiples of 32."""
        sizes = dict.fromkeys(max(32 * round(side * size / self.size / 32), 32) for side in self.sizes)
        return replace(self, size=size, sizes=tuple(sizes))


Preprocessing = ShorterSide | Mosaics
"""What is done to images: `training(dataset)` is the data set as it is trained on, `testing()` what is done to a test
image, `collate()` makes a batch of items, and `at_size(pixels)` is the same with smaller or larger images.
"""
