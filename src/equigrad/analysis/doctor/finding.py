"""One thing that looks wrong, the evidence, and how to fix it."""

from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")  # the worst first


@dataclass(frozen=True)
class Finding:
    """A fault, or something good to know.

    Args:
        severity: "error" if the result is wrong, "warning" if it is worse than it needs to be, else "note".
        name: name of the fault, for programs: `never_seen`.
        text: the fault in a few words.
        evidence: the numbers it was found by.
        remedy: a command, or what to do where no command can.
    """

    severity: Severity
    name: str
    text: str
    evidence: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.severity}: {self.text} ({self.evidence}) -> {self.remedy}"


def worst_first(findings: list[Finding]) -> list[Finding]:
    """Errors before warnings before notes, otherwise in the order they were found in."""
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))
