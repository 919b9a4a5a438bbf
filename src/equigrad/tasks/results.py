"""The results of a model on the test set, and their files in the run folder.

evaluation.json               metrics and a row for each category: what pages are made of
predictions/                  of the test set: `test.npz`, shards of detections, or label maps on request
report.html                   the page of the run
"""

import io
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equigrad.analysis.evaluation_file import Evaluation
from equigrad.analysis.report import write_report
from equigrad.evaluation.detection.prediction_shards import remove_shards
from equigrad.files import write_atomically
from equigrad.run_files import EVALUATION, LABEL_MAPS, PREDICTIONS, REPORT, TEST_PREDICTIONS


@dataclass(frozen=True, eq=False)
class EvaluationResult:
    """A finished evaluation, the same on every rank.

    Args:
        metrics: with the paper's names; nan where the test set has none.
        categories: a row for each category.
        arrays: more to keep in `predictions/test.npz`.
    """

    metrics: dict[str, float]
    categories: Sequence[Any]
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def save(self, folder: Path) -> None:
        """Write it into the run folder, with the page of the run."""
        Evaluation.from_rows(self.metrics, self.categories).save(folder)
        if self.arrays:
            content = io.BytesIO()
            np.savez_compressed(content, **self.arrays)  # type: ignore[arg-type]
            (folder / TEST_PREDICTIONS).parent.mkdir(parents=True, exist_ok=True)
            write_atomically(folder / TEST_PREDICTIONS, content.getvalue())
        write_report([folder], folder / REPORT)


def remove_results(folder: Path) -> None:
    """Remove the results of an earlier evaluation from a run that is resumed."""
    for file in (EVALUATION, REPORT, TEST_PREDICTIONS):
        (folder / file).unlink(missing_ok=True)
    shutil.rmtree(folder / LABEL_MAPS, ignore_errors=True)
    remove_shards(folder / PREDICTIONS)
