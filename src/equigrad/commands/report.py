"""`equigrad report`: one page that compares runs."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from equigrad.commands.unfinished_runs import note_unfinished


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """`equigrad report RUN…`."""
    parser = commands.add_parser("report", help="one HTML page comparing runs")
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN")
    parser.add_argument("--output", type=Path, default=Path("report.html"), metavar="FILE")
    parser.set_defaults(function=report)


def report(parsed: argparse.Namespace, command: Sequence[str]) -> None:
    """Write the page and print its path."""
    from equigrad.analysis import write_report
    from equigrad.tasks.examples.find import find_examples

    note_unfinished(parsed.runs)
    print(write_report(parsed.runs, parsed.output, command=command, find_examples=find_examples))
