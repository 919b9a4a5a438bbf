"""Damaged files of every kind that is read: one line that names the file, or a right result, and nothing else.

    python -m tests.fuzz --only readers --cases 1000000 --seed 1

A failure is printed as the smallest content of the damaged file that still fails in the same way.
"""

import os
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz.readers_mutations import mutated
from tests.fuzz.readers_subjects import SUBJECTS, Subject
from tests.fuzz.summary import Outcome, Summary

MAX_SECONDS = 2.0  # of the processor; the YAML parser takes one to find that a file is nested too deeply
_SHRINKING_SECONDS = 10.0  # for making a failing file smaller


class Example:
    """The files of a subject in a folder of its own, and what a reader says of them as long as they are whole."""

    def __init__(self, subject: Subject, folder: Path) -> None:
        self.subject, self.folder = subject, folder
        folder.mkdir()
        subject.make(folder)
        self.contents = {name: (folder / name).read_bytes() for name in subject.files}
        self.result = subject.read(folder)
        self.names = {path.name for path in folder.rglob("*")}

    def outcome(self, name: str, content: bytes) -> Outcome:
        """What a reader makes of the example with another content of one file."""
        (self.folder / name).write_bytes(content)
        start = time.process_time()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # a warning would be one more line on the terminal
                warnings.simplefilter("ignore", ResourceWarning)
                result = self.subject.read(self.folder)
                verdict = self._judged(result)
        except (ValueError, OSError) as error:
            verdict = self._refused(error)
        except Exception as error:
            verdict = Outcome(f"raises {type(error).__name__}", f"{error}"[:300])
        finally:
            (self.folder / name).write_bytes(self.contents[name])
        seconds = time.process_time() - start
        return Outcome("takes long", f"{seconds:.1f} s") if seconds > MAX_SECONDS else verdict

    def _judged(self, result: Any) -> Outcome:
        if result == self.result or self.subject.is_right(self.folder, result):
            return Outcome("right")
        return Outcome("wrong result", repr(result)[:500])

    def _refused(self, error: Exception) -> Outcome:
        text = str(error)
        if len(text.splitlines()) != 1:
            return Outcome("more than one line", repr(text)[:300])
        if str(self.folder) not in text:
            return Outcome("names no file", text[:300])
        return Outcome("refused", text)


def run(cases: int, seed: int) -> Summary:
    """Try so many damaged files; the seed says which."""
    summary, known = Summary(), set[tuple[str, ...]]()
    with examples() as made:
        for number in range(cases):
            random = Random(f"{seed} {number}")
            kind = random.choice(list(made))
            example = made[kind]
            name = random.choice(example.subject.files)
            content = mutated(example.contents[name], random)
            found = example.outcome(name, content)
            summary.cases += 1
            summary.right += found.verdict == "right"
            summary.refused += found.verdict == "refused"
            if found.is_failure and (kind, name, found.verdict) not in known:
                known.add((kind, name, found.verdict))
                summary.failures.append(described(kind, example, name, smallest(example, name, content)))
    return summary


@contextmanager
def examples(kinds: tuple[str, ...] = tuple(SUBJECTS)) -> Iterator[dict[str, Example]]:
    """An example of each kind, in memory where the system has a folder for that."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=memory) as folder:
        yield {kind: Example(SUBJECTS[kind], Path(folder, kind.replace(" ", "_"))) for kind in kinds}


def smallest(example: Example, name: str, content: bytes) -> bytes:
    """The content without all parts that the failure does not need: halves, quarters, … down to single bytes."""
    verdict, end = example.outcome(name, content).verdict, time.process_time() + _SHRINKING_SECONDS
    before = None
    while content != before and time.process_time() < end:
        before = content
        halves = [len(content) >> power for power in range(1, 20)]
        for size in [*(half for half in halves if half > 8), *range(8, 0, -1)]:
            start = 0
            while start < len(content) and time.process_time() < end:
                shorter = content[:start] + content[start + size :]
                if example.outcome(name, shorter).verdict == verdict:
                    content = shorter
                else:
                    start += 1 if size <= 8 else size
    return content


def described(kind: str, example: Example, name: str, content: bytes) -> str:
    """A failure in a few lines."""
    found = example.outcome(name, content)
    return f"{kind}: {name} {found.verdict} ({found.detail})\n  content: {content[:2000]!r}"
