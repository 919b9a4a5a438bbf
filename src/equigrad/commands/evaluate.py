"""`equigrad evaluate`: the metrics of a run, or of any tool's detections."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from equigrad.commands import detections
from equigrad.commands.metric_lines import metric_line


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """`equigrad evaluate RUN`."""
    parser = commands.add_parser("evaluate", help="the task's metrics with the paper's groups")
    parser.add_argument("run", type=Path, metavar="RUN", help="of `train`, or any tool's detections (.json)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the metrics as one object")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write a row for each category")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="a.b=value",
        help="read the weights of RUN by a changed recipe, such as method=norcal after a training with method=ce",
    )
    parser.add_argument("--output", type=Path, metavar="FOLDER", help="new run folder for what --set gives")
    detections.add_arguments(parser)
    parser.add_argument(
        "--recipe", metavar="NAME", help="a recipe of your own module, for a run that was made of parts of your own"
    )
    parser.set_defaults(function=evaluate)


def evaluate(parsed: argparse.Namespace, command: Sequence[str]) -> None:
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
    from equigrad.recipes.catalogue import changed_recipe
    from equigrad.tasks.run_folder import evaluate_run, evaluate_variant

    folder = parsed.output or parsed.run
    if parsed.set:
        recipe = changed_recipe(parsed.run, parsed.set, parsed.recipe)
        result = evaluate_variant(parsed.run, recipe, folder, command)
    else:
        result = evaluate_run(folder, changed_recipe(folder, [], parsed.recipe), command)
    if parsed.json:
        # What the run folder keeps: a group without categories is null there, which JSON can say.
        metrics = dict(Evaluation.load(folder).result)
        write_atomically(parsed.json, (json.dumps(metrics, indent=1, allow_nan=False) + "\n").encode())
    if parsed.csv:
        write_table(result.categories, parsed.csv)
    print(metric_line(result.metrics))
