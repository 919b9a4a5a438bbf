"""`equigrad report`: one page that compares runs."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from equigrad.commands.unfinished_runs import note_unfinished

if TYPE_CHECKING:
    from equigrad.analysis.report.examples import FindExamples


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """`equigrad report RUN…`."""
    parser = commands.add_parser("report", help="compare runs on one HTML page")
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="folders of runs; the first is the baseline")
    parser.add_argument(
        "--output", type=Path, default=Path("report.html"), metavar="FILE", help="the page; by default report.html"
    )
    parser.add_argument(
        "--no-images", action="store_true", help="leave out test images, for readers who may not see them"
    )
    parser.set_defaults(function=report)


def report(parsed: argparse.Namespace, command: Sequence[str]) -> None:
    """Write the page and print its path."""
    from equigrad.analysis import write_report

    note_unfinished(parsed.runs)
    with_images = len(parsed.runs) > 1 and not parsed.no_images
    find_examples = _example_finder() if with_images else None
    print(write_report(parsed.runs, parsed.output, command=command, find_examples=find_examples))


def _example_finder() -> "FindExamples":
    """Needs torch, which takes seconds to import."""
    from equigrad.tasks.examples.find import find_examples

    return find_examples
