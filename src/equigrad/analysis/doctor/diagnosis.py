"""The answer of the doctor, as about ten lines of text and as JSON."""

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from equigrad.analysis.doctor.finding import Finding, worst_first
from equigrad.analysis.doctor.outlook import forecast, outlook
from equigrad.analysis.doctor.tail import Tail

_NUM_SHOWN = 7


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """What was found.

    Args:
        subject: data, run or checkpoint, as the user named it.
        kind: which of the three.
        task: as `equigrad compare` names it; None if unknown.
        tail: None if unknown.
        findings: in any order.
        data: the data as `equigrad compare` takes it; None if unknown.
        precision: that a run was trained with; None if unknown.
        loss: the same.
    """

    subject: str
    kind: Literal["data", "run", "checkpoint"]
    task: str | None
    tail: Tail | None
    findings: list[Finding] = field(default_factory=list)
    data: str | None = None
    precision: str | None = None
    loss: str | None = None

    @property
    def advice(self) -> list[str]:
        """What an equalization loss is expected to gain, and which; empty if the tail or the task is unknown."""
        if self.tail is None or self.task is None or self.tail.num_seen < 2:
            return []
        return outlook(self.tail, self.task, self.data)

    def text(self, machine: str) -> str:
        """About ten lines."""
        known = [self.kind, self.task and self.task.replace("_", " "), self.loss and f"trained with {self.loss}"]
        title = f"{self.subject}: {', '.join(filter(None, known))}"
        findings = worst_first(self.findings)
        lines = [title, *([] if self.tail is None else [f"tail: {self.tail}"])]
        lines += [f"outlook: {line}" for line in self.advice]
        lines += [str(finding) for finding in findings[:_NUM_SHOWN]]
        if len(findings) > _NUM_SHOWN:
            lines.append(f"and {len(findings) - _NUM_SHOWN} more; --json FILE has all")
        if not findings:
            lines.append("nothing looks wrong")
        precision = "" if self.precision is None else f"; the run was trained with precision {self.precision}"
        return "\n".join([*lines, f"machine: {machine}{precision}"])

    def to_json(self, machine: str) -> dict[str, Any]:
        """Everything, for programs."""
        tail = self.tail
        numbers = (
            None
            if tail is None
            else {
                "categories": len(tail.images),
                "seen": tail.num_seen,
                "imbalance_factor": tail.imbalance,
                "gini": tail.gini,
                "tested_few_shot_share": tail.tested_few,
            }
        )
        gain = None
        if tail is not None and self.advice and self.task != "multi_label":
            gain = forecast(tail.imbalance, tail.tested_few)._asdict()
        return {
            "subject": self.subject,
            "kind": self.kind,
            "task": self.task,
            "tail": numbers,
            "gain": gain,
            "advice": self.advice,
            "findings": [asdict(finding) for finding in worst_first(self.findings)],
            "machine": machine,
            "precision": self.precision,
            "loss": self.loss,
        }
