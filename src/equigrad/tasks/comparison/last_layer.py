"""A classifier's last layer trained on frozen features: each method with each seed takes seconds on a CPU."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import torch
from torch import nn

import equigrad
from equigrad.data.feature_cache import FeatureDataset, Features, cache_features
from equigrad.data.images.dataset import ImageDataset
from equigrad.engine.distributed import best_accelerator
from equigrad.evaluation.classification import ClassificationEvaluator
from equigrad.evaluation.multi_label import MultiLabelEvaluator
from equigrad.models.classification.classifier import Classifier, build_classifier
from equigrad.tasks.classification.linear_probe import fit, predict
from equigrad.tasks.classification.recipe import ClassificationRecipe
from equigrad.tasks.classification.run import build_sampler
from equigrad.tasks.losses import CategoryCounts
from equigrad.tasks.progress import ProgressLine
from equigrad.tasks.results import EvaluationResult


@dataclass(frozen=True)
class LastLayer:
    """How the last layer is trained: SGD with a cosine schedule.

    Args:
        epochs: how long.
        batch_size: samples of one step.
        lr: base learning rate.
        momentum: momentum of SGD.
        weight_decay: weight decay of all parameters.
    """

    epochs: int = 60
    batch_size: int = 128
    lr: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 5e-4

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "lr"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be above 0, got {getattr(self, name)}")


class FrozenFeatures:
    """The features of training and test images, and the last layers that methods train on them.

    Args:
        recipes: of the methods and those that they start from, by name. Data and backbone of the first are used.
        first_stages: the name of the recipe that a method with two stages starts from.
        settings: settings of the training.
        folder: for the features, which are computed once.
    """

    def __init__(
        self,
        recipes: Mapping[str, ClassificationRecipe],
        first_stages: Mapping[str, str],
        settings: LastLayer,
        folder: Path,
    ) -> None:
        self.recipes, self.first_stages, self.settings = recipes, first_stages, settings
        recipe = next(iter(recipes.values()))
        sets = recipe.data.load()
        if len(sets[0].class_names) < 2:
            raise ValueError(f"{sets[0].images.source}: expected two categories or more, got {sets[0].class_names[0]}")
        torch.manual_seed(0)  # the same random backbone each time, if it has no weights
        backbone, transform = recipe.backbone.build(), recipe.data.evaluation_transform()
        self.train, self.test = (
            cache_features(
                backbone,
                ImageDataset(images.images, transform),
                folder,
                batch_size=16,  # larger ones are not faster on a CPU and take gigabytes
                num_workers=recipe.training.num_workers,
                device=recipe.device if recipe.device != "auto" else best_accelerator(),
                progress=ProgressLine(f"features of {name} images", seconds=10),
            )
            for name, images in zip(("training", "test"), sets, strict=True)
        )

    def measure(self, name: str, seed: int) -> EvaluationResult:
        """Train a method's last layer and test it."""
        kind = MultiLabelEvaluator if self.recipes[name].is_multi_label else ClassificationEvaluator
        evaluator = kind(self.train.category_counts, self.train.class_names)
        evaluator.add(predict(self._trained(name, seed), self.test), {"labels": self.test.labels})
        return EvaluationResult(evaluator.result(), evaluator.per_category())

    @cache  # noqa: B019 (first stages are trained once; the features live as long as the comparison)
    def _trained(self, name: str, seed: int) -> Classifier:
        recipe, start = self.recipes[name], self.first_stages.get(name)
        recipe = replace(recipe, training=replace(recipe.training, seed=seed))
        first = None if start is None else copy.deepcopy(self._trained(start, seed))
        return train_last_layer(recipe, self.train, self.settings, first)


def train_last_layer(
    recipe: ClassificationRecipe, data: FeatureDataset, settings: LastLayer, first: Classifier | None = None
) -> Classifier:
    """The last layer of a method, trained on features.

    Args:
        recipe: its method and seed are used.
        data: features and labels.
        settings: settings of the training.
        first: the finished model that a second stage changes, or a distillation learns from.
    """
    method, counts = recipe.method, CategoryCounts(data.category_counts.numpy(), data.category_counts.numpy())
    torch.manual_seed(recipe.training.seed)
    model = build_classifier(
        Features(data.num_features),
        data.num_classes,
        method.loss.build(counts),
        method.scores.build(counts),
        cosine_temperature=method.cosine_temperature,
        bias_prior=method.bias_prior,
    )
    if first is not None and method.distils:
        model.teacher = equigrad.FrozenTeacher(nn.Sequential(first.backbone, first.classifier))
    elif first is not None and method.second_stage is not None:
        model.classifier = first.classifier
        method.second_stage.change(model)
    sampler = None if method.sampler == "random" else build_sampler(recipe, data)
    fit(model, data, seed=recipe.training.seed, sampler=sampler, **vars(settings))
    return model
