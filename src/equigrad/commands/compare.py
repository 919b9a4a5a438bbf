"""`equigrad compare DATA`: which method works on your own data, with spread, and one sentence of advice."""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from equigrad.commands import train
from equigrad.commands.data_source import add_source_options, checked_task, named_files
from equigrad.commands.exit_codes import STOPPED
from equigrad.commands.parser import positive
from equigrad.errors import UsageError
from equigrad.terminal import printable

if TYPE_CHECKING:
    from equigrad.tasks.comparison.last_layer import LastLayer
    from equigrad.tasks.comparison.rows import Method

# Compared without --methods, where the task has them: the plain loss first.
_DEFAULT_METHODS = ("ce", "fl", "balanced_softmax", "softmax_eql", "sigmoid_eql", "efl")
_DEFAULT_OF_MULTI_LABEL = ("bce", "fl", "sigmoid_eql", "efl")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_ON_FEATURES = ("classification", "multi_label")  # tasks whose last layers are compared on frozen features
_LAST_LAYER = ("epochs", "batch_size", "lr")  # flags that a last layer on frozen features has


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """`equigrad compare DATA`."""
    parser = commands.add_parser(
        "compare",
        help="measure methods on your own data, with intervals and advice",
        description="Measure methods on your own data. Images with one or several categories each are compared on the "
        "features of a frozen backbone, in minutes; --trained trains whole models, and is how objects and label maps "
        "are compared. If it is stopped, the same command continues.",
    )
    parser.add_argument(
        "data", type=Path, metavar="DATA", help="folder, list or CSV file of images, COCO or LVIS file, label maps"
    )
    parser.add_argument("--methods", help="comma-separated, the baseline first; NAME=METHOD adds a variant")
    parser.add_argument("--seeds", type=positive, default=3, metavar="N", help="number of trainings per method (3)")
    add_source_options(parser)
    parser.add_argument("--trained", action="store_true", help="train whole models with own_data:TASK")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="a.b=value",
        help="change a setting of all methods, or of one: softmax_eql.loss.prior_power=2",
    )
    parser.add_argument(
        "--folder", type=Path, default=Path("runs/compare"), help="where rows, tables and the page are written"
    )
    train.add_flags(parser, without=("seed", "method"))
    parser.set_defaults(function=compare)


def compare(parsed: argparse.Namespace, command: Sequence[str]) -> int | None:
    """Measure what is not there yet, then write tables, figure and page."""
    from equigrad.data.images.stores import check_exists

    check_exists(parsed.data, "file or folder of data")  # before torch is imported, which takes seconds
    from equigrad.engine import one_voice
    from equigrad.engine.run_lock import run_lock
    from equigrad.recipes.catalogue import check_links
    from equigrad.tasks.comparison.results import write_results
    from equigrad.tasks.comparison.rows import ComparisonFolder, frozen_measure, measure_rows, trained_measure

    task, methods, compared = _methods(parsed)
    last_layer = _last_layer(parsed, task)
    folder = ComparisonFolder(parsed.folder, task, last_layer)
    check_links(parsed.folder)
    with run_lock(parsed.folder, command), one_voice():
        folder.keep_settings({name: methods[name] for name in compared})
        print(
            f"{task.replace('_', ' ')}: {len(compared)} methods, {parsed.seeds} seed{'s' * (parsed.seeds > 1)}",
            flush=True,
        )
        try:
            if last_layer is not None:
                measure = frozen_measure(folder, methods, last_layer)
            else:
                measure = trained_measure(folder, methods, command)
            is_complete = measure_rows(folder, compared, parsed.seeds, measure)
        except KeyboardInterrupt:
            is_complete = False
        except (ValueError, OSError):
            folder.forget_if_nothing_began()
            raise
        if not is_complete:
            print("equigrad: stopped; the same command continues", file=sys.stderr)
            return STOPPED
        shown = {name: methods[name] for name in compared}
        print("", write_results(folder, shown, parsed.seeds, printable(parsed.data.name), command), "", sep="\n")
    print(f"The page: {parsed.folder}/report.html   Tables: table.md, table.csv, rows.csv and categories.csv beside it")
    return None


def _methods(parsed: argparse.Namespace) -> tuple[str, "dict[str, Method]", list[str]]:
    """The task, all methods that are trained, and those that are compared: first stages may not be among them."""
    from equigrad.recipes.catalogue import load_recipe
    from equigrad.recipes.choices import default_detector
    from equigrad.recipes.methods.classification import FIRST_STAGES
    from equigrad.tasks.comparison.rows import Method
    from equigrad.tasks.comparison.sources import assignments_of, find_source

    task, source = find_source(parsed.data, named_files(parsed), checked_task(parsed.task))
    if task == "detection" and parsed.detector is None:
        # One detector for all methods: that of the first.
        parsed.detector = default_detector((parsed.methods or "").partition(",")[0].rpartition("=")[2].strip() or None)
    chosen = _chosen(parsed.methods, task, parsed.detector)
    # Each variant starts from its own first stage, which shares its name where that is compared as well.
    stages = {name: str(FIRST_STAGES[method]) for name, method in chosen.items() if method in FIRST_STAGES}
    for name, stage in stages.items():
        if stage not in chosen and not _is_frozen(parsed, task):
            raise UsageError(f"--methods {name}: it starts from a run with {stage}; add {stage} before it")
    methods = {}
    for name, method in {**chosen, **{stage: stage for stage in stages.values() if stage not in chosen}}.items():
        assignments = [f"method={method}", *assignments_of(source), *_settings(parsed, name, chosen, task)]
        try:
            loaded = load_recipe(f"own_data:{task}", assignments)
        except ValueError as error:
            if not any(assignment.startswith(f"{name}.") for assignment in parsed.set):
                raise
            raise UsageError(str(error).replace("method.", f"{name}.")) from None  # as the user wrote it
        methods[name] = Method(loaded.recipe, loaded.source(), stages.get(name))
    return task, methods, list(chosen)


def _chosen(text: str | None, task: str, detector: str | None) -> dict[str, str]:
    """Methods by their name in the comparison."""
    from equigrad.recipes.catalogue import rows_of_recipe
    from equigrad.settings import nearest

    rows = rows_of_recipe(f"own_data:{task}", [f"detector={detector}"] if detector and task == "detection" else [])
    known, chosen = [row[0].removeprefix("method=") for row in rows], dict[str, str]()
    default = _DEFAULT_OF_MULTI_LABEL if task == "multi_label" else _DEFAULT_METHODS
    words = text.split(",") if text is not None else [name for name in default if name in known]
    for word in filter(None, map(str.strip, words)):
        name, _, method = word.partition("=")
        method = method or name
        if method not in known:
            raise UsageError(f"--methods {method}: {task} has {', '.join(known)}{nearest(method, known)}")
        if not _NAME.fullmatch(name) or (name != method and name in known):
            raise UsageError(f"--methods {word}: the name of a variant must be new, of letters, digits, _, . and -")
        if name in chosen:
            raise UsageError(f"--methods {word}: {name} is there twice; name a variant: --methods {name},NAME={method}")
        chosen[name] = method
    if not chosen:
        raise UsageError(f"--methods: expected comma-separated names of {', '.join(known)}")
    return chosen


def _settings(parsed: argparse.Namespace, name: str, chosen: dict[str, str], task: str) -> list[str]:
    """What `--set` and the flags change in the recipe of a method."""
    given = vars(parsed) | {"recipe": f"own_data:{task}", "set": []}
    for assignment in parsed.set:
        owner, dot, rest = assignment.partition(".")
        if not dot or owner not in chosen:
            given["set"].append(assignment)
        elif owner == name:
            given["set"].append(f"method.{rest}")
    if _is_frozen(parsed, task):
        if parsed.frozen is not None:
            raise UsageError(f"--frozen {parsed.frozen}: without --trained the backbone is frozen anyway")
        for assignment in given["set"]:
            if assignment.startswith("training."):
                raise UsageError(f"--set {assignment}: is for --trained; here --epochs, --batch-size and --lr go")
        given |= dict.fromkeys(_LAST_LAYER)
    if task in _ON_FEATURES and parsed.frozen is None:
        given["frozen"] = "none"  # whole models, or last layers on features that the comparison computes itself
    return train.flag_assignments(argparse.Namespace(**given))


def _last_layer(parsed: argparse.Namespace, task: str) -> "LastLayer | None":
    from equigrad.tasks.comparison.last_layer import LastLayer

    if not _is_frozen(parsed, task):
        return None
    given = {name: getattr(parsed, name) for name in _LAST_LAYER}
    if given["epochs"] is not None:
        given["epochs"] = _whole(given["epochs"])
    return LastLayer(**{name: value for name, value in given.items() if value is not None})


def _is_frozen(parsed: argparse.Namespace, task: str) -> bool:
    return task in _ON_FEATURES and not parsed.trained


def _whole(epochs: float) -> int:
    if not epochs.is_integer():
        raise UsageError(f"--epochs {epochs:g}: a last layer is trained for whole epochs")
    return int(epochs)
