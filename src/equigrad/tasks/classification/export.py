"""A trained classifier as a model to deploy."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor
from torchvision.transforms import v2  # type: ignore[import-untyped]

from equigrad.models.deployment.classifier import DeployedClassifier
from equigrad.models.deployment.suppression import Suppress
from equigrad.tasks.classification.recipe import ClassificationRecipe
from equigrad.tasks.classification.run import categories_of_run, trained_model
from equigrad.tasks.export.comparison import Difference, score_difference
from equigrad.tasks.export.deployable import Deployable
from equigrad.tasks.export.metadata import metadata


def deployable(
    recipe: ClassificationRecipe, folder: Path, suppress: Suppress, image_size: tuple[int, int] | None
) -> Deployable:
    """The newest weights of a run; `suppress` is for detectors, and the size of images is that of the recipe."""
    if image_size is not None:
        raise ValueError(f"{folder}: --image-size is for segmenters; a classifier has the size of its training")
    names, counts = categories_of_run(recipe, folder)
    model = trained_model(recipe, counts, folder).to(memory_format=torch.contiguous_format)
    transform = recipe.data.evaluation_transform()

    return Deployable(
        model=DeployedClassifier(model).eval(),
        inputs={"images": {0: "batch"}},
        multiples={},
        outputs=("scores",),
        metadata=metadata("classification", names, model, preprocessing=preprocessing_of(transform))
        | {"multi_label": recipe.is_multi_label},
        prepare=lambda image: (transform(image)[None],),
        run=model,
        compare=_compare,
        test_images=partial(_test_images, recipe),
    )


def _compare(expected: Sequence[dict[str, Tensor]], outputs: Sequence[Tensor]) -> Difference:
    return score_difference(torch.stack([each["scores"] for each in expected]), outputs[0])


def preprocessing_of(transform: Any) -> dict[str, Any]:
    """Resize and crop of test images, in pixels: one number is the shorter side, two are height and width."""
    steps: dict[str, Any] = {}
    for step in getattr(transform, "transforms", ()):
        if isinstance(step, v2.Resize):
            steps["resize"] = list(step.size)
            steps["interpolation"] = str(getattr(step.interpolation, "value", step.interpolation))
        elif isinstance(step, v2.CenterCrop):
            steps["centre_crop"] = list(step.size)
    return steps


def _test_images(recipe: ClassificationRecipe) -> list[Callable[[], Image.Image]]:
    images = recipe.data.load()[1].images
    return [partial(images.store.read, path) for path in images.paths]
