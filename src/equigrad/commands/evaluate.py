"""`equigrad evaluate`: the metrics of a run, or of any tool's detections."""

import argparse
import json
import os
from collections.abc import Sequence
from pathlib import Path

from equigrad.commands import detections
from equigrad.commands.unfinished_runs import note_unfinished
from equigrad.errors import UsageError
from equigrad.run_files import RECIPE, read_recipe
from equigrad.terminal import metric_line


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """`equigrad evaluate RUN`."""
    parser = commands.add_parser("evaluate", help="evaluate a run or any tool's detections, with the paper's groups")
    parser.add_argument("run", type=Path, metavar="RUN", help="folder of a run, or any tool's detections (.json)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the metrics as one JSON object")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write a row for each category")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="a.b=value",
        help="change the recipe, such as method=norcal after a training with method=ce",
    )
    parser.add_argument("--best", action="store_true", help="use checkpoints/best.pt, not the newest checkpoint")
    parser.add_argument(
        "--output", type=Path, metavar="FOLDER", help="new run folder for the result of --set or --best"
    )
    parser.add_argument("--workers", type=int, metavar="N", help="processes that read images")
    parser.add_argument("--batch-size", type=int, metavar="N", help="images per model call; changes the last digits")
    detections.add_arguments(parser)
    parser.add_argument("--recipe", metavar="NAME", help="recipe in your own module, for a run with your own parts")
    parser.set_defaults(function=evaluate)


def evaluate(parsed: argparse.Namespace, command: Sequence[str]) -> None:
    """Evaluate a run on its test set, or detections against their annotations."""
    _check_words(parsed)
    is_first = os.environ.get("RANK", "0") == "0"  # torchrun starts one process for each rank
    if parsed.annotations is not None:
        if is_first:
            detections.evaluate_file(parsed, command)
        return
    read_recipe(parsed.run)  # what is not a run is refused before torch is imported, which takes seconds
    from equigrad.analysis import Evaluation
    from equigrad.engine import one_voice
    from equigrad.evaluation.tables import write_table
    from equigrad.files import write_atomically
    from equigrad.recipes.catalogue import changed_recipe
    from equigrad.tasks.run_folder import evaluate_run, evaluate_variant

    folder = parsed.output or parsed.run
    recipe = changed_recipe(parsed.run, [*parsed.set, *_speed_settings(parsed)], parsed.recipe)
    if is_first:
        note_unfinished([parsed.run])
    with one_voice():
        if parsed.output is not None:
            result = evaluate_variant(parsed.run, recipe, folder, command, best=parsed.best)
        else:
            result = evaluate_run(folder, recipe, command)
    if not is_first:
        return
    if parsed.json:
        # What the run folder keeps: a group without categories is null there, which JSON can say.
        metrics = dict(Evaluation.load(folder).result)
        parsed.json.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(parsed.json, (json.dumps(metrics, indent=1, allow_nan=False) + "\n").encode())
    if parsed.csv:
        write_table(result.categories, parsed.csv)
    print(metric_line(result.metrics))


def _check_words(parsed: argparse.Namespace) -> None:
    """Refuse options of runs for detections in a file, and the reverse."""
    is_variant = bool(parsed.set) or parsed.best
    if is_variant != (parsed.output is not None):
        raise UsageError(
            "--set and --output FOLDER go together, and --best with it: the results of the run itself stay as they are"
        )
    if parsed.annotations is None:
        if parsed.run.suffix == ".json":
            raise UsageError(f"{parsed.run}: detections are evaluated against their annotations: --annotations FILE")
        if parsed.norcal is not None:
            raise UsageError("--norcal is for detections in a file; for a run: --set method=norcal --output FOLDER")
    elif (parsed.run / RECIPE).is_file():
        raise UsageError(
            f"{parsed.run}: --annotations is for detections in a file; a run on other data: --set data.test=FILE "
            "--output FOLDER"
        )
    elif is_variant:
        raise UsageError(f"--set and --best are for a run; {parsed.run} is evaluated against --annotations")
    elif parsed.batch_size is not None or parsed.workers is not None:
        raise UsageError(f"--batch-size and --workers are for the model of a run; {parsed.run} has detections")


def _speed_settings(parsed: argparse.Namespace) -> list[str]:
    """Settings that decide how fast the test is; the run folder keeps those of the training."""
    fields = {"training.num_workers": parsed.workers, "test_batch_size": parsed.batch_size}
    return [f"{field}={value}" for field, value in fields.items() if value is not None]
