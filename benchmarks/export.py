"""How far exported files are from their runs, how large they are and how long they take: every model in every format.

    python benchmarks/export.py                              # small models, trained for some steps on glyphs
    python benchmarks/export.py --runs runs/own runs/other   # runs of yours

Differences are the largest over eight test images, one of them in another shape, and a batch of two. Time is that of
one image on one thread, in turns with the model of the run in PyTorch: the ratio of the medians.
"""

import argparse
import contextlib
import io
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from equigrad.engine import Schedule
from equigrad.recipes import glyph_objects, tiny
from equigrad.recipes.catalogue import changed_recipe
from equigrad.tasks.classification.data import GlyphImages
from equigrad.tasks.detection.data import GlyphObjects
from equigrad.tasks.detection.detectors import Atss, Fcos, ImprovedAtss, Paa, RetinaNet, Yolox
from equigrad.tasks.export.formats import FORMATS
from equigrad.tasks.export.run import chosen_images, compare, deployable_of, inputs_of
from equigrad.tasks.run_folder import Recipe, task_of
from equigrad.tasks.segmentation.glyph_scenes import GlyphScenes
from equigrad.tasks.segmentation.heads import PSPNet


def small_recipes(folder: Path) -> dict[str, Recipe]:
    one_stage, two_stage = glyph_objects.one_stage(), glyph_objects.mask_rcnn()
    objects = GlyphObjects(folder / "objects", num_classes=8, max_count=40, test_count=4)
    segmentation = replace(tiny.segmentation(), data=GlyphScenes(max_count=40))
    detectors = (RetinaNet(), Atss(), Paa(), ImprovedAtss(prior=0.01), Yolox())
    five_levels = replace(one_stage.backbone, width=4, strides=(8, 16, 32, 64, 128))
    return {
        "classifier": replace(tiny.softmax_eql(), data=GlyphImages(max_count=40)),
        "DeepLabV3+": segmentation,
        "PSPNet": replace(segmentation, head=PSPNet(channels=48)),
        **{type(each).__name__: replace(one_stage, data=objects, detector=each) for each in detectors},
        "Fcos": replace(one_stage, data=objects, detector=Fcos(), backbone=five_levels),
        "Faster R-CNN": replace(two_stage, data=objects, detector=replace(two_stage.detector, with_masks=False)),
        "Mask R-CNN": replace(two_stage, data=objects),
    }


def small_runs(folder: Path, num_steps: int, only: Sequence[str]) -> Iterator[tuple[str, Path, Recipe]]:
    for name, recipe in small_recipes(folder).items():
        if only and name not in only:
            continue
        # A tenth of the learning rate: without warm-up RetinaNet, which has no normalisation, would give all boxes one
        # score, and which of equal boxes survive is chance.
        optimizer = replace(recipe.training.optimizer, lr=recipe.training.optimizer.lr / 10)
        length = {"schedule": Schedule(steps=num_steps), "num_workers": 0, "batch_size": 8}
        training = replace(recipe.training, optimizer=optimizer, **length)
        recipe = replace(recipe, training=training)
        with contextlib.redirect_stdout(io.StringIO()):
            task_of(recipe).train(recipe, folder / name, resume=False, source={"recipe": name}, command=[])
        yield name, folder / name, recipe


@torch.no_grad()
def row(name: str, folder: Path, recipe: Recipe, file_format: str, repeats: int) -> str:
    kind = FORMATS[file_format]
    deployable = deployable_of(recipe, folder, kind.suppress())
    inputs = inputs_of(deployable, chosen_images(deployable)[1])
    content = kind.write(deployable, inputs[-1])
    run = kind.load(content)
    difference = compare(deployable, run, inputs)
    times: dict[str, list[float]] = {"file": [], "run": []}
    for _ in range(repeats + 1):
        for of, function in (("file", run), ("run", lambda each: deployable.run(*each))):
            start = time.process_time()
            function(inputs[0])
            times[of].append(time.process_time() - start)
    of_file, of_run = (1000 * statistics.median(each[1:]) for each in times.values())
    found = " | ".join(f"{difference.found[key]:.0e}" if key in difference.found else "" for key in COLUMNS)
    return f"| {name} | {file_format} | {found} | {len(content) / 1e6:.1f} | {of_file:.1f} | {of_file / of_run:.2f} |"


COLUMNS = {
    "score": "score",
    "box in pixels": "box, pixels",
    "mask": "mask",
    "share of objects without a partner": "objects without partner",
    "share of pixels with another label": "pixels with another label",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, nargs="+", default=[])
    parser.add_argument("--only", nargs="+", default=[], help="names of small models")
    parser.add_argument("--formats", nargs="+", default=list(FORMATS), choices=list(FORMATS))
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=20)
    parsed = parser.parse_args()
    torch.set_num_threads(1)
    print(f"| model | format | {' | '.join(COLUMNS.values())} | MB | ms | time ratio |")
    print("|---|---|" + "---|" * (len(COLUMNS) + 3))
    with tempfile.TemporaryDirectory() as temporary:
        own = ((each.name, each, changed_recipe(each, [])) for each in parsed.runs)
        for name, folder, recipe in own if parsed.runs else small_runs(Path(temporary), parsed.steps, parsed.only):
            for file_format in parsed.formats:
                print(row(name, folder, recipe, file_format, parsed.repeats), flush=True)


if __name__ == "__main__":
    main()
