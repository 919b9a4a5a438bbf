"""The command line. A bad argument, file or data set gets one line on stderr; a traceback is for bugs only."""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

DEMO_PAIRS = (("tiny:ce", "tiny:softmax_eql"), ("tiny:bce", "tiny:sigmoid_eql"))
DEMO_METRICS = ("Overall", "Many", "Medium", "Few")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; 0 is success, 1 that the work failed, 2 wrong usage."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    parsed = _parser().parse_args(words)
    from equigrad.engine import EngineError  # after parsing: help and usage need no torch

    try:
        parsed.function(parsed, ["equigrad", *words])
    except (EngineError, ValueError, OSError) as error:
        print(f"equigrad: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="equigrad", description="Training recognisers on long-tailed data.")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    demo = commands.add_parser("demo", help="the whole story on embedded data: a page to open at the end")
    demo.add_argument("--folder", type=Path, default=Path("runs/demo"), help="for the runs and the page")
    demo.add_argument("--epochs", type=int, help="fewer epochs than the recipe has")
    demo.set_defaults(function=_demo)

    recipes = commands.add_parser("recipes", help="what can be trained")
    recipes.set_defaults(function=_recipes)

    train = commands.add_parser("train", help="train a recipe, on one process or under torchrun")
    train.add_argument("recipe", metavar="RECIPE", help="module:function, see `equigrad recipes`")
    train.add_argument("--run", type=Path, help="the run folder; by default runs/MODULE_FUNCTION")
    train.add_argument("--set", action="append", default=[], metavar="a.b=value", help="change a field of the recipe")
    train.add_argument("--resume", action="store_true", help="go on from the last checkpoint of the run folder")
    train.set_defaults(function=_train)

    evaluate = commands.add_parser("evaluate", help="the task's metrics with the paper's groups")
    evaluate.add_argument("run", type=Path, metavar="RUN")
    evaluate.add_argument("--json", type=Path, metavar="FILE", help="write the metrics as one object")
    evaluate.add_argument("--csv", type=Path, metavar="FILE", help="write a row for each category")
    evaluate.set_defaults(function=_evaluate)

    report = commands.add_parser("report", help="one HTML page comparing runs")
    report.add_argument("runs", type=Path, nargs="+", metavar="RUN")
    report.add_argument("--output", type=Path, default=Path("report.html"), metavar="FILE")
    report.set_defaults(function=_report)
    return parser


def _recipes(parsed: argparse.Namespace, command: Sequence[str]) -> None:
    from equigrad.recipes.catalogue import all_recipes

    recipes = dict(all_recipes())
    width = max(map(len, recipes))
    for name, function in recipes.items():
        print(f"{name:{width}}  {(function.__doc__ or '').splitlines()[0]}")


def _train(parsed: argparse.Namespace, command: Sequence[str]) -> None:
    from equigrad.recipes.catalogue import load_recipe
    from equigrad.recipes.runs import train_recipe
    from equigrad.recipes.tables import TABLES

    folder = parsed.run or Path("runs", parsed.recipe.replace(":", "_"))
    result = train_recipe(parsed.recipe, parsed.set, folder, resume=parsed.resume, command=command)
    if not result.interrupted:
        recipe = load_recipe(parsed.recipe, parsed.set)
        published = TABLES.get(recipe.table, {}).get(recipe.row)
        if published is not None:
            print(f"published: {'  '.join(f'{name} {value}' for name, value in published.items())}")
        print(f"{_line(result.evaluation)}\n{folder}: evaluate it with `equigrad evaluate {folder}`")


def _evaluate(parsed: argparse.Namespace, command: Sequence[str]) -> None:
    from equigrad.analysis import Evaluation
    from equigrad.evaluation.tables import write_table
    from equigrad.files import write_atomically
    from equigrad.recipes.runs import evaluate_run

    evaluator = evaluate_run(parsed.run)
    if parsed.json:
        # What the run folder keeps: a group without categories is null there, which JSON can say.
        result = dict(Evaluation.load(parsed.run).result)
        write_atomically(parsed.json, (json.dumps(result, indent=1, allow_nan=False) + "\n").encode())
    if parsed.csv:
        write_table(evaluator.per_category(), parsed.csv)
    print(_line(evaluator.result()))


def _report(parsed: argparse.Namespace, command: Sequence[str]) -> None:
    from equigrad.analysis import write_report

    print(write_report(parsed.runs, parsed.output, command=command))


def _demo(parsed: argparse.Namespace, command: Sequence[str]) -> None:
    from equigrad.analysis import RunHistory, plot_groups, write_report
    from equigrad.recipes.runs import evaluate_run, train_recipe

    assignments = [] if parsed.epochs is None else [f"training.schedule.epochs={parsed.epochs}"]
    rows = []
    for pair in DEMO_PAIRS:
        folders = [parsed.folder / name.partition(":")[2] for name in pair]
        for name, folder in zip(pair, folders, strict=True):
            print(f"\n{name}")
            train_recipe(name, assignments, folder, resume=folder.exists(), command=command)
            rows.append((folder.name, evaluate_run(folder).result()))
        page = write_report(folders, parsed.folder / f"{folders[1].name}.html")
        plot_groups([RunHistory.load(folder) for folder in folders], page.with_suffix(".png"))
    print(f"\n{'accuracy':18}" + "".join(f"{metric:>9}" for metric in DEMO_METRICS))
    for name, result in rows:
        print(f"{name:18}" + "".join(f"{100 * result[metric]:9.1f}" for metric in DEMO_METRICS))
    print(f"\nThe same seed and budget; only the loss differs. Open {parsed.folder}/softmax_eql.html")
    print("Your own images: equigrad train own_data:classification --set data.train=FOLDER --set data.test=FOLDER")


def _line(result: Mapping[str, float]) -> str:
    return "  ".join(f"{name} {100 * value:.1f}" for name, value in result.items())
