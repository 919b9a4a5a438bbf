"""The data set that reads the images of a list.

images = read_images("train.txt")                      # equigrad.data.images.readers
dataset = ImageDataset(images, train_transform())
image, targets = dataset[0]                            # (3, H, W) uint8, {"labels": 3, ...}
"""

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset

from equigrad.data.frequency import Counts
from equigrad.data.images.lists import ImageList


class ImageDataset(Dataset[tuple[Tensor, dict[str, Any]]]):
    """Images as tensors with their labels; torch's default collate makes batches.

    Args:
        images: the images and labels.
        transform: from a PIL image in RGB to a tensor; see `equigrad.data.images.transforms`.
        min_side: as in `ImageStore.read`; None decodes all images in full size.
    """

    def __init__(
        self, images: ImageList, transform: Callable[[Image.Image], Tensor], min_side: int | None = None
    ) -> None:
        self.images = images
        self.transform = transform
        self.min_side = min_side
        self.category_counts = images.category_counts
        self.class_names = images.class_names

    @property
    def labels(self) -> Counts:
        """The label of every image, (N,), or (N, C) where it may have several; for samplers."""
        return self.images.labels

    @property
    def paths(self) -> Sequence[str]:
        """The path of every image."""
        return self.images.paths

    def sample_name(self, index: int) -> str:
        """The file of an image."""
        return self.images.store.name(self.images.paths[index])

    def fingerprint(self) -> str:
        """A digest that changes with images, labels and transform (as far as its `repr` shows its settings)."""
        store = self.images.store
        labelled = zip(self.paths, self.labels.tolist(), strict=True)
        lines = (f"{path} {label} {store.version(path)}" for path, label in labelled)
        reduced = [] if self.min_side is None else [f"min_side {self.min_side}"]
        text = "\n".join([store.fingerprint(), repr(self.transform), *reduced, *self.class_names, *lines])
        return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Tensor, dict[str, Any]]:
        path = self.images.paths[index]
        image = self.transform(self.images.store.read(path, self.min_side))
        return image, {"labels": self.images.target(index), "index": index, "paths": path}
