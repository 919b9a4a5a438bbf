"""What the checks of data report: one line for each kind of fault, and whether it would make training wrong."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Self

from equigrad.terminal import printable

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")  # the worst first


@dataclass(frozen=True)
class Finding:
    """One kind of fault, how often it occurs, and the first case.

    `severity` is "error" if reading would fail or training or evaluation would be wrong, "warning" for something odd
    with which training still does what it should, and "note" for something good to know.
    """

    severity: Severity
    kind: str
    count: int
    first: str

    @classmethod
    def of(cls, severity: Severity, kind: str, cases: Sequence[str]) -> Self:
        """A finding of one or more cases, each described by a text."""
        return cls(severity, kind, len(cases), cases[0])

    def __str__(self) -> str:
        number = f"{self.count:,}, the first is " if self.count > 1 else ""
        return printable(f"{self.severity}: {self.kind}: {number}{self.first}")


def errors(findings: Iterable[Finding]) -> list[Finding]:
    """The findings that would make training or evaluation wrong."""
    return [finding for finding in findings if finding.severity == "error"]
