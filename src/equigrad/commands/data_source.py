"""How a command line names the data of a user: options that `compare` and `doctor` share."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from equigrad.tasks.comparison.sources import NamedFiles


def add_source_options(parser: argparse.ArgumentParser) -> None:
    """What may be named beside the data itself."""
    parser.add_argument(
        "--test", type=Path, metavar="PATH", help="test set like DATA; else one in DATA, or a held-out part"
    )
    parser.add_argument("--root", type=Path, metavar="FOLDER", help="what the paths of a list of images start from")
    parser.add_argument("--images", type=Path, metavar="FOLDER", help="images of a COCO or LVIS file")
    parser.add_argument("--names", type=Path, metavar="FILE", help="names of the categories of label maps")
    parser.add_argument("--task", help="what to learn, if the data does not tell")


def named_files(parsed: argparse.Namespace) -> "NamedFiles":
    """The values of these options."""
    from equigrad.tasks.comparison.sources import NamedFiles

    return NamedFiles(parsed.test, parsed.root, parsed.images, parsed.names)


def checked_task(name: str | None) -> Any:
    """The value of `--task`; ValueError with the nearest known one if there is none such."""
    from equigrad.settings import nearest
    from equigrad.tasks.comparison.sources import TASKS

    if name is not None and name not in TASKS:
        raise ValueError(f"--task {name}: expected one of {', '.join(TASKS)}{nearest(name, TASKS)}")
    return name
