"""Short runs of four kinds of data whose logits are recorded at every step, for `indicators.py`."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import equigrad
from equigrad.data.feature_cache import FeatureDataset, Features, cache_features
from equigrad.data.frequency import load_frequencies
from equigrad.data.images.dataset import ImageDataset
from equigrad.data.images.transforms import whole_image_transform
from equigrad.engine import Cosine, Schedule, Training, Warmup, launch
from equigrad.evaluation.classification import ClassificationEvaluator
from equigrad.models.backbones.efficientnet_lite import PACKAGE, EfficientNetLite0
from equigrad.models.classification.classifier import build_classifier
from equigrad.recipes import glyph_objects, tiny
from equigrad.recipes.methods.classification import METHODS
from equigrad.tasks.categories import TrainedCategories
from equigrad.tasks.classification import run as classification_run
from equigrad.tasks.classification.data import OwnImages
from equigrad.tasks.classification.linear_probe import fit, predict
from equigrad.tasks.detection import run as detection_run
from equigrad.tasks.losses import CategoryCounts

Floats = NDArray[np.float64]
SOFTMAX = ("ce", "softmax_eql")


@dataclass(frozen=True, eq=False)
class WatchedRun:
    """What was recorded: (T, C) sums of each step by name, and (C,) accuracy or AP, training counts, weight norms."""

    steps: dict[str, Floats]
    accuracy: Floats
    counts: Floats
    weight_norms: Floats
    steps_per_epoch: int


class Recorder:
    """Keeps, for each step and category, sums over its samples, and both gradients."""

    def __init__(self, loss: nn.Module, num_classes: int, method: str) -> None:
        self.num_classes, self.is_softmax = num_classes, method in SOFTMAX
        self.rows: list[dict[str, Tensor]] = []
        watched = loss.loss if isinstance(loss, equigrad.WithObjectness) else loss
        assert isinstance(watched, nn.Module)
        watched.register_forward_pre_hook(self._record)

    def _record(self, loss: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        logits, labels = inputs[:2]
        if not (loss.training and logits.requires_grad):
            return
        has_category = (labels >= 0) & (labels < self.num_classes)
        own_labels, values = labels[has_category], logits.detach()[has_category].double()
        own = values.gather(1, own_labels[:, None])[:, 0]
        probabilities = values.softmax(1) if self.is_softmax else values.sigmoid()
        rival = values.scatter(1, own_labels[:, None], -torch.inf).amax(1)

        def by_category(numbers: Tensor) -> Tensor:
            return torch.zeros(self.num_classes, dtype=torch.float64).index_add_(0, own_labels, numbers)

        row = {
            "seen": by_category(torch.ones_like(own)),
            "own": by_category(probabilities.gather(1, own_labels[:, None])[:, 0]),
            "margin": by_category(own - rival),
            "win": by_category((own > rival).double()),
        }
        self.rows.append(row)

        def gradients(gradient: Tensor) -> None:
            sizes = gradient.double().abs()
            row["pos"] = by_category(sizes[has_category].gather(1, own_labels[:, None])[:, 0])
            row["neg"] = sizes[:, : self.num_classes].sum(0) - row["pos"]

        logits.register_hook(gradients)

    def run(self, accuracy: Floats, counts: Any, weight: Tensor, steps_per_epoch: int) -> WatchedRun:
        """What was recorded, with what came out."""
        steps = {name: torch.stack([row[name] for row in self.rows]).numpy() for name in self.rows[0]}
        norms = weight.detach().norm(dim=1)[: self.num_classes].numpy()
        return WatchedRun(steps, accuracy, np.asarray(counts, dtype=np.float64), norms, steps_per_epoch)


def glyphs(method: str, seed: int = 0) -> WatchedRun:
    """The recipes of the demo: 40 categories, 300 down to 3 images."""
    recipe = getattr(tiny, method)()
    recipe = replace(recipe, data=replace(recipe.data, seed=seed))
    fabric = launch(seed=seed)
    train, test = recipe.data.load()
    model = classification_run.build_model(recipe, train.category_counts, train.class_names)
    recorder = Recorder(model.classification_loss, len(train.class_names), method)
    sampler = classification_run.build_sampler(recipe, train)
    with (
        tempfile.TemporaryDirectory() as folder,
        Training(fabric, model, train, sampler, recipe.training, Path(folder, "run"), evaluates=False) as training,
    ):
        training.run_to_evaluation()
        with training.evaluation_model() as evaluated:
            result = classification_run.evaluate_model(recipe, evaluated, train, test)
    accuracy = np.array([row.accuracy for row in result.categories])
    return recorder.run(accuracy, train.category_counts, model.classifier.weight, training.steps_per_epoch)


def frozen(method: str, source: OwnImages, epochs: int = 60) -> WatchedRun:
    """A linear layer on features of a frozen EfficientNet-Lite0."""
    train, test = _features(source)
    counts, settings = train.category_counts.numpy(), METHODS[method][1]  # type: ignore[index]
    torch.manual_seed(0)
    category_counts = CategoryCounts(counts, counts)
    model = build_classifier(
        Features(train.num_features),
        train.num_classes,
        settings.loss.build(category_counts),
        settings.scores.build(category_counts),
        bias_prior=None if settings.bias_prior is None else 0.01,
    )
    recorder = Recorder(model.classification_loss, train.num_classes, method)
    fit(model, train, epochs=epochs)
    evaluator = ClassificationEvaluator(train.category_counts, test.class_names)
    evaluator.add(predict(model, test), {"labels": test.labels})
    accuracy = np.array([row.accuracy for row in evaluator.per_category()])
    return recorder.run(accuracy, counts, model.classifier.weight, len(recorder.rows) // epochs)


@cache
def _features(source: OwnImages) -> list[FeatureDataset]:
    backbone, cached = EfficientNetLite0(PACKAGE), Path("comparison", "features")
    whole = [ImageDataset(images.images, whole_image_transform()) for images in source.load()]
    return [cache_features(backbone, images, cached, batch_size=16) for images in whole]


def lvis_counts(method: str, num_steps: int = 400, seed: int = 0) -> WatchedRun:
    """A linear layer on Gaussian clouds with the instance counts of LVIS v1: 1,203 categories."""
    frequencies = torch.as_tensor(load_frequencies("lvis_v1").instance_counts).double()
    num_classes = len(frequencies)
    torch.manual_seed(seed)
    centres = 0.3 * torch.randn(num_classes, 128)
    criterion = METHODS[method][1].loss.build(CategoryCounts(*(frequencies.long().numpy(),) * 2))  # type: ignore[index]
    classifier = nn.Linear(128, num_classes)
    if method not in SOFTMAX:
        nn.init.constant_(classifier.bias, equigrad.bias_for_prior(0.001))
    optimizer = torch.optim.SGD(classifier.parameters(), lr=2.0, momentum=0.9)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, num_steps)
    recorder = Recorder(criterion, num_classes, method)
    for _ in range(num_steps):
        labels = torch.multinomial(frequencies, 512, replacement=True)
        optimizer.zero_grad()
        criterion(classifier(centres[labels] + torch.randn(512, 128)), labels).backward()
        optimizer.step()
        schedule.step()
    torch.manual_seed(seed + 1)
    labels = torch.arange(num_classes)
    with torch.no_grad():
        won = [classifier(centres + torch.randn(num_classes, 128)).argmax(1) == labels for _ in range(10)]
    accuracy = torch.stack(won).double().mean(0).numpy()
    return recorder.run(accuracy, frequencies, classifier.weight, num_steps)


def detection(method: str, folder: Path, num_steps: int = 500) -> WatchedRun:
    """Faster R-CNN on glyph scenes with LVIS's tail: 40 categories, AP of boxes."""
    recipe = glyph_objects.mask_rcnn(method)  # type: ignore[arg-type]
    schedule = Schedule(epochs=None, steps=num_steps, decay=Cosine(), warmup=Warmup(50))
    recipe = replace(
        recipe,
        data=replace(recipe.data, root=folder / "glyph_objects", num_classes=40, max_count=300),  # type: ignore[arg-type]
        detector=replace(recipe.detector, with_masks=False),  # type: ignore[call-arg]
        training=replace(recipe.training, num_workers=0, batch_size=8, schedule=schedule),
    )
    fabric = launch(seed=0)
    sets = recipe.data.load(with_masks=False)
    categories = TrainedCategories.of(sets.train.data)
    model: Any = detection_run.build_model(recipe, categories)
    (loss,) = (part for path, part in model.named_modules() if path.endswith("classification_loss"))
    (layer,) = (part for path, part in model.named_modules() if path.endswith("cls_score"))
    recorder = Recorder(loss, len(categories), method)
    sampler = detection_run.build_sampler(recipe, sets.train)
    data: Any = recipe.preprocessing.training(sets.train)
    options: dict[str, Any] = {"evaluates": False, "collate": recipe.preprocessing.collate()}
    with (
        tempfile.TemporaryDirectory() as place,
        Training(fabric, model, data, sampler, recipe.training, Path(place, "run"), **options) as training,
    ):
        training.run_to_evaluation()
        with training.evaluation_model() as evaluated:
            result = detection_run.evaluate_model(recipe, evaluated, sets, Path(place, "predictions"))
    accuracy = np.array([row.AP for row in result.categories])
    return recorder.run(accuracy, categories.counts.instances, layer.weight, training.steps_per_epoch)


def data_sets(caltech: Path | None, omniglot: Path | None, folder: Path) -> dict[str, Callable[[str], WatchedRun]]:
    """What is trained, from the name of a method to a run; photographs and drawings if their folders are given."""
    found: dict[str, Callable[[str], WatchedRun]] = {
        "glyphs": glyphs,
        "LVIS counts": lvis_counts,
        "detection": partial(detection, folder=folder),
        "glyphs, seed 1": partial(glyphs, seed=1),
        "LVIS counts, seed 1": partial(lvis_counts, seed=1),
    }
    if caltech is not None:  # 101 categories, 200 down to 2 images
        lists = OwnImages(caltech / "train_lt100.txt", caltech / "test.txt", caltech / "images.zip")
        found["Caltech-101-LT"] = partial(frozen, source=lists)
    if omniglot is not None:
        found["Omniglot"] = partial(frozen, source=OwnImages(omniglot / "train", omniglot / "test"))
    return found
