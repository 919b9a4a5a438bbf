"""A data set whose items pass through a transform: what training and testing of a detector read."""

from typing import Protocol

from equigrad.data.detection.geometry import Item
from equigrad.data.detection.transforms import DetectionTransform


class DetectionItems(Protocol):
    """Anything with a length and items `(image, target)`, such as `DetectionDataset`."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int) -> Item: ...


class TransformedDataset:
    """The items of a data set after a transform; the data set itself is left as it is.

    Args:
        dataset: gives images and targets.
        transform: takes and gives `(image, target)`; see `equigrad.data.detection.transforms`.
    """

    def __init__(self, dataset: DetectionItems, transform: DetectionTransform) -> None:
        self.dataset = dataset
        self.transform = transform

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Item:
        return self.transform(*self.dataset[index])
