"""`equigrad export`: a run as a file to deploy."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from equigrad.commands.unfinished_runs import note_unfinished
from equigrad.errors import UsageError
from equigrad.run_files import read_recipe
from equigrad.terminal import printable

FORMATS = ("onnx", "torch_export", "torchscript")


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """`equigrad export RUN`."""
    parser = commands.add_parser("export", help="export a run to a file to deploy, checked against the run")
    parser.add_argument("run", type=Path, metavar="RUN", help="folder of a finished run")
    parser.add_argument(
        "--format",
        required=True,
        choices=FORMATS,
        help="format of the file; use torchscript only if a program needs it",
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="the file; by default `model` in RUN")
    parser.add_argument("--force", action="store_true", help="replace an existing file")
    parser.add_argument(
        "--images",
        type=Path,
        metavar="FOLDER",
        help="images on which file and run are compared; by default some of the test set",
    )
    parser.add_argument(
        "--image-size",
        type=int,
        nargs=2,
        metavar=("HEIGHT", "WIDTH"),
        help="segmenters: a fixed size; required for runs with sliding windows",
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="a.b=value", help="change a setting of the recipe"
    )
    parser.add_argument("--recipe", metavar="NAME", help="recipe in your own module, for a run with your own parts")
    parser.set_defaults(function=export)


def export(parsed: argparse.Namespace, command: Sequence[str]) -> None:
    """Write the file and print how far it is from the run."""
    read_recipe(parsed.run)  # what is not a run is refused before torch is imported, which takes seconds
    from equigrad.recipes.catalogue import changed_recipe
    from equigrad.tasks.export.run import export as export_run

    if parsed.image_size and min(parsed.image_size) < 1:
        raise UsageError(f"--image-size must be two numbers above 0, got {parsed.image_size[0]} {parsed.image_size[1]}")
    note_unfinished([parsed.run])
    recipe = changed_recipe(parsed.run, parsed.set, parsed.recipe)
    print(f"writing {parsed.format} and comparing it with the run: up to a minute", flush=True)
    exported = export_run(
        recipe,
        parsed.run,
        parsed.format,
        file=parsed.output,
        images=parsed.images,
        image_size=tuple(parsed.image_size) if parsed.image_size else None,
        force=parsed.force,
    )
    size = f"{exported.num_bytes / 1e6:.1f} MB"
    print(printable(f"{exported.file}: {size}, compared with the run on {exported.images}"))
    print(f"largest differences: {exported.difference}")
