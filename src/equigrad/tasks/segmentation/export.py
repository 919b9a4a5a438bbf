"""A trained segmenter as a model to deploy."""

import copy
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import torch
from PIL import Image
from torch import Tensor
from torchvision.transforms.v2 import functional  # type: ignore[import-untyped]

from equigrad.models.deployment.segmenter import DeployedSegmenter
from equigrad.models.deployment.suppression import Suppress
from equigrad.tasks.export.comparison import Difference, label_map_difference
from equigrad.tasks.export.deployable import Deployable, Tensors
from equigrad.tasks.export.metadata import metadata
from equigrad.tasks.segmentation.recipe import SegmentationRecipe
from equigrad.tasks.segmentation.run import categories_of_run, trained_model


def deployable(
    recipe: SegmentationRecipe, folder: Path, suppress: Suppress, image_size: tuple[int, int] | None
) -> Deployable:
    """The newest weights of a run; `suppress` is for detectors. Sliding windows need images of one size."""
    if recipe.window is not None and image_size is None:
        raise ValueError(f"{folder}: the run slides windows, whose number is fixed: add --image-size HEIGHT WIDTH")
    names, counts = categories_of_run(recipe, folder)
    model = trained_model(recipe, counts, folder).to(memory_format=torch.contiguous_format)

    def prepare(image: Image.Image) -> Tensors:
        sized = image if image_size is None else image.resize(image_size[::-1])
        return (functional.pil_to_tensor(sized)[None],)

    size = "any" if image_size is None else list(image_size)
    return Deployable(
        model=DeployedSegmenter(copy.deepcopy(model)).eval(),  # a copy, because its pooling is replaced
        inputs={"images": {0: "batch"} | ({2: "height", 3: "width"} if image_size is None else {})},
        multiples={},
        outputs=("labels", "scores"),
        metadata=metadata("segmentation", names, model, preprocessing={"size": size}),
        prepare=prepare,
        run=model,
        compare=_compare,
        test_images=partial(_test_images, recipe),
        can_fix_size=image_size is None,
    )


def _compare(expected: Sequence[dict[str, Tensor]], outputs: Sequence[Tensor]) -> Difference:
    labels, scores = (torch.stack([each[name] for each in expected]) for name in ("labels", "scores"))
    return label_map_difference(labels, scores, *outputs)


def _test_images(recipe: SegmentationRecipe) -> list[Callable[[], Image.Image]]:
    data = recipe.data.load()[1].data
    return [partial(data.read_image, index) for index in range(len(data))]
