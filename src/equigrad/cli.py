"""The command line. A bad argument, file or data set gets one line on stderr; a traceback is for bugs only."""

import argparse
import sys
from collections.abc import Sequence

from equigrad.commands import data, demo, prediction, recipes, training


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
    except KeyboardInterrupt:
        print("equigrad: interrupted", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="equigrad", description="Training recognisers on long-tailed data.")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    for add_to in (demo.add_parser, recipes.add_parser, training.add_parsers, prediction.add_parser, data.add_parser):
        add_to(commands)
    return parser
