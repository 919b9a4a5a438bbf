"""Features of a frozen backbone, computed once: comparing losses on them takes seconds on a CPU.

train = cache_features(EfficientNetLite0(PACKAGE), dataset, "train_features.pt")
model = build_classifier(Features(train.num_features), train.num_classes, loss, scores)
fit(model, train, epochs=60, seed=0)       # of linear_probe.py
"""

import hashlib
import os
import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol
from zipfile import BadZipFile

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from equigrad.files import atomic_write

Progress = Callable[[int, int], None]  # images done, of how many


class LabelledImages(Protocol):
    """What is asked of a data set; `equigrad.data.images.lists.ImageDataset` offers it."""

    class_names: Sequence[str]

    def __len__(self) -> int: ...
    def __getitem__(self, index: int) -> tuple[Tensor, dict[str, Any]]:
        """An image (3, H, W) and its targets, with "labels" and "paths"."""
        ...

    def fingerprint(self) -> str:
        """Another text for other images, labels or transforms."""
        ...


class FeatureDataset(Dataset[tuple[Tensor, dict[str, Any]]]):
    """Features, labels and names of images, in memory; items are like those of the images."""

    def __init__(
        self, features: Tensor, labels: Tensor, *, class_names: Sequence[str], paths: Sequence[str] | None = None
    ) -> None:
        if features.dim() != 2 or labels.shape != features.shape[:1]:
            shapes = f"{tuple(features.shape)} and {tuple(labels.shape)}"
            raise ValueError(f"features must be (N, D) and labels (N,), got {shapes}")
        if paths is not None and len(paths) != len(labels):
            raise ValueError(f"paths must have {len(labels)} entries, got {len(paths)}")
        self.features = features  # (N, D)
        self.labels = labels  # (N,)
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
        return torch.bincount(self.labels, minlength=self.num_classes)

    def sample_name(self, index: int) -> str:
        """The image a feature comes from."""
        return f"sample {index}" if self.paths is None else self.paths[index]

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, dict[str, Any]]:
        return self.features[index], {"labels": int(self.labels[index]), "index": index}


class Features(nn.Identity):
    """The backbone of a model whose images are features already."""

    def __init__(self, num_features: int) -> None:
        super().__init__()
        self.num_features = num_features


def cache_features(
    backbone: nn.Module,
    dataset: LabelledImages,
    file: str | os.PathLike[str],
    *,
    batch_size: int = 64,
    num_workers: int = 0,
    device: str | torch.device = "cpu",
    progress: Progress | None = None,
) -> FeatureDataset:
    """Features of all images of a data set, from the file if it holds them, else computed and saved there.

    The file holds them if list, transform, weights and normalisation are the same as when it was written; any other
    content is replaced. Use the transform of the test: a random one would be drawn only once.
    """
    file = Path(file)
    fingerprint = _fingerprint(backbone, dataset)
    content = _read(file)
    if content is None or content["fingerprint"] != fingerprint:
        content = {**_compute(backbone, dataset, batch_size, num_workers, device, progress), "fingerprint": fingerprint}
        _save(content, file)
    return FeatureDataset(
        content["features"], content["labels"], class_names=dataset.class_names, paths=content["paths"]
    )


def _compute(
    backbone: nn.Module,
    dataset: LabelledImages,
    batch_size: int,
    num_workers: int,
    device: str | torch.device,
    progress: Progress | None,
) -> dict[str, Any]:
    loader: DataLoader[Any] = DataLoader(dataset, batch_size=batch_size, num_workers=num_workers)  # type: ignore[arg-type]
    features, labels, paths = [], [], []
    was_training = backbone.training
    backbone.to(device).eval()
    try:
        with torch.inference_mode():
            for images, targets in loader:
                features.append(backbone(images.to(device)).float().cpu())
                labels.append(targets["labels"])
                paths += targets["paths"]
                if progress is not None:
                    progress(len(paths), len(dataset))
    finally:
        backbone.train(was_training)
    return {"features": torch.cat(features).clone(), "labels": torch.cat(labels), "paths": paths}


def _fingerprint(backbone: nn.Module, dataset: LabelledImages) -> str:
    digest = hashlib.sha256(f"{dataset.fingerprint()}\n{backbone}\n".encode())
    # Buffers too, and those that are not saved: the normalisation is one of them.
    for name, value in (*backbone.named_parameters(), *backbone.named_buffers()):
        digest.update(name.encode())
        digest.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _read(file: Path) -> dict[str, Any] | None:
    """The content of a cache file, or None for anything else."""
    try:
        content = torch.load(file, weights_only=True)
    except (OSError, pickle.UnpicklingError, RuntimeError, EOFError, BadZipFile, ValueError):
        return None
    is_cache = isinstance(content, dict) and content.keys() == {"fingerprint", "features", "labels", "paths"}
    return content if is_cache else None


def _save(content: dict[str, Any], file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(file) as stream:
        torch.save(content, stream)
