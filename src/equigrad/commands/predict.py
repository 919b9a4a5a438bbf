"""`equigrad predict`: predictions of a run for images and videos."""

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from equigrad.commands.unfinished_runs import note_unfinished
from equigrad.run_files import COMPARISONS, PREDICTIONS, RECIPE, read_recipe

if TYPE_CHECKING:
    from equigrad.tasks.trained_model import TrainedModel

_UNLIMITED = 2**31  # objects: where nothing is drawn, no line says how many are


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """`equigrad predict RUN IMAGE…`."""
    parser = commands.add_parser("predict", help="predict images and videos with a run: pictures, JSON, CSV")
    parser.add_argument("run", type=Path, metavar="RUN")
    parser.add_argument(
        "images", type=Path, nargs="*", metavar="IMAGE", help="images, folders or .zip archives of images, or videos"
    )
    parser.add_argument(
        "--camera", metavar="DEVICE", help="predict frames of a camera, such as /dev/video0, until Ctrl-C"
    )
    parser.add_argument("--frames", type=int, metavar="COUNT", help="maximum number of frames of a video or camera")
    parser.add_argument(
        "--beside",
        type=Path,
        action="append",
        default=[],
        metavar="RUN",
        help="also draw the predictions of another run",
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FOLDER",
        help="where to write pictures; by default RUN/predictions, or RUN/comparisons with --beside",
    )
    parser.add_argument("--force", action="store_true", help="replace existing pictures and files")
    parser.add_argument("--no-pictures", action="store_true", help="write no pictures")
    parser.add_argument("--json", type=Path, metavar="FILE", help="detectors: write objects in COCO's result format")
    parser.add_argument(
        "--annotations",
        type=Path,
        metavar="FILE",
        help="COCO file with the image ids for --json; without it, image_id is the path of the image",
    )
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write a row for each object or category")
    parser.add_argument("--batch-size", type=int, default=1, metavar="COUNT", help="images per batch, by default 1")
    parser.add_argument("--threshold", type=float, metavar="SCORE", help="minimum score; by default that of the recipe")
    parser.add_argument(
        "--limit", type=int, metavar="COUNT", help="detectors: maximum number of objects to draw, by default 30"
    )
    parser.add_argument("--device", help="device, such as cuda; by default a GPU if there is one")
    parser.add_argument(
        "--set", action="append", default=[], metavar="a.b=value", help="change a setting of the recipe"
    )
    parser.add_argument("--recipe", metavar="NAME", help="recipe in your own module, for a run with your own parts")
    parser.set_defaults(function=predict, parser=parser)


def predict(parsed: argparse.Namespace, command: Sequence[str]) -> None:
    """Predict everything that can be read; ValueError at the end if something could not."""
    if not parsed.images and not parsed.camera:
        parsed.parser.error("nothing to predict: name images, folders, archives or videos, or give --camera DEVICE")
    runs = [parsed.run, *parsed.beside]
    # What cannot be done is refused before torch is imported, which takes seconds.
    from equigrad.commands.prediction.inputs import ImageIds, check_new, inputs_of, pictures_of
    from equigrad.data.video import pyav

    _check_arguments(parsed, runs)
    inputs = inputs_of(parsed.images)
    if parsed.camera or any(one.is_video for one in inputs):
        pyav()
    ids = ImageIds(parsed.annotations)
    for one in inputs:
        ids.of(one)
    output = parsed.output or parsed.run / (COMPARISONS if parsed.beside else PREDICTIONS)
    pictures: Sequence[Path | None] = [None] * len(inputs) if parsed.no_pictures else pictures_of(inputs, output)
    camera_picture = None if parsed.no_pictures or not parsed.camera else output / "camera.mp4"
    new_files = [*pictures, camera_picture, parsed.json, parsed.csv]
    check_new([file for file in new_files if file is not None], force=parsed.force)
    from equigrad.commands.prediction.files import prediction_files
    from equigrad.commands.prediction.loop import PredictionLoop

    models = dict(zip(_headings(runs), [_model(run, parsed) for run in runs], strict=True))
    note_unfinished(runs)
    with prediction_files(parsed.json, parsed.csv) as files:
        loop = PredictionLoop(models, files, ids, batch_size=parsed.batch_size, threshold=parsed.threshold)
        pairs = list(zip(inputs, pictures, strict=True))
        loop.predict_images([(one, picture) for one, picture in pairs if not one.is_video])
        for one, picture in pairs:
            if one.is_video:
                loop.predict_video(one, picture, parsed.frames)
        if parsed.camera:
            loop.predict_camera(parsed.camera, camera_picture, parsed.frames)
    loop.report_speed()
    if loop.num_failed:
        raise ValueError(f"{loop.num_failed} of {len(inputs)} images could not be read")


def _check_arguments(parsed: argparse.Namespace, runs: Sequence[Path]) -> None:
    """ValueError for what is not a run, and for what these runs cannot do."""
    from equigrad.data.images.stores import store_exists

    if not (parsed.run / RECIPE).exists() and any((image / RECIPE).is_file() for image in parsed.images):
        raise ValueError(f"{parsed.run}: the run comes first, then the images: equigrad predict RUN IMAGE…")
    detectors = [run for run in runs if "shown" in read_recipe(run)["settings"]]
    if parsed.limit is not None and detectors != list(runs):
        other = next(run for run in runs if run not in detectors)
        raise ValueError(f"{other}: --limit is for runs of detectors, which this is not")
    if parsed.json is not None and parsed.run not in detectors:
        raise ValueError(f"{parsed.run}: --json is for runs of detectors, which this is not; --csv FILE is for all")
    if parsed.annotations is not None and parsed.json is None:
        raise ValueError("--annotations gives the image ids for --json FILE, which is missing")
    if parsed.threshold is not None and not 0 <= parsed.threshold <= 1:
        raise ValueError(f"--threshold must be in [0, 1], got {parsed.threshold}")
    for option in ("batch_size", "frames", "limit"):
        if getattr(parsed, option) is not None and getattr(parsed, option) < 1:
            raise ValueError(f"--{option.replace('_', '-')} must be at least 1, got {getattr(parsed, option)}")
    # A missing image among others is said when its turn comes.
    if parsed.images and not any(map(store_exists, parsed.images)):
        named = ", ".join(map(str, parsed.images))
        if re.match("https?:/", named):
            raise FileNotFoundError(f"{named}: images are not read from addresses; download it and name the file")
        raise FileNotFoundError(f"{named}: no such image, folder or video")


def _model(run: Path, parsed: argparse.Namespace) -> "TrainedModel":
    """The newest model of a run, its recipe changed by the arguments."""
    from equigrad.recipes.catalogue import changed_recipe
    from equigrad.settings import override
    from equigrad.tasks.run_folder import trained_model

    recipe = changed_recipe(run, parsed.set, parsed.recipe)
    limit = _UNLIMITED if parsed.no_pictures and hasattr(recipe, "shown") else parsed.limit
    if limit is not None:
        recipe = override(recipe, [f"shown.limit={limit}"])
    return trained_model(run, recipe, parsed.device)


def _headings(runs: Sequence[Path]) -> list[str]:
    """The names of the runs' folders, or whole paths where names are not enough."""
    names = [run.resolve().name for run in runs]
    return names if len(set(names)) == len(names) else [str(run) for run in runs]
