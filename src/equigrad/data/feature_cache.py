"""Features of a frozen backbone, computed once and kept on disk: an epoch then takes seconds on a CPU.

    train = cache_features(EfficientNetLite0(PACKAGE), dataset, "features")
    features, targets = train[0]                        # (D,), {"labels": 3, …}

A data set has a `.npy` file in the folder, which is mapped into memory. Its name is a digest of images, transform and
weights, so that other data, sizes or weights have other files. It is written part by part: an interrupted computation
goes on with the next part.
"""

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, Subset

from equigrad.files import atomic_write

Progress = Callable[[int, int], None]  # images done, of how many
Rows = NDArray[np.float32]  # (N, D)

_PART = 256  # images that are computed before they are kept


class LabelledImages(Protocol):
    """What `cache_features` needs of a data set, such as `equigrad.data.images.dataset.ImageDataset`."""

    @property
    def class_names(self) -> Sequence[str]:
        """C names."""
        ...

    @property
    def labels(self) -> NDArray[np.int64]:
        """The label of every image, (N,)."""
        ...

    @property
    def paths(self) -> Sequence[str]:
        """The path of every image."""
        ...

    def __len__(self) -> int: ...
    def __getitem__(self, index: int) -> tuple[Tensor, dict[str, Any]]:
        """An image (3, H, W) and its targets."""
        ...

    def fingerprint(self) -> str:
        """Another text for other images, labels or transforms."""
        ...


class FeatureDataset(Dataset[tuple[Tensor, dict[str, Any]]]):
    """Features, labels and names of images; items are like those of the images."""

    def __init__(
        self, features: Tensor, labels: Tensor, *, class_names: Sequence[str], paths: Sequence[str] | None = None
    ) -> None:
        if features.dim() != 2 or labels.dim() not in (1, 2) or len(labels) != len(features):
            shapes = f"{tuple(features.shape)} and {tuple(labels.shape)}"
            raise ValueError(f"features must be (N, D) and labels (N,) or (N, C), got {shapes}")
        if paths is not None and len(paths) != len(labels):
            raise ValueError(f"paths must have {len(labels)} entries, got {len(paths)}")
        self.features = features  # (N, D)
        self.labels = labels  # (N,), or (N, C) of 0 and 1
        self.class_names = tuple(class_names)
        self.paths = paths

    @property
    def num_features(self) -> int:
        """D."""
        return self.features.shape[1]

    @property
    def num_classes(self) -> int:
        """C."""
        return len(self.class_names)

    @property
    def category_counts(self) -> Tensor:
        """Samples of each category, (C,) int64."""
        return self.labels.sum(0) if self.labels.dim() == 2 else torch.bincount(self.labels, minlength=self.num_classes)

    def subset(self, indices: Tensor) -> "FeatureDataset":
        """Some of the samples, in the given order; all categories stay."""
        paths = None if self.paths is None else [self.paths[index] for index in indices.tolist()]
        return FeatureDataset(self.features[indices], self.labels[indices], class_names=self.class_names, paths=paths)

    def sample_name(self, index: int) -> str:
        """The image a feature comes from."""
        return f"sample {index}" if self.paths is None else self.paths[index]

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, dict[str, Any]]:
        label = self.labels[index]
        targets = {
            "labels": label.float() if label.dim() else int(label),
            "index": index,
            "paths": self.sample_name(index),
        }
        return self.features[index], targets


class Features(nn.Identity):
    """The backbone of a model whose images are features already."""

    def __init__(self, num_features: int) -> None:
        super().__init__()
        self.num_features = num_features


def cache_features(
    backbone: nn.Module,
    dataset: LabelledImages,
    folder: str | os.PathLike[str],
    *,
    batch_size: int = 16,  # with larger batches, a CPU spends half its time on allocating memory
    num_workers: int = 0,
    device: str | torch.device = "cpu",
    progress: Progress | None = None,
) -> FeatureDataset:
    """Features of all images of a data set, from the folder if it has them, else computed and kept there.

    Use the transform of the test: a random one would be drawn only once.
    """
    file = Path(folder, f"{_fingerprint(backbone, dataset)}.npy")
    features = _mapped(file, len(dataset))
    if features is None:
        file.parent.mkdir(parents=True, exist_ok=True)
        parts = _compute(backbone, dataset, file, batch_size, num_workers, device, progress)
        features = _joined(parts, file, len(dataset))
    labels = torch.as_tensor(dataset.labels)
    return FeatureDataset(torch.from_numpy(features), labels, class_names=dataset.class_names, paths=dataset.paths)


@torch.inference_mode()
def _compute(
    backbone: nn.Module,
    dataset: LabelledImages,
    file: Path,
    batch_size: int,
    num_workers: int,
    device: str | torch.device,
    progress: Progress | None,
) -> list[Path]:
    """The files of all parts; those that an earlier process left are not computed again."""
    parts = []
    was_training = backbone.training
    backbone.to(device).eval()
    try:
        for first in range(0, len(dataset), _PART):
            indices = range(first, min(first + _PART, len(dataset)))
            parts.append(file.with_suffix(f".{first}.npy"))
            if _mapped(parts[-1], len(indices)) is None:
                images: Any = Subset(dataset, indices)  # type: ignore[arg-type]
                loader: DataLoader[Any] = DataLoader(images, batch_size, num_workers=num_workers)
                rows = [backbone(batch.to(device)).float().cpu().numpy() for batch, _ in loader]
                with atomic_write(parts[-1]) as stream:
                    np.save(stream, np.concatenate(rows))
            if progress is not None:
                progress(indices.stop, len(dataset))
    finally:
        backbone.train(was_training)
    return parts


def _joined(parts: Sequence[Path], file: Path, num_images: int) -> Rows:
    """One file of all parts, which are removed."""
    with atomic_write(file) as stream:
        for number, part in enumerate(parts):
            rows = np.load(part, mmap_mode="r", allow_pickle=False)
            if number == 0:
                layout = np.lib.format.header_data_from_array_1_0(rows)
                np.lib.format.write_array_header_1_0(stream, {**layout, "shape": (num_images, rows.shape[1])})
            stream.write(rows.tobytes())
    for part in parts:
        part.unlink(missing_ok=True)
    features = _mapped(file, num_images)
    assert features is not None
    return features


def _mapped(file: Path, num_images: int) -> Rows | None:
    """The features in a file without reading them into memory; None if it is not there, or damaged."""
    try:
        # Copy on write: changes of the array do not change the file.
        features = np.lib.format.open_memmap(file, mode="c")
    except (OSError, ValueError):
        return None
    is_whole = features.ndim == 2 and len(features) == num_images and features.dtype == np.float32
    return features if is_whole else None


def _fingerprint(backbone: nn.Module, dataset: LabelledImages) -> str:
    digest = hashlib.sha256(f"{dataset.fingerprint()}\n{backbone}\n".encode())
    # Buffers too, even those that are not saved, such as the normalisation.
    for name, value in (*backbone.named_parameters(), *backbone.named_buffers()):
        digest.update(name.encode())
        digest.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
