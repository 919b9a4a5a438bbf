"""A trained detector as a model to deploy."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor, nn
from torchvision import tv_tensors  # type: ignore[import-untyped]
from torchvision.transforms.v2 import functional  # type: ignore[import-untyped]

from equigrad.models.deployment.dense_detector import DeployedDenseDetector
from equigrad.models.deployment.rcnn import DeployedRCNN
from equigrad.models.deployment.suppression import Suppress
from equigrad.models.detection.one_stage.detector import DenseDetector
from equigrad.models.detection.two_stage.rcnn import RCNN
from equigrad.tasks.detection.preprocessing import Mosaics, Preprocessing, ShorterSide
from equigrad.tasks.detection.recipe import DetectionRecipe
from equigrad.tasks.detection.run import categories_of_run, stored_sets, trained_model
from equigrad.tasks.export.comparison import Difference, detection_difference, largest
from equigrad.tasks.export.deployable import Deployable, Tensors
from equigrad.tasks.export.metadata import metadata

STRIDE = 32  # of batches of mosaics
FIELDS = ("boxes", "scores", "labels", "masks")


def deployable(
    recipe: DetectionRecipe, folder: Path, suppress: Suppress, image_size: tuple[int, int] | None
) -> Deployable:
    """The newest weights of a run; images may have any size that is padded to the stride."""
    if image_size is not None:
        raise ValueError(f"{folder}: --image-size is for segmenters; a detector takes images of any size")
    categories = categories_of_run(recipe, folder)
    model = trained_model(recipe, categories, folder).to(memory_format=torch.contiguous_format)
    preprocessing = recipe.preprocessing
    multiple = preprocessing.stride if isinstance(preprocessing, ShorterSide) else STRIDE
    return Deployable(
        model=_deployed(model, len(categories), suppress).eval(),
        inputs={"images": {0: "batch", 2: "height", 3: "width"}, "image_sizes": {0: "batch"}},
        multiples={"height": multiple, "width": multiple},
        outputs=FIELDS if recipe.with_masks else FIELDS[:3],
        metadata=metadata(
            "detection", categories.names, model, preprocessing=_description(preprocessing) | {"multiple_of": multiple}
        ),
        prepare=partial(_prepared, preprocessing),
        run=partial(_run, model),
        compare=_compare,
        test_images=partial(_test_images, recipe),
    )


def _deployed(model: nn.Module, num_classes: int, suppress: Suppress) -> nn.Module:
    if isinstance(model, DenseDetector):
        return DeployedDenseDetector(model, num_classes, suppress)
    assert isinstance(model, RCNN)
    return DeployedRCNN(model, suppress)


def _prepared(preprocessing: Preprocessing, image: Image.Image) -> Tensors:
    """A test image as the detector sees it, and its size without padding."""
    boxes = tv_tensors.BoundingBoxes(torch.zeros(0, 4), format="XYXY", canvas_size=(image.height, image.width))
    nothing = {"boxes": boxes, "labels": torch.zeros(0, dtype=torch.int64)}
    item = preprocessing.testing()(functional.to_image(image), nothing)
    images, targets = preprocessing.collate()([item])
    return images, torch.tensor([targets[0]["image_size"]])


def _run(model: nn.Module, images: Tensor, image_sizes: Tensor) -> list[dict[str, Tensor]]:
    found: list[dict[str, Tensor]] = model(images, [{"image_size": tuple(size)} for size in image_sizes.tolist()])
    return found


def _compare(expected: Sequence[dict[str, Tensor]], outputs: Sequence[Tensor]) -> Difference:
    """Image by image; rows with label -1 are empty."""
    differences = []
    for index, one in enumerate(expected):
        found = {name: output[index] for name, output in zip(FIELDS, outputs, strict=False)}
        is_object = found["labels"] >= 0
        differences.append(detection_difference(one, {name: rows[is_object] for name, rows in found.items()}))
    return largest(differences)


def _description(preprocessing: Preprocessing) -> dict[str, Any]:
    if isinstance(preprocessing, Mosaics):
        return {"longer_side": preprocessing.size, "pad_to": [preprocessing.size] * 2}
    return {"shorter_side": preprocessing.test_short, "longer_side_at_most": preprocessing.long}


def _test_images(recipe: DetectionRecipe) -> list[Callable[[], Image.Image]]:
    test_set = stored_sets(recipe).test
    return [partial(test_set.store.read, path) for path in test_set.paths]
