"""`equigrad doctor`: how long the tail is, what may help, what looks wrong, and how to fix it."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from equigrad.commands.data_source import add_source_options, checked_task, named_files


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """`equigrad doctor DATA|RUN|CHECKPOINT`."""
    parser = commands.add_parser("doctor", help="say how long the tail is, what will help, and what looks wrong")
    parser.add_argument(
        "subject",
        type=Path,
        metavar="DATA|RUN|CHECKPOINT",
        help="data as for `compare`, a run folder, or a file with the state_dict of a loss",
    )
    add_source_options(parser)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all findings as one JSON object")
    parser.set_defaults(function=doctor)


def doctor(parsed: argparse.Namespace, command: Sequence[str]) -> None:
    """Print the diagnosis; finding a fault is success."""
    from equigrad.data.images.stores import check_exists

    check_exists(parsed.subject, "data, run or checkpoint")  # before torch is imported, which takes seconds
    from equigrad.commands.version import machine_text
    from equigrad.files import write_atomically
    from equigrad.tasks.diagnosis import diagnose
    from equigrad.terminal import printable

    diagnosis = diagnose(parsed.subject, named_files(parsed), checked_task(parsed.task))
    machine = machine_text()
    print("\n".join(printable(line) for line in diagnosis.text(machine).split("\n")))
    if parsed.json:
        content = json.dumps(diagnosis.to_json(machine), indent=1, allow_nan=False)
        parsed.json.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(parsed.json, (content + "\n").encode())
