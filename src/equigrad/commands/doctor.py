"""`equigrad doctor`: how long the tail is, what is likely to help, what looks wrong, and what mends it."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """`equigrad doctor DATA|RUN|CHECKPOINT`."""
    parser = commands.add_parser("doctor", help="how long the tail is, what will help, what looks wrong")
    parser.add_argument(
        "subject",
        type=Path,
        metavar="DATA|RUN|CHECKPOINT",
        help="data as `compare` takes it, the folder of a run, or a file with the state_dict of a loss",
    )
    parser.add_argument("--test", type=Path, metavar="PATH", help="test set like DATA; else one in DATA")
    parser.add_argument("--root", type=Path, metavar="FOLDER", help="what the paths of a list of images start from")
    parser.add_argument("--images", type=Path, metavar="FOLDER", help="images of a COCO or LVIS file")
    parser.add_argument("--names", type=Path, metavar="FILE", help="names of the categories of label maps")
    parser.add_argument("--task", help="what to learn, if the data does not tell")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything as one object")
    parser.set_defaults(function=doctor)


def doctor(parsed: argparse.Namespace, command: Sequence[str]) -> None:
    """Print the diagnosis; finding a fault is success."""
    from equigrad.commands.compare import checked_task
    from equigrad.commands.version import machine_text
    from equigrad.files import write_atomically
    from equigrad.tasks.comparison.sources import NamedFiles
    from equigrad.tasks.diagnosis import diagnose
    from equigrad.terminal import printable

    named = NamedFiles(parsed.test, parsed.root, parsed.images, parsed.names)
    diagnosis = diagnose(parsed.subject, named, checked_task(parsed.task))
    machine = machine_text()
    print("\n".join(printable(line) for line in diagnosis.text(machine).split("\n")))
    if parsed.json:
        content = json.dumps(diagnosis.to_json(machine), indent=1, allow_nan=False)
        parsed.json.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(parsed.json, (content + "\n").encode())
