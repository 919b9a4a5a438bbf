"""What a fuzzer found."""

from dataclasses import dataclass, field
from typing import NamedTuple


class Outcome(NamedTuple):
    """How a case went: "right", "refused" or what is wrong, in a few words that stay the same when it shrinks."""

    verdict: str
    detail: str = ""

    @property
    def is_failure(self) -> bool:
        return self.verdict not in ("right", "refused")


@dataclass
class Summary:
    """Counts of the cases that were tried; every other case is a failure."""

    cases: int = 0
    right: int = 0
    refused: int = 0  # with the error that the contract promises
    failures: list[str] = field(default_factory=list)  # each the smallest case that still fails, to be run again

    def __str__(self) -> str:
        counts = f"{self.cases} cases: {self.right} right, {self.refused} refused, {len(self.failures)} failures"
        return "\n\n".join([counts, *self.failures])
