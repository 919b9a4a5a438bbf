"""Predictions of semantic segmentation runs on test images: ground truth and predictions side by side, with one legend.

    equigrad train tiny:segmentation --set method=ce --run runs/ce
    equigrad train tiny:segmentation --set method=softmax_eql --run runs/softmax_eql
    python examples/segmentation_overlays.py runs/ce runs/softmax_eql --images 2 --output overlays

The runs must have the same data. The script draws the test images with the most categories of the tail, or those that
`--names` lists. Categories of the tail have a white border.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import nn

from equigrad.analysis.evaluation_file import Evaluation
from equigrad.analysis.pictures.overlays import draw_overlays
from equigrad.data.segmentation.data import SegmentationData
from equigrad.tasks.run_folder import recipe_of_run
from equigrad.tasks.segmentation.recipe import SegmentationRecipe
from equigrad.tasks.segmentation.run import trained_model


def trained(folder: Path) -> tuple[SegmentationRecipe, nn.Module]:
    """The recipe of a run, and its newest model in evaluation mode."""
    recipe = recipe_of_run(folder)
    if not isinstance(recipe, SegmentationRecipe):
        raise ValueError(f"{folder}: expected a run of semantic segmentation")
    counts = np.array([category.count for category in Evaluation.load(folder).categories])
    return recipe, trained_model(recipe, counts, folder)


def most_of(tail: Sequence[int], data: SegmentationData, count: int) -> list[int]:
    """Images with the most categories of the tail; of equal ones, those with more of its pixels."""
    found = []
    for index in range(len(data)):
        labels = data.read_labels(index)
        pixels = np.bincount(labels[np.isin(labels, tail)], minlength=data.num_classes)
        found.append((np.count_nonzero(pixels), pixels.sum(), index))
    return [index for *_, index in sorted(found, reverse=True)[:count]]


def named(names: Sequence[str], data: SegmentationData) -> list[int]:
    """Images by name."""
    for name in names:
        if name not in data.names:
            raise ValueError(f"no test image {name!r} in {data.source}; the first is {data.names[0]!r}")
    return [data.names.index(name) for name in names]


def draw(folders: Sequence[Path], names: Sequence[str], count: int, output: Path) -> list[Path]:
    """Draw the named test images; without names, the `count` images with the most categories of the tail."""
    models = {}
    for folder in folders:
        recipe, models[folder.name] = trained(folder)
    _, test_set = recipe.data.load()
    data = test_set.data
    categories = Evaluation.load(folders[0]).categories
    tail = [label for label, category in enumerate(categories) if category.group == "tail"]
    output.mkdir(parents=True, exist_ok=True)
    files = []
    for index in named(names, data) if names else most_of(tail, data, count):
        image = np.array(data.read_image(index))
        batch = torch.from_numpy(image).permute(2, 0, 1)[None]
        maps = {"ground truth": data.read_labels(index)}
        with torch.inference_mode():
            maps |= {name: model(batch)[0]["labels"].numpy() for name, model in models.items()}
        files.append(output / f"{Path(data.names[index]).name}.png")
        draw_overlays(files[-1], image, maps, data.class_names, rare=tail)
    return files


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN")
    parser.add_argument("--images", type=int, default=2, help="how many test images are drawn")
    parser.add_argument("--names", nargs="+", default=[], help="of the test images to draw, without suffix")
    parser.add_argument("--output", type=Path, default=Path("overlays"), metavar="FOLDER")
    arguments = parser.parse_args()
    try:
        files = draw(arguments.runs, arguments.names, arguments.images, arguments.output)
    except (ValueError, OSError) as error:
        sys.exit(f"error: {error}")
    print(*files, sep="\n")


if __name__ == "__main__":
    main()
