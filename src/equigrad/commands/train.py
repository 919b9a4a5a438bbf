"""`equigrad train RECIPE`: from a recipe to a run."""

import argparse
import dataclasses
import os
import shutil
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from equigrad.commands.exit_codes import STOPPED
from equigrad.commands.metric_lines import metric_line


class _Flag(NamedTuple):
    """One of the usual settings, with a flag of its own."""

    assignments: tuple[str, ...]  # what it stands for
    kind: Callable[[str], Any]
    text: str  # a line of help
    choices: tuple[str, ...] | None = None


_FLAGS = {
    "epochs": _Flag(("training.schedule.epochs={}", "training.schedule.steps=none"), float, "how long to train"),
    "batch_size": _Flag(("training.batch_size={}",), int, "samples of one optimiser step, over all processes"),
    "lr": _Flag(("training.optimizer.lr={}",), float, "base learning rate"),
    "seed": _Flag(("training.seed={}",), int, "of the start, the order and the augmentation"),
    "device": _Flag(("device={}",), str, "where to run", ("auto", "cpu", "cuda", "mps")),
    "precision": _Flag(("precision={}",), str, "of the arithmetic", ("32", "bf16", "fp16")),
    "workers": _Flag(("training.num_workers={}",), int, "processes that read data"),
    "method": _Flag(("method={}",), str, "loss and what belongs to it, where the recipe has several"),
}


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """`equigrad train RECIPE`."""
    parser = commands.add_parser(
        "train",
        help="train a recipe, on one process or under torchrun",
        description="Train a recipe. `equigrad train RECIPE --help` lists every setting of it.",
        add_help=False,
    )
    parser.add_argument("recipe", nargs="?", metavar="RECIPE", help="module:function, see `equigrad recipes`")
    parser.add_argument("-h", "--help", action="store_true", help="this help, or the settings of RECIPE")
    # Two names, because torchrun takes --run for an abbreviation of an option of its own.
    parser.add_argument("--run", "--folder", type=Path, help="the run folder; by default runs/MODULE_FUNCTION")
    parser.add_argument("--set", action="append", default=[], metavar="a.b=value", help="change a setting")
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint of the run folder")
    for name, flag in _FLAGS.items():
        metavar = None if flag.choices else name.upper()
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, type=flag.kind, choices=flag.choices, metavar=metavar, help=flag.text)
    parser.set_defaults(function=train, parser=parser)


def train(parsed: argparse.Namespace, command: Sequence[str]) -> int | None:
    """Train, and say how it went beside what was published."""
    if parsed.recipe is None:
        if not parsed.help:
            parsed.parser.error("the following arguments are required: RECIPE")
        parsed.parser.print_help()
        return None
    from equigrad.engine import one_voice
    from equigrad.engine.run_log import was_restarted
    from equigrad.recipes.catalogue import load_recipe, resumed_recipe
    from equigrad.recipes.tables import TABLES
    from equigrad.run_files import RECIPE
    from equigrad.tasks.run_folder import task_of

    assignments = flag_assignments(parsed)
    if parsed.help:
        print(settings_text(parsed.recipe, assignments))
        return None
    folder = parsed.run or Path("runs", parsed.recipe.replace(":", "_"))
    resume = parsed.resume or was_restarted(folder)
    goes_on = resume and (folder / RECIPE).exists()
    named = resumed_recipe(folder, parsed.recipe, assignments) if goes_on else load_recipe(parsed.recipe, assignments)
    recipe = named.recipe
    with one_voice():
        result = task_of(recipe).train(recipe, folder, resume=resume, source=named.source(), command=command)
    if result.interrupted:
        return STOPPED
    if os.environ.get("RANK", "0") != "0":  # torchrun starts one for each rank
        return None
    published = TABLES.get(recipe.table, {}).get(recipe.row)
    if published is not None:
        print(f"published: {'  '.join(f'{name} {value}' for name, value in published.items())}")
    print(metric_line(result.evaluation))
    print(f"The page of the run: {folder}/report.html. Predictions for images: equigrad predict {folder} IMAGE")
    return None


def flag_assignments(parsed: argparse.Namespace) -> list[str]:
    """What `--set` and the plain flags ask for; a flag is an argument of the recipe's function if that has one."""
    import inspect

    from equigrad.recipes.catalogue import recipe_function

    parameters = inspect.signature(recipe_function(parsed.recipe)).parameters
    assignments = list(parsed.set)
    for name, flag in _FLAGS.items():
        value = getattr(parsed, name)
        if value is None:
            continue
        if name == "method" and name not in parameters:
            raise ValueError(f"--method {value}: {parsed.recipe} has only one; --set method.… changes its settings")
        meant = (f"{name}={{}}",) if name in parameters else flag.assignments
        assignments += [assignment.format(_plain(value)) for assignment in meant]
    return assignments


def _plain(value: Any) -> str:
    """A number without a fraction that it does not have: recipes may count epochs as whole numbers."""
    return f"{value:g}" if isinstance(value, float) and value.is_integer() else str(value)


def settings_text(name: str, assignments: Sequence[str]) -> str:
    """Every setting of a recipe with its value, what it accepts and what it is for."""
    import inspect

    from equigrad.recipes.catalogue import load_recipe, recipe_function
    from equigrad.settings import describe, list_settings

    function = recipe_function(name)
    named = load_recipe(name, assignments)
    width = min(shutil.get_terminal_size((120, 24)).columns, 140)
    lines = [f"equigrad train {name} [--set NAME=VALUE …]", "", *textwrap.wrap(inspect.getdoc(function) or "", width)]
    flags = ", ".join(f"--{flag.replace('_', '-')}" for flag in _FLAGS)
    lines += ["", *textwrap.wrap(f"The usual settings have flags of their own: {flags}.", width)]
    parameters = inspect.signature(function).parameters
    if parameters:
        lines += ["", "arguments of the recipe"]
    for argument in parameters.values():
        value = named.arguments.get(argument.name, argument.default)
        lines += _entry(argument.name, value, describe(argument.annotation), "", width)
    sections: dict[str, list[str]] = {}
    for setting in list_settings(named.recipe):
        top = setting.path.partition(".")[0]
        is_group = dataclasses.is_dataclass(getattr(named.recipe, top))
        heading = f"{top}: {type(getattr(named.recipe, top)).__name__}" if is_group else "run"
        sections.setdefault(heading, []).extend(
            _entry(setting.path, setting.value, setting.kind, setting.text, width) if setting.path != "method" else []
        )
    for heading, entries in sections.items():
        lines += ["", heading, *entries]
    return "\n".join(lines)


def _entry(path: str, value: Any, kind: str, text: str, width: int) -> list[str]:
    """A setting: its name and value, and behind or below them what it is for and what it accepts."""
    shown = ",".join(map(str, value)) if isinstance(value, tuple) else "none" if value is None else str(value)
    if isinstance(value, bool):
        shown = shown.lower()
    head, indent = f"  {path}={shown}", 46
    about = textwrap.wrap(f"{text} [{kind}]".strip(), max(width - indent, 30))
    if len(head) < indent:
        return [f"{head:{indent}}{about[0]}", *(" " * indent + line for line in about[1:])]
    return [head, *(" " * indent + line for line in about)]
