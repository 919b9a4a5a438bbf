"""Semantic segmentation data: images with label maps, and the data set that reads them.

    data = read_ade20k("ADEChallengeData2016", "training")      # or read_label_folders, read_camvid
    dataset = SegmentationDataset(data, train_transform(512))
    loader = DataLoader(dataset, batch_size=16, collate_fn=collate_segmentation)
    images, targets = next(iter(loader))                        # (16, 3, 512, 512) uint8, {"labels": (16, 512, 512)}

Labels are 0 … C-1, or -100 (`equigrad.IGNORE`) for pixels that do not count. The readers are in
`equigrad.data.segmentation.readers`.
"""

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset
from torchvision import tv_tensors  # type: ignore[import-untyped]
from torchvision.transforms.v2 import functional  # type: ignore[import-untyped]

from equigrad.data.images.stores import ImageStore
from equigrad.data.segmentation.label_maps import LabelMap, LabelValues, check_sizes, read_values
from equigrad.data.text_files import text_lines
from equigrad.files import write_atomically

Sample = tuple[Tensor, dict[str, Any]]
Transform = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]  # of image (3, H, W) and labels (H, W)


@dataclass(frozen=True, eq=False)
class SegmentationData:
    """Images and their label maps; pixels are read only when needed."""

    store: ImageStore  # of the images
    label_store: ImageStore
    paths: tuple[str, ...] = field(repr=False)
    label_paths: tuple[str, ...] = field(repr=False)
    names: tuple[str, ...] = field(repr=False)  # of images in lists: the path without folder of images and suffix
    class_names: tuple[str, ...] = field(repr=False)
    values: LabelValues = field(repr=False)
    source: str  # the folder or list, for messages

    def __len__(self) -> int:
        return len(self.paths)

    @property
    def num_classes(self) -> int:
        """C, the number of categories."""
        return len(self.class_names)

    def read_image(self, index: int, stated: tuple[int, int] | None = None) -> Image.Image:
        """Decode an image to RGB; OSError names the file. `stated` is the height and width of its label map."""
        return self.store.read(self.paths[index], stated=stated)

    def read_labels(self, index: int) -> LabelMap:
        """The label of every pixel, (H, W); ValueError or OSError names the file."""
        path = self.label_paths[index]
        return self.values.to_categories(read_values(self.label_store, path), self.label_store.name(path))

    def image_name(self, index: int) -> str:
        """The name of an image in messages."""
        return self.store.name(self.paths[index])

    def label_name(self, index: int) -> str:
        """The name of a label map in messages."""
        return self.label_store.name(self.label_paths[index])

    def subset(self, indices: NDArray[np.int64] | Sequence[int]) -> "SegmentationData":
        """Some of the images, in the given order; all categories stay."""
        chosen = np.asarray(indices, dtype=np.int64).tolist()
        columns = (self.paths, self.label_paths, self.names)
        paths, label_paths, names = (tuple(column[index] for index in chosen) for column in columns)
        return replace(self, paths=paths, label_paths=label_paths, names=names)

    def listed(self, file: str | os.PathLike[str]) -> "SegmentationData":
        """The images of a list with one name on each line (such as `ade20k_lt_train.txt`), in its order."""
        file = Path(file)
        if not file.is_file():
            raise FileNotFoundError(f"{file}: no such list of images; expected one name on each line")
        index_of = {name: index for index, name in enumerate(self.names)}
        chosen = []
        for number, line in enumerate(text_lines(file), start=1):
            # Names are only looked up, so a list cannot name files outside the data's folder.
            name = line.strip()
            if name and name not in index_of:
                raise ValueError(f"{file}, line {number}: {self.source} has no image named {name!r:.100}")
            if name:
                chosen.append(index_of[name])
        if not chosen:
            raise ValueError(f"{file}: expected the name of an image on each line, found none")
        return replace(self.subset(chosen), source=str(file))

    def write_list(self, file: str | os.PathLike[str]) -> Path:
        """Write the names of the images, one on each line; the file appears complete or not at all."""
        file = Path(file)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, "".join(f"{name}\n" for name in self.names).encode())
        return file

    def fingerprint(self) -> str:
        """A digest that changes with images, label maps (by file size) and categories."""
        sizes = (f"{path} {self.label_store.size(path)}" for path in self.label_paths)
        stores = (self.store.fingerprint(), self.label_store.fingerprint(), repr(self.values))
        text = "\n".join([*stores, *self.class_names, *self.paths, *sizes])
        return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


class SegmentationDataset(Dataset[Sample]):
    """Images with their labels: `(image (3, H, W) uint8, {"labels": (H, W), "path", "original_size"})`.

    Args:
        data: images and label maps.
        transform: changes image and labels together; see `equigrad.data.segmentation.transforms`.
    """

    def __init__(self, data: SegmentationData, transform: Transform) -> None:
        self.data = data
        self.transform = transform
        self.class_names = data.class_names

    def sample_name(self, index: int) -> str:
        """The file of an image."""
        return self.data.image_name(index)

    def fingerprint(self) -> str:
        """A digest that changes with data and transform (as far as its `repr` shows its settings)."""
        return hashlib.sha256(f"{self.data.fingerprint()} {self.transform!r}".encode()).hexdigest()

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> Sample:
        label_map = self.data.read_labels(index)
        picture = self.data.read_image(index, label_map.shape)
        size = (picture.height, picture.width)
        check_sizes(self.data.image_name(index), size, self.data.label_name(index), label_map.shape)
        image = tv_tensors.Image(functional.pil_to_tensor(picture))
        # int16 holds all labels and IGNORE, so transforms need no special value for ignored pixels.
        image, labels = self.transform(image, tv_tensors.Mask(torch.from_numpy(label_map)))
        targets = {"labels": tv_tensors.Mask(labels.long()), "path": self.data.paths[index], "original_size": size}
        return image, targets


def collate_segmentation(samples: Sequence[Sample]) -> tuple[Tensor, dict[str, Any]]:
    """Make a batch: images (N, 3, H, W) and `labels` (N, H, W); `paths` and `original_sizes` are lists.

    All images must have the same size, and so must all labels; the two sizes may differ.
    """
    images = [image for image, _ in samples]
    labels = [targets["labels"] for _, targets in samples]
    for kind, tensors in (("images", images), ("labels", labels)):
        sizes = sorted({tuple(tensor.shape[-2:]) for tensor in tensors})
        if len(sizes) > 1:
            raise ValueError(f"{kind} of a batch must have one size, got {sizes[0]} and {sizes[-1]}; use batch size 1")
    return torch.stack(images).as_subclass(Tensor), {
        "labels": torch.stack(labels).as_subclass(Tensor),
        "paths": [targets["path"] for _, targets in samples],
        "original_sizes": [targets["original_size"] for _, targets in samples],
    }


def stem(path: str) -> str:
    """A path without its suffix, by which images and label maps are matched."""
    return str(PurePosixPath(path).with_suffix(""))
