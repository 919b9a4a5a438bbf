"""`equigrad train RECIPE`: from a recipe to a run."""

import argparse
import dataclasses
import os
import shutil
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from equigrad.commands.data_source import check_own_files
from equigrad.commands.exit_codes import STOPPED
from equigrad.commands.habits import check_habits
from equigrad.errors import UsageError
from equigrad.recipes.names import MODULES, check_recipe_name, recipe_names
from equigrad.recipes.setting_names import check_settings, recipe_parameters
from equigrad.terminal import metric_line


class _Flag(NamedTuple):
    """A common setting with its own flag."""

    assignments: tuple[str, ...]  # what it stands for
    kind: Callable[[str], Any]
    text: str  # a line of help
    choices: tuple[str, ...] | None = None


_FLAGS = {
    "epochs": _Flag(("training.schedule.epochs={}", "training.schedule.steps=none"), float, "how long to train"),
    "batch_size": _Flag(("training.batch_size={}",), int, "samples of one optimiser step, over all processes"),
    "lr": _Flag(("training.optimizer.lr={}",), float, "base learning rate"),
    "seed": _Flag(("training.seed={}",), int, "random seed of weights, order and augmentation"),
    "init": _Flag(("init={}",), str, "start from a weight file, or from the folder of an earlier run"),
    "device": _Flag(("device={}",), str, "where to run", ("auto", "cpu", "cuda", "mps")),
    "precision": _Flag(("precision={}",), str, "floating-point precision", ("32", "bf16", "fp16")),
    "workers": _Flag(("training.num_workers={}",), int, "processes that read data"),
}

_CHOICES = {
    "method": "loss, with what belongs to it, such as sampler or second stage",
    "backbone": "lite0, resnet50, resnet101 or timm:NAME",
    "detector": "atss, faster_rcnn, mask_rcnn, retinanet, fcos or yolox_s",
    "segmenter": "deeplabv3plus or pspnet",
    "image_size": "pixels: side of a classifier's input, otherwise the shorter side",
    "frozen": "what is not trained: none, lower or backbone; default of classifiers: auto",
}
"""Arguments that the functions of some recipes have; `equigrad train RECIPE --help` lists what each accepts."""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """`equigrad train RECIPE`."""
    parser = commands.add_parser(
        "train",
        help="train a recipe, in one process or under torchrun",
        description="Train a recipe. `equigrad train RECIPE --help` lists its settings.",
        add_help=False,
    )
    parser.add_argument("recipe", nargs="?", metavar="RECIPE", help="module:function, see `equigrad recipes`")
    parser.add_argument("-h", "--help", action="store_true", help="this help, or the settings of RECIPE")
    # Two names, because torchrun takes --run for an abbreviation of an option of its own.
    parser.add_argument("--run", "--folder", type=Path, help="the run folder; by default runs/MODULE_FUNCTION")
    parser.add_argument("--set", action="append", default=[], metavar="a.b=value", help="change a setting")
    parser.add_argument("--resume", action="store_true", help="continue from the last checkpoint of the run folder")
    add_flags(parser)
    parser.set_defaults(function=train, parser=parser)


def add_flags(parser: argparse.ArgumentParser, without: Sequence[str] = ()) -> None:
    """The flags of the common settings, for `flag_assignments`; those not given are None."""
    parser.set_defaults(**dict.fromkeys(without))
    for name, flag in _FLAGS.items():
        metavar = None if flag.choices else name.upper()
        option = f"--{name.replace('_', '-')}"
        if name not in without:
            parser.add_argument(option, type=flag.kind, choices=flag.choices, metavar=metavar, help=flag.text)
    chosen = parser.add_argument_group("choices of own_data recipes (--method also of others)")
    for name, text in _CHOICES.items():
        if name not in without:
            chosen.add_argument(f"--{name.replace('_', '-')}", metavar=name.upper(), help=text)


def train(parsed: argparse.Namespace, command: Sequence[str]) -> int | None:
    """Train, and print the result beside the published one."""
    if parsed.recipe is None:
        if not parsed.help:
            parsed.parser.error("the following arguments are required: RECIPE")
        parsed.parser.print_help()
        return None
    check_recipe_name(parsed.recipe)  # before torch is imported, which takes seconds
    check_habits(parsed.recipe, parsed.set)
    assignments = flag_assignments(parsed)
    check_settings(parsed.recipe, assignments)
    if not parsed.help and not parsed.resume:  # a run that goes on knows its files
        check_own_files(parsed.recipe, assignments)
    from equigrad.engine import one_voice
    from equigrad.engine.run_log import was_restarted
    from equigrad.recipes.catalogue import load_recipe, resumed_recipe
    from equigrad.recipes.tables import TABLES
    from equigrad.run_files import RECIPE
    from equigrad.tasks.run_folder import task_of

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
    parameters = _parameters(parsed.recipe)
    assignments = list(parsed.set)
    for name, flag in _FLAGS.items():
        value = getattr(parsed, name)
        if value is not None:
            meant = (f"{name}={{}}",) if name in parameters else flag.assignments
            assignments += [assignment.format(_plain(value)) for assignment in meant]
    for name in _CHOICES:
        value = getattr(parsed, name)
        if value is not None:
            if name not in parameters:
                raise UsageError(f"--{name.replace('_', '-')} {value}: {_no_choice(parsed.recipe, name)}")
            assignments.append(f"{name}={value}")
    return assignments


def _parameters(recipe: str) -> Sequence[str]:
    """The arguments of a recipe's function; only a module of the user is imported for them."""
    if recipe.partition(":")[0] in MODULES:
        return recipe_parameters(recipe)
    import inspect

    from equigrad.recipes.catalogue import recipe_function

    return list(inspect.signature(recipe_function(recipe)).parameters)


def _no_choice(recipe: str, name: str) -> str:
    """That a recipe has no such argument, and which have it."""
    having = [other for other in recipe_names() if name in recipe_parameters(other)]
    module = recipe.partition(":")[0]
    near = [other for other in having if other.startswith(f"{module}:")] or having
    return (
        f"{recipe} has no choice of it (its settings: equigrad train {recipe} --help); there is one in "
        f"{', '.join(near[:4])}"
    )


def _plain(value: Any) -> str:
    """A number without a fraction that it does not have: recipes may count epochs as whole numbers."""
    return f"{value:g}" if isinstance(value, float) and value.is_integer() else str(value)


def settings_text(name: str, assignments: Sequence[str]) -> str:
    """Every setting of a recipe with its value, what it accepts and what it is for."""
    import inspect

    from equigrad.recipes.catalogue import load_recipe, recipe_function
    from equigrad.settings import argument_texts, describe, list_settings

    function = recipe_function(name)
    named = load_recipe(name, assignments)
    width = min(shutil.get_terminal_size((120, 24)).columns, 140)
    summary, _, _ = (inspect.getdoc(function) or "").partition("\n\nArgs:")
    lines = [f"equigrad train {name} [--set NAME=VALUE …]", "", *textwrap.wrap(summary, width)]
    parameters = inspect.signature(function).parameters
    chosen = [choice for choice in _CHOICES if choice in parameters]
    flags = ", ".join(f"--{flag.replace('_', '-')}" for flag in (*_FLAGS, *chosen))
    lines += ["", *textwrap.wrap(f"The common settings have their own flags: {flags}.", width)]
    if parameters:
        lines += ["", "arguments of the recipe"]
    texts = argument_texts(function)
    for argument in parameters.values():
        value = named.arguments.get(argument.name, argument.default)
        lines += _entry(argument.name, value, describe(argument.annotation), texts.get(argument.name, ""), width)
    sections: dict[str, list[str]] = {}
    for setting in list_settings(named.recipe):
        top = setting.path.partition(".")[0]
        is_group = dataclasses.is_dataclass(getattr(named.recipe, top))
        heading = f"{top}: {type(getattr(named.recipe, top)).__name__}" if is_group else "run"
        sections.setdefault(heading, []).extend(
            _entry(setting.path, setting.value, setting.kind, setting.text, width)
            if setting.path not in parameters
            else []
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
