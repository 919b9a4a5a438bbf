"""What a detector did on the test set, and what of it stays in the run folder.

evaluation.json      metrics and a row for each category: what pages are made of
predictions/         detections of the test images in shards, for `equigrad evaluate predictions --annotations FILE`
report.html          the page of the run
"""

from dataclasses import dataclass
from pathlib import Path

from equigrad.analysis.history import EVALUATION, Evaluation
from equigrad.analysis.report import write_report
from equigrad.evaluation.detection.prediction_shards import remove_shards
from equigrad.recipes.detection_data import Evaluator

PREDICTIONS = "predictions"
REPORT = "report.html"


@dataclass(frozen=True, eq=False)
class DetectionTest:
    """A finished test, the same on every rank."""

    evaluator: Evaluator
    metrics: dict[str, float]
    evaluation: Evaluation

    @classmethod
    def of(cls, evaluator: Evaluator) -> "DetectionTest":
        """What an evaluator has collected, over all ranks; every rank must call."""
        metrics = evaluator.result()
        return cls(evaluator, metrics, Evaluation.from_rows(metrics, evaluator.per_category()))

    def result(self) -> dict[str, float]:
        """Metrics with the paper's names; nan where the test set cannot tell."""
        return self.metrics

    def save(self, folder: Path) -> None:
        """Keep it in the run folder, with the page of the run."""
        self.evaluation.save(folder)
        write_report([folder], folder / REPORT)


def remove_results(folder: Path) -> None:
    """Forget an earlier test."""
    for file in (EVALUATION, REPORT):
        (folder / file).unlink(missing_ok=True)
    remove_shards(folder / PREDICTIONS)
