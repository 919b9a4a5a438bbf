"""`equigrad train`, `evaluate` and `report`: from a recipe to a run and what it is worth."""

import argparse
import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from equigrad.commands import detections


def add_parsers(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """`equigrad train RECIPE`, `equigrad evaluate RUN` and `equigrad report RUN…`."""
    train = commands.add_parser("train", help="train a recipe, on one process or under torchrun")
    train.add_argument("recipe", metavar="RECIPE", help="module:function, see `equigrad recipes`")
    # Two names, because torchrun takes --run for an abbreviation of an option of its own.
    train.add_argument("--run", "--folder", type=Path, help="the run folder; by default runs/MODULE_FUNCTION")
    train.add_argument("--set", action="append", default=[], metavar="a.b=value", help="change a field of the recipe")
    train.add_argument("--resume", action="store_true", help="go on from the last checkpoint of the run folder")
    train.set_defaults(function=train_run)

    evaluate = commands.add_parser("evaluate", help="the task's metrics with the paper's groups")
    evaluate.add_argument("run", type=Path, metavar="RUN", help="of `train`, or any tool's detections (.json)")
    evaluate.add_argument("--json", type=Path, metavar="FILE", help="write the metrics as one object")
    evaluate.add_argument("--csv", type=Path, metavar="FILE", help="write a row for each category")
    evaluate.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="a.b=value",
        help="read the weights of RUN by a changed recipe, such as method=norcal after a training with method=ce",
    )
    evaluate.add_argument("--output", type=Path, metavar="FOLDER", help="new run folder for what --set gives")
    detections.add_arguments(evaluate)
    evaluate.set_defaults(function=evaluate_finished)

    report = commands.add_parser("report", help="one HTML page comparing runs")
    report.add_argument("runs", type=Path, nargs="+", metavar="RUN")
    report.add_argument("--output", type=Path, default=Path("report.html"), metavar="FILE")
    report.set_defaults(function=report_runs)


def train_run(parsed: argparse.Namespace, command: Sequence[str]) -> None:
    """Train, and say how it went beside what was published."""
    from equigrad.recipes.catalogue import load_recipe
    from equigrad.recipes.runs import source_of
    from equigrad.recipes.tables import TABLES

    folder = parsed.run or Path("runs", parsed.recipe.replace(":", "_"))
    recipe = load_recipe(parsed.recipe, parsed.set)
    source = source_of(parsed.recipe, parsed.set)
    result = recipe.run(folder, resume=parsed.resume, source=source, command=command)
    if result.interrupted or os.environ.get("RANK", "0") != "0":  # torchrun starts one for each rank
        return
    published = TABLES.get(recipe.table, {}).get(recipe.row)
    if published is not None:
        print(f"published: {'  '.join(f'{name} {value}' for name, value in published.items())}")
    print(metric_line(result.evaluation))
    print(f"The page of the run: {folder}/report.html. Predictions for images: equigrad predict {folder} IMAGE")


def evaluate_finished(parsed: argparse.Namespace, command: Sequence[str]) -> None:
    """Evaluate a run on its test set, or detections against their annotations."""
    if bool(parsed.set) != (parsed.output is not None):
        raise ValueError("--set and --output FOLDER go together: the results of the run itself stay as they are")
    if parsed.annotations is not None:
        if parsed.set:
            raise ValueError(f"--set changes the recipe of a run; {parsed.run} is evaluated against --annotations")
        detections.evaluate_file(parsed, command)
        return
    if parsed.run.suffix == ".json":
        raise ValueError(f"{parsed.run}: detections are evaluated against their annotations: --annotations FILE")
    if parsed.norcal is not None:
        raise ValueError("--norcal is for detections in a file; for a run: --set method=norcal --output FOLDER")
    from equigrad.analysis import Evaluation
    from equigrad.evaluation.tables import write_table
    from equigrad.files import write_atomically
    from equigrad.recipes.runs import evaluate_run, evaluate_variant

    folder = parsed.output or parsed.run
    evaluator = evaluate_variant(parsed.run, parsed.set, folder) if parsed.set else evaluate_run(folder)
    if parsed.json:
        # What the run folder keeps: a group without categories is null there, which JSON can say.
        result = dict(Evaluation.load(folder).result)
        write_atomically(parsed.json, (json.dumps(result, indent=1, allow_nan=False) + "\n").encode())
    if parsed.csv:
        write_table(evaluator.per_category(), parsed.csv)
    print(metric_line(evaluator.result()))


def report_runs(parsed: argparse.Namespace, command: Sequence[str]) -> None:
    """Write the page."""
    from equigrad.analysis import write_report

    print(write_report(parsed.runs, parsed.output, command=command))


def metric_line(result: Mapping[str, float]) -> str:
    """Metrics in per cent; a dash for a group without categories."""
    return "  ".join(f"{name} {'–' if math.isnan(value) else f'{100 * value:.1f}'}" for name, value in result.items())
