"""`equigrad figure NAME`: the figures of the paper."""

import argparse
import io
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from equigrad.commands.exit_codes import STOPPED
from equigrad.commands.parser import positive
from equigrad.errors import UsageError

if TYPE_CHECKING:
    from PIL.Image import Image

    from equigrad.recipes.table_rows import RowRecipe

NAMES = ("grad_ob", "vis_balance_ratio", "vis_od")
_SIDES = ("long-tailed", "balanced")  # the two data sets of grad_ob
_CELL_SIZE = 480  # of an image of vis_od in pixels


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """`equigrad figure NAME`."""
    parser = commands.add_parser(
        "figure",
        help="draw a figure of the paper: grad_ob, vis_balance_ratio, vis_od",
        description="Draw a figure of the paper. grad_ob: gradients of each category on long-tailed and on balanced "
        "data, for four tasks. vis_balance_ratio: the gradient ratio of two runs over training. vis_od: detections of "
        "two runs in some images. Runs that are not named are trained as for `equigrad table`.",
    )
    parser.add_argument("name", choices=NAMES, metavar="NAME", help=", ".join(NAMES))
    parser.add_argument(
        "runs", nargs="*", type=Path, default=[], metavar="RUN", help="runs to compare, instead of the paper's"
    )
    parser.add_argument("--images", type=Path, metavar="FOLDER", help="vis_od: images to detect in")
    parser.add_argument("--limit", type=positive, default=4, metavar="N", help="vis_od: number of images (4)")
    parser.add_argument(
        "--threshold", type=float, metavar="SCORE", help="vis_od: minimum score; by default that of the recipe"
    )
    parser.add_argument(
        "--scale",
        choices=("mini", "full"),
        default="mini",
        help="generated glyphs on a CPU, or the paper's data and models",
    )
    parser.add_argument("--jobs", type=positive, metavar="N", help="parallel trainings; mini: one per core")
    parser.add_argument(
        "--set", action="append", default=[], metavar="a.b=value", help="change a setting of all runs, such as paths"
    )
    parser.add_argument(
        "--folder", type=Path, default=Path("runs/tables"), help="where runs and figures are written (runs/tables)"
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="PNG; by default FOLDER/SCALE/NAME.png")
    parser.set_defaults(function=figure)


def figure(parsed: argparse.Namespace, command: Sequence[str]) -> int | None:
    """Train what is missing, and draw."""
    output = parsed.output or parsed.folder / parsed.scale / f"{parsed.name}.png"
    if parsed.name == "grad_ob" and parsed.runs:
        raise UsageError("grad_ob shows the runs of four tasks on two data sets each, and takes none by name")
    if parsed.name == "vis_od":
        _check_images(parsed.images)  # before anything is trained
    if parsed.threshold is not None:
        from equigrad.tasks.prediction import check_threshold

        check_threshold(parsed.threshold)
    runs = {folder.name: folder for folder in parsed.runs} or _trained(parsed, command)
    if runs is None:
        print("equigrad: stopped; the same command continues", file=sys.stderr)
        return STOPPED
    output.parent.mkdir(parents=True, exist_ok=True)
    draw = {"grad_ob": _grad_ob, "vis_balance_ratio": _vis_balance_ratio, "vis_od": _vis_od}
    draw[parsed.name](runs, output, parsed)
    print(f"The figure: {output}")
    return None


def _check_images(folder: Path | None) -> None:
    from equigrad.commands.prediction.inputs import inputs_of

    if folder is None:
        raise UsageError("vis_od needs --images FOLDER")
    if not folder.exists():
        raise ValueError(f"{folder}: no such file or folder")
    if all(one.is_video for one in inputs_of([folder])):
        raise ValueError(f"{folder}: no images in it")


def _trained(parsed: argparse.Namespace, command: Sequence[str]) -> dict[str, Path] | None:
    """The paper's runs by name, trained now if they are missing; None if that was stopped."""
    from equigrad.recipes.figure_runs import GRAD_OB, VIS_BALANCE_RATIO, VIS_OD
    from equigrad.tasks.paper_tables.planning import Wanted, in_order, planned_run
    from equigrad.tasks.paper_tables.running import train_missing

    shown: dict[str, RowRecipe] = {"vis_balance_ratio": VIS_BALANCE_RATIO, "vis_od": VIS_OD}.get(parsed.name) or {
        f"{task.title}, {name}": recipe
        for task in GRAD_OB
        for name, recipe in zip(_SIDES, (task.long_tailed, task.balanced), strict=True)
    }
    runs = [
        planned_run(Wanted(recipe.at_scale(parsed.scale, parsed.set), None, False), seed=0) for recipe in shown.values()
    ]
    folder = parsed.folder / parsed.scale / "runs"
    labels = {run.name: label for run, label in zip(runs, shown, strict=True)}
    missing = [run for run in in_order(runs) if not run.is_finished(folder)]
    if missing:
        length = ", in at most two minutes of one core each" if parsed.scale == "mini" else ""
        there = f"{len(missing)} of {len(runs)} runs are missing and trained now"
        print(f"{parsed.name}, {parsed.scale}: {there}{length}", flush=True)
    jobs = parsed.jobs or (os.cpu_count() or 1 if parsed.scale == "mini" else 1)
    outcome = train_missing(in_order(runs), folder, jobs=jobs, command=command, labels=labels)
    if outcome.failures:
        raise ValueError(f"{len(outcome.failures)} of {len(runs)} runs failed: {next(iter(outcome.failures.values()))}")
    return None if outcome.stopped else {name: folder / run.name for name, run in zip(shown, runs, strict=True)}


def _grad_ob(runs: Mapping[str, Path], output: Path, parsed: argparse.Namespace) -> None:
    from equigrad.analysis.history import RunHistory
    from equigrad.analysis.observation import Observed, group_means, plot_observation
    from equigrad.recipes.figure_runs import GRAD_OB

    columns = []
    for task in GRAD_OB:
        names = task.names if parsed.scale == "full" else _SIDES
        pair = [RunHistory.load(runs[f"{task.title}, {side}"], name) for side, name in zip(_SIDES, names, strict=True)]
        columns.append(Observed(task.title, *pair))
        for run in pair:
            print(f"{task.title}, {run.name}: mean positive / negative gradient of a category")
            for name, means in group_means(run).items():
                print(f"  {name}: {means}")
    plot_observation(columns, output)


def _vis_balance_ratio(runs: Mapping[str, Path], output: Path, parsed: argparse.Namespace) -> None:
    from equigrad.analysis.history import RunHistory
    from equigrad.analysis.plots import plot_ratio_over_training

    plot_ratio_over_training([RunHistory.load(folder, name) for name, folder in runs.items()], output)


def _vis_od(runs: Mapping[str, Path], output: Path, parsed: argparse.Namespace) -> None:
    from equigrad.analysis.pictures.grid import picture_grid
    from equigrad.commands.prediction.inputs import inputs_of
    from equigrad.data.images.sources import ImageSource
    from equigrad.files import write_atomically
    from equigrad.tasks.detection.prediction import Detections
    from equigrad.tasks.run_folder import recipe_of_run, trained_model

    sources = [ImageSource(one.path) for one in inputs_of([parsed.images]) if not one.is_video][: parsed.limit]
    rows: dict[str, list[Image]] = {name: [] for name in runs}
    for name, folder in runs.items():
        model = trained_model(folder, recipe_of_run(folder))
        for prediction in model.predict_sources(sources, threshold=parsed.threshold):
            if not isinstance(prediction, Detections):
                raise ValueError(f"{folder}: not the run of a detector; vis_od draws detections")
            rows[name].append(prediction.draw(_CELL_SIZE))
    content = io.BytesIO()
    picture_grid(rows, _CELL_SIZE).save(content, "PNG")
    write_atomically(output, content.getvalue())
