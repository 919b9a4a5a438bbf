"""The command line. A bad argument, file or data set gets one line on stderr; a traceback is for bugs only."""

import argparse
import os
import sys
from collections.abc import Sequence

from equigrad.commands import (
    compare,
    data,
    demo,
    doctor,
    evaluate,
    export,
    figure,
    predict,
    recipes,
    report,
    table,
    train,
)
from equigrad.commands.exit_codes import FAILED, STOPPED, WRONG_USAGE
from equigrad.commands.parser import OneLineParser
from equigrad.commands.version import ShowVersion
from equigrad.errors import UsageError, one_line

_TRAIN_EXTRA = [
    "contourpy",
    "hotcoco",
    "lightning",
    "matplotlib",
    "msgspec",
    "numpy",
    "PIL",
    "pycocotools",
    "rich",
    "safetensors",
    "tensorboard",
    "torchvision",
    "yaml",
]
"""Modules of the `train` extra, which the losses alone do not need."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; 0 is success, 1 that the work failed, 2 wrong usage, 3 that it was stopped on request."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        parsed = _parser().parse_args(words)
        code: int | None = parsed.function(parsed, ["equigrad", *words])
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _TRAIN_EXTRA:
            raise
        print(f"equigrad: {error}; install what commands need: pip install 'equigrad[train]'", file=sys.stderr)
        return FAILED
    except BrokenPipeError:  # `equigrad recipes | head`: the reader has what it wanted
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, OSError) as error:  # EngineError is a ValueError
        print(f"equigrad: {one_line(error)}", file=sys.stderr)
        return WRONG_USAGE if isinstance(error, UsageError) else FAILED
    except KeyboardInterrupt:
        print("equigrad: interrupted", file=sys.stderr)
        return STOPPED
    return code or 0


def _parser() -> argparse.ArgumentParser:
    parser = OneLineParser(
        prog="equigrad", description="Train classifiers, detectors and segmenters on long-tailed data."
    )
    parser.add_argument("--version", action=ShowVersion)
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for command in (demo, recipes, train, evaluate, predict, export, report, table, figure, compare, doctor, data):
        command.add_parser(commands)
    return parser
