"""From a run to a file that was compared with it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from PIL import Image

from equigrad.data.images.folders import image_files
from equigrad.data.images.stores import read_image
from equigrad.engine import EngineError
from equigrad.files import write_atomically
from equigrad.models.deployment.suppression import Suppress
from equigrad.tasks.classification.export import deployable as classification
from equigrad.tasks.classification.recipe import ClassificationRecipe
from equigrad.tasks.detection.export import deployable as detection
from equigrad.tasks.detection.recipe import DetectionRecipe
from equigrad.tasks.export.comparison import OTHERS, Difference, largest
from equigrad.tasks.export.deployable import Deployable, Tensors
from equigrad.tasks.export.formats import FORMATS, Run
from equigrad.tasks.run_folder import Recipe
from equigrad.tasks.segmentation.export import deployable as segmentation
from equigrad.tasks.segmentation.recipe import SegmentationRecipe

Item = TypeVar("Item")

NUM_IMAGES = 8
"""That the file is compared on."""

LONGEST_REASON = 100
"""Characters of a message of torch that are shown."""

_DEPLOYABLES: dict[type[Any], Callable[..., Deployable]] = {
    ClassificationRecipe: classification,
    DetectionRecipe: detection,
    SegmentationRecipe: segmentation,
}


@dataclass(frozen=True)
class Exported:
    """A file, and how it was checked.

    Args:
        file: where it is.
        num_bytes: its size.
        images: what it was compared on, in words.
        difference: from the run.
    """

    file: Path
    num_bytes: int
    images: str
    difference: Difference


def export(
    recipe: Recipe,
    folder: Path,
    file_format: str,
    *,
    file: Path | None = None,
    images: Path | None = None,
    image_size: tuple[int, int] | None = None,
    force: bool = False,
) -> Exported:
    """Write the model of a run, unless it gives something else than the run.

    Args:
        recipe: settings of the run.
        folder: the run folder.
        file_format: one of FORMATS.
        file: where to; None is `model` in the folder of the run.
        images: a folder, or an image, to compare on; None takes test images of the run, or else generated ones.
        image_size: height and width that images are to have, for segmenters; None is any.
        force: replace a file that is there already.

    Raises:
        FileExistsError: the file is there already.
        EngineError: the file would differ from the run; nothing is written.
    """
    kind = FORMATS[file_format]
    target = file or folder / f"model{kind.suffix}"
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{target.parent}: no such folder for the exported file")
    if target.exists() and not force:
        raise FileExistsError(f"{target}: exists already; --force replaces it, --output FILE writes elsewhere")
    deployable = deployable_of(recipe, folder, kind.suppress(), image_size)
    described, chosen = chosen_images(deployable, images)
    inputs = inputs_of(deployable, chosen)
    content, run = _written(deployable, file_format, inputs[-1])
    difference = compare(deployable, run, inputs)
    if not difference.is_tolerated:
        limits = ", ".join(f"{name} {limit:g}" for name, limit in difference.tolerated.items())
        raise EngineError(
            f"{target}: not written, it differs from the run: {difference}; tolerated are {limits}"
            f"{_by_chance(difference)}"
        )
    write_atomically(target, content)
    return Exported(target, len(content), described, difference)


def _written(deployable: Deployable, file_format: str, inputs: Tensors) -> tuple[bytes, Run]:
    """The file, and what runs it."""
    kind = FORMATS[file_format]
    try:
        content = kind.write(deployable, inputs)
        return content, kind.load(content)
    except Exception as error:  # torch refuses with errors of many kinds
        raise EngineError(
            f"not written: torch cannot export this model as {file_format}: {_shortly(error)}; {_remedy(deployable)}"
        ) from error


def deployable_of(
    recipe: Recipe, folder: Path, suppress: Suppress, image_size: tuple[int, int] | None = None
) -> Deployable:
    """What is exported of a run; see `export`."""
    return _DEPLOYABLES[type(recipe)](recipe, folder, suppress, image_size)


def inputs_of(deployable: Deployable, images: Sequence[Image.Image]) -> list[Tensors]:
    """Inputs for each image, for one of another shape, and last a batch of two, which the export is traced with."""
    inputs = [deployable.prepare(image) for image in (*images, _upper_part(images[0]))]
    return [*inputs, tuple(torch.cat([each, each]) for each in inputs[0])]


@torch.no_grad()
def compare(deployable: Deployable, run: Run, inputs: Sequence[Tensors]) -> Difference:
    """The largest differences between an exported file and its run."""
    return largest([deployable.compare(deployable.run(*each), _outputs(deployable, run, each)) for each in inputs])


def _outputs(deployable: Deployable, run: Run, inputs: Tensors) -> Sequence[torch.Tensor]:
    try:
        return run(inputs)
    except Exception as error:  # of any runtime; in torch_export, guards of a size that was taken for a constant
        height, width = inputs[0].shape[-2:]
        raise EngineError(
            f"not written: the file fails on images of {height} x {width}: {_shortly(error)}; {_remedy(deployable)}"
        ) from error


def _shortly(error: Exception) -> str:
    """The beginning of a message that may have many lines."""
    words = " ".join(str(error).split()) or type(error).__name__
    return words if len(words) <= LONGEST_REASON else f"{words[:LONGEST_REASON]}…"


def _by_chance(difference: Difference) -> str:
    """What to do if nothing but the choice among equal boxes differs."""
    if difference.exceeded != {OTHERS}:
        return ""
    return (
        "; of boxes with equal scores another may survive, as after a short training or on plain backgrounds: compare "
        "on photographs with --images FOLDER, or train longer"
    )


def _remedy(deployable: Deployable) -> str:
    fixed = "add --image-size HEIGHT WIDTH for images of one size, or " if deployable.can_fix_size else ""
    return f"{fixed}take another --format"


def chosen_images(deployable: Deployable, folder: Path | None = None) -> tuple[str, list[Image.Image]]:
    """What is compared on, in words, and the images."""
    if folder is not None:
        chosen = _spread(image_files(folder))
        return f"{_counted(len(chosen))} of {folder}", [read_image(each) for each in chosen]
    try:
        readers = _spread(deployable.test_images())
        return f"{_counted(len(readers))} of the test set", [read() for read in readers]
    except (ValueError, OSError):  # the data are elsewhere: the run folder is enough to export
        return f"{_counted(NUM_IMAGES)} of noise, because the test set is not there", _generated()


def _spread(items: Sequence[Item]) -> list[Item]:
    """A few items from all over a sequence."""
    return [items[index] for index in np.linspace(0, len(items) - 1, min(NUM_IMAGES, len(items))).astype(int)]


def _upper_part(image: Image.Image) -> Image.Image:
    return image.crop((0, 0, image.width, max(1, 2 * image.height // 3)))


def _counted(count: int) -> str:
    return f"{count} image{'s' if count > 1 else ''}"


def _generated() -> list[Image.Image]:
    """Coloured clouds of several sizes, the same in every call."""
    random = np.random.default_rng(0)
    clouds = [Image.fromarray(random.integers(0, 256, (6, 8, 3), dtype=np.uint8)) for _ in range(NUM_IMAGES)]
    sizes = [(160 + 32 * number, 320 - 16 * number) for number in range(NUM_IMAGES)]
    return [cloud.resize(size, Image.Resampling.BICUBIC) for cloud, size in zip(clouds, sizes, strict=True)]
