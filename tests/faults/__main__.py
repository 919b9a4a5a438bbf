"""Disturb real trainings and look whether anything is lost.

    python -m tests.faults --faults 100 --seed 0 --table docs/faults.md

Fault number n of a seed is always the same one. `--only 17` repeats it alone; `--kind kill_a_rank` does no other.
"""

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import torch
from tests.faults.jobs import Job, train_words
from tests.faults.kinds import KINDS, Lab, possible_kinds

from equigrad.cli import main as train

_BEGIN, _END = "<!-- table -->", "<!-- end of table -->"


def main(words: Sequence[str] | None = None) -> int:
    """Exit code 0 if nothing was lost."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description="Disturb trainings.")
    parser.add_argument("--faults", type=int, default=100, help="how many")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="number of the first fault")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, metavar="N", help="fault number N alone")
    parser.add_argument("--kind", choices=[kind.__name__ for kind in KINDS], help="faults of this kind alone")
    parser.add_argument("--table", type=Path, metavar="FILE", help="page whose table is replaced")
    parsed = parser.parse_args(words)
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
    kinds = possible_kinds()
    for kind in KINDS:
        if kind not in kinds:
            print(f"left out, because it needs the right to mount: {kind.__doc__}")
    if parsed.kind is not None:
        kinds = [kind for kind in kinds if kind.__name__ == parsed.kind]
    numbers = range(parsed.first, parsed.first + parsed.faults) if parsed.only is None else [parsed.only]
    start = time.monotonic()
    outcomes: Counter[tuple[str, str]] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        references = _references(Path(folder))
        for number in numbers:
            kind = kinds[number % len(kinds)]
            outcome = _disturb(kind, Lab(Path(folder, str(number), "run"), references, _random(parsed.seed, number)))
            outcomes[str(kind.__doc__), outcome] += 1
            print(f"{number:3} {kind.__doc__}: {outcome}", flush=True)
    num_lost = sum(count for (_, outcome), count in outcomes.items() if outcome.startswith("LOST"))
    print(f"{len(numbers)} faults, seed {parsed.seed}, {time.monotonic() - start:.0f} s: {num_lost} lost something")
    if parsed.table is not None:
        _replace_table(parsed.table, outcomes)
    return 1 if num_lost else 0


def _random(seed: int, number: int) -> random.Random:
    return random.Random(f"{seed}/{number}")


def _references(folder: Path) -> dict[int, Path]:
    """Runs that nobody disturbs, on one rank and on two."""
    references = {ranks: folder / f"undisturbed_{ranks}" / "run" for ranks in (1, 2)}
    for run in references.values():
        run.parent.mkdir()
    # In this process, so that those forked from it have chosen the glyphs and imported all that a training needs.
    if train(train_words(references[1])) != 0:
        raise SystemExit("the undisturbed run failed")
    job = Job(references[2], ranks=2)
    if job.finish() != [0, 0]:
        raise SystemExit(f"the undisturbed run of two ranks failed: {job.said()}")
    return references


def _disturb(kind, lab: Lab) -> str:
    lab.folder.parent.mkdir()
    try:
        return kind(lab)
    except AssertionError as error:
        return f"LOST ({error})"
    finally:
        shutil.rmtree(lab.folder.parent)


def _replace_table(page: Path, outcomes: Counter[tuple[str, str]]) -> None:
    rows = ["| fault | times | outcome |", "|---|---|---|"]
    for kind in KINDS:
        found = [(outcome, count) for (name, outcome), count in outcomes.items() if name == kind.__doc__]
        rows += [f"| {kind.__doc__} | {count} | {outcome} |" for outcome, count in sorted(found)]
    rows.append(f"| **all** | **{outcomes.total()}** | |")
    before, _, rest = page.read_text().partition(_BEGIN)
    _, _, after = rest.partition(_END)
    page.write_text(f"{before}{_BEGIN}\n" + "\n".join(rows) + f"\n{_END}{after}")


if __name__ == "__main__":
    sys.exit(main())
