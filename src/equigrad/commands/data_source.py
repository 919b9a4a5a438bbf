"""How a command line names the data of a user: options that `compare` and `doctor` share, settings of `own_data`."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from equigrad.errors import UsageError

if TYPE_CHECKING:
    from equigrad.tasks.comparison.sources import NamedFiles

_OBJECTS = {"data.train": "annotations/train.json", "data.test": "annotations/val.json", "data.images": "images"}
DEFAULT_FILES = {
    "classification": {"data.train": "train", "data.test": "test"},
    "multi_label": {"data.train": "train.csv", "data.test": "test.csv"},
    "semantic_segmentation": {"data.images": "images", "data.labels": "labels", "data.names": "classes.txt"},
    "detection": _OBJECTS,
    "instance_segmentation": _OBJECTS,
}
"""What the recipes of `own_data` read if nothing is named."""
_PATHS = ("train", "test", "images", "labels", "names", "test_images", "test_labels", "root")
_BELOW_ROOT = ("data.images", "data.labels", "data.test_images", "data.test_labels")  # of semantic segmentation


def check_own_files(recipe: str, assignments: Sequence[str]) -> None:
    """Refuse data of `own_data` that is not there or is no data, before torch is imported, which takes seconds.

    Args:
        recipe: its name; other recipes look for their data themselves.
        assignments: `a.b=value`, as given by `--set`.
    """
    from equigrad.data.detection.formats.yolo import refuse_settings_file
    from equigrad.data.images.stores import check_source

    module, _, name = recipe.partition(":")
    if module != "own_data":
        return
    settings = dict(assignment.split("=", 1) for assignment in assignments)
    if "data" in settings:  # a source of another kind, which has other files or none
        return
    named = {f"data.{path}": settings[f"data.{path}"] for path in _PATHS if f"data.{path}" in settings}
    root = named.get("data.root", ".") if name == "semantic_segmentation" else "."
    for setting, text in (named or DEFAULT_FILES[name]).items():
        path = Path(root, text) if setting in _BELOW_ROOT else Path(text)
        if text != "none":
            check_source(path, setting)
        if setting != "data.names":
            refuse_settings_file(path)


def add_source_options(parser: argparse.ArgumentParser) -> None:
    """What may be named beside the data itself."""
    parser.add_argument(
        "--test",
        type=Path,
        metavar="PATH",
        help="test set in the form of DATA; by default one in DATA, or a held-out part",
    )
    parser.add_argument("--root", type=Path, metavar="FOLDER", help="folder that the paths of a list are relative to")
    parser.add_argument("--images", type=Path, metavar="FOLDER", help="images of a COCO or LVIS file")
    parser.add_argument("--names", type=Path, metavar="FILE", help="names of the categories of label maps")
    parser.add_argument("--task", help="the task, if the data allows several")


def named_files(parsed: argparse.Namespace) -> "NamedFiles":
    """The values of these options."""
    from equigrad.tasks.comparison.sources import NamedFiles

    return NamedFiles(parsed.test, parsed.root, parsed.images, parsed.names)


def checked_task(name: str | None) -> Any:
    """The value of `--task`; ValueError with the nearest known one if there is none such."""
    from equigrad.settings import nearest
    from equigrad.tasks.comparison.sources import TASKS

    if name is not None and name not in TASKS:
        raise UsageError(f"--task {name}: expected one of {', '.join(TASKS)}{nearest(name, TASKS)}")
    return name
