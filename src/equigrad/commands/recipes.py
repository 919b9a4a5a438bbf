"""`equigrad recipes`: what can be trained, and whether it can."""

import argparse
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from equigrad.errors import one_line
from equigrad.recipes.names import check_recipe_name

if TYPE_CHECKING:
    from equigrad.tasks.smoke_test.workspace import Workspace


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """`equigrad recipes [--check [RECIPE…]]`."""
    parser = commands.add_parser("recipes", help="list what can be trained, with the paper's tables")
    parser.add_argument(
        "--check",
        nargs="*",
        metavar="RECIPE",
        help="build every row of these recipes and train it for two steps on generated data; without names, of all the "
        "recipes of the paper's tables",
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="a.b=value", help="as in train; method=NAME checks only that row"
    )
    parser.set_defaults(function=list_recipes)


def list_recipes(parsed: argparse.Namespace, command: Sequence[str]) -> None:
    """Print the recipes, or check them."""
    if parsed.check is not None:
        check_recipes(parsed.check, parsed.set)
        return
    from equigrad.recipes.catalogue import all_recipes, rows_of_recipe

    functions = dict(all_recipes())
    tables = {name: function().table or "-" for name, function in functions.items()}
    widths = max(map(len, functions)), max(map(len, [*tables.values(), "table of the paper"]))
    print(f"{'recipe':{widths[0]}}  {'table of the paper':{widths[1]}}")
    for name, function in functions.items():
        print(f"{name:{widths[0]}}  {tables[name]:{widths[1]}}  {(function.__doc__ or '').splitlines()[0]}")
    print("\nMethods of each recipe, by --set method=NAME:")
    for methods, recipes in _recipes_by_methods({name: rows_of_recipe(name) for name in functions}).items():
        print(f"  {', '.join(methods)}\n      {', '.join(recipes)}")


def _recipes_by_methods(rows: Mapping[str, Sequence[Sequence[str]]]) -> dict[tuple[str, ...], list[str]]:
    """Recipes that have the same methods to choose from."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for name, settings in rows.items():
        if len(settings) > 1:
            groups.setdefault(tuple(first.removeprefix("method=") for first, *_ in settings), []).append(name)
    return groups


def check_recipes(names: Sequence[str], assignments: Sequence[str]) -> None:
    """One line for each row; ValueError if any failed."""
    for name in names:
        check_recipe_name(name)
    from equigrad.recipes.catalogue import all_recipes, rows_of_recipe
    from equigrad.tasks.smoke_test.workspace import Workspace

    chosen = names or [name for name, function in all_recipes() if function().table]
    rows = [(name, settings) for name in chosen for settings in rows_of_recipe(name, assignments)]
    num_failed = 0
    with tempfile.TemporaryDirectory(prefix="equigrad_check_") as folder:
        workspace = Workspace(Path(folder))
        for number, (name, settings) in enumerate(rows, start=1):
            outcome = try_row(workspace, name, settings)
            num_failed += outcome.error is not None
            word, text = ("ok", f"{outcome.schedule}  {outcome.seconds:.0f} s")
            if outcome.error is not None:
                word, text = "failed", outcome.error
            print(f"[{number}/{len(rows)}] {word:6} {' '.join([name, *settings])}: {text}", flush=True)
    if num_failed:
        raise ValueError(f"{num_failed} of {len(rows)} recipes failed")
    print(f"all {len(rows)} recipes build and train")


class Outcome(NamedTuple):
    """How a recipe did when it was tried."""

    schedule: str  # of the real training
    seconds: float
    error: str | None  # one line if it failed


def try_row(workspace: "Workspace", name: str, settings: Sequence[str]) -> Outcome:
    """Train a recipe for two steps on generated data."""
    from equigrad.recipes.catalogue import load_recipe

    start, schedule, error = time.perf_counter(), "", None
    try:
        recipe = load_recipe(name, settings).recipe
        schedule = workspace.schedule(recipe)
        workspace.try_recipe(recipe)
    except Exception as failure:  # whatever it is, the next recipe has its turn
        error = f"{type(failure).__name__}: {one_line(failure)}"
    return Outcome(schedule, time.perf_counter() - start, error)
