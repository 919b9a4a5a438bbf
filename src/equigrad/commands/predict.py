"""`equigrad predict`: what a run says about images of yours."""

import argparse
import io
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from equigrad.errors import one_line
from equigrad.terminal import printable

if TYPE_CHECKING:
    from PIL.Image import Image

    from equigrad.analysis.pictures.predictions import PredictedImage


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """`equigrad predict RUN IMAGE…`."""
    parser = commands.add_parser("predict", help="the predictions of a run for images, drawn on or beside them")
    parser.add_argument("run", type=Path, metavar="RUN")
    parser.add_argument("images", type=Path, nargs="+", metavar="IMAGE", help="image files, or folders of them")
    parser.add_argument(
        "--beside", type=Path, action="append", default=[], metavar="RUN", help="draw another run's predictions beside"
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FOLDER",
        help="for the pictures; by default RUN/predictions, or RUN/comparisons with --beside",
    )
    parser.add_argument("--set", action="append", default=[], metavar="a.b=value", help="change a field of the recipe")
    parser.add_argument(
        "--threshold",
        dest="shown",
        action="append",
        default=[],
        type="shown.threshold={}".format,
        metavar="SCORE",
        help="detectors: the least score of a drawn object, by default 0.3",
    )
    parser.add_argument(
        "--limit",
        dest="shown",
        action="append",
        default=[],
        type="shown.limit={}".format,
        metavar="COUNT",
        help="detectors: how many objects are drawn at most, by default 30",
    )
    parser.add_argument(
        "--recipe", metavar="NAME", help="a recipe of your own module, for a run that was made of parts of your own"
    )
    parser.set_defaults(function=predict)


def predict(parsed: argparse.Namespace, command: Sequence[str]) -> None:
    """Draw every image that can be read; ValueError at the end if some could not."""
    from equigrad.data.images.stores import read_image
    from equigrad.files import write_atomically

    files = list(dict.fromkeys(file for given in parsed.images for file in _image_files(given)))
    runs = [parsed.run, *parsed.beside]
    headings = _headings(runs)
    predictors = [_predictor(run, parsed.set, parsed.shown, parsed.recipe) for run in runs]
    output = parsed.output or parsed.run / ("comparisons" if parsed.beside else "predictions")
    output.mkdir(parents=True, exist_ok=True)
    num_failed = 0
    for file, target in zip(files, _targets(files, output), strict=True):
        try:
            image = read_image(file)
        except OSError as error:
            print(f"equigrad: {one_line(error)}", file=sys.stderr, flush=True)
            num_failed += 1
            continue
        predicted = [predictor(image) for predictor in predictors]
        shown = _compared(headings, predicted) if parsed.beside else predicted[0]
        content = io.BytesIO()
        shown.picture.save(content, "PNG")
        write_atomically(target, content.getvalue())
        print(printable(f"{file}: {shown.line} -> {target}"), flush=True)
    if num_failed:
        raise ValueError(f"{num_failed} of {len(files)} images could not be read")


def _predictor(
    run: Path, assignments: list[str], shown: list[str], own: str | None
) -> "Callable[[Image], PredictedImage]":
    """What draws the predictions of a run, its recipe changed by the assignments."""
    from equigrad.recipes.catalogue import changed_recipe
    from equigrad.settings import override
    from equigrad.tasks.run_folder import task_of

    recipe = changed_recipe(run, assignments, own)
    if shown and not hasattr(recipe, "shown"):
        raise ValueError(f"{run}: --threshold and --limit are for runs of detectors, which this is not")
    recipe = override(recipe, shown)
    return task_of(recipe).predictor(recipe, run)


def _compared(headings: Sequence[str], predicted: "Sequence[PredictedImage]") -> "PredictedImage":
    """What several runs say of an image, side by side."""
    from equigrad.analysis.pictures.predictions import PredictedImage
    from equigrad.analysis.pictures.side_by_side import side_by_side

    line = " | ".join(f"{heading}: {one.line}" for heading, one in zip(headings, predicted, strict=True))
    return PredictedImage(side_by_side(headings, [one.picture for one in predicted]), line)


def _headings(runs: Sequence[Path]) -> list[str]:
    """The names of the runs' folders, or whole paths where names are not enough."""
    names = [run.resolve().name for run in runs]
    return names if len(set(names)) == len(names) else [str(run) for run in runs]


def _image_files(given: Path) -> Iterator[Path]:
    """The file, or the images below the folder."""
    from equigrad.data.images.lists import SUFFIXES

    if not given.is_dir():
        yield given
        return
    found = sorted(path for path in given.rglob("*") if path.name.lower().endswith(SUFFIXES))
    if not found:
        raise ValueError(f"{given}: expected images in the folder, found none ({', '.join(SUFFIXES)})")
    yield from found


def _targets(files: Sequence[Path], output: Path) -> list[Path]:
    """A picture for each file; none takes the place of another or of an image that is read."""
    taken = {file.resolve() for file in files}
    targets: list[Path] = []
    for file in files:
        target, number = output / f"{file.stem}.png", 2
        while target.resolve() in taken:
            target, number = output / f"{file.stem}_{number}.png", number + 1
        taken.add(target.resolve())
        targets.append(target)
    return targets
