"""What a segmenter did on the test set, and what of it stays in the run folder.

evaluation.json               metrics and a row for each category: what pages are made of
predictions/test.npz          confusion (C, C) in pixels, a row for each true category; class_names (C,)
predictions/label_maps/       on request, an index PNG for each test image with its categories 0 … C-1
report.html                   the page of the run
"""

import io
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image
from torch import Tensor

from equigrad.analysis.history import EVALUATION, Evaluation
from equigrad.analysis.report import write_report
from equigrad.evaluation.segmentation import SegmentationEvaluator
from equigrad.files import write_atomically

PREDICTIONS = Path("predictions", "test.npz")
LABEL_MAPS = Path("predictions", "label_maps")
REPORT = "report.html"


@dataclass(frozen=True, eq=False)
class SegmentationTest:
    """A finished test, the same on every rank."""

    evaluator: SegmentationEvaluator
    evaluation: Evaluation
    confusion: Tensor  # (C, C)

    @classmethod
    def of(cls, evaluator: SegmentationEvaluator) -> "SegmentationTest":
        """What an evaluator has counted, over all ranks; every rank must call."""
        evaluation = Evaluation.from_rows(evaluator.result(), evaluator.per_category())
        return cls(evaluator, evaluation, evaluator.confusion())

    def result(self) -> dict[str, float]:
        """Metrics with the paper's names; nan where the test set cannot tell."""
        metrics = self.evaluation.result
        return {name: float("nan") if value is None else value for name, value in metrics.items()}

    def save(self, folder: Path) -> None:
        """Keep it in the run folder, with the page of the run."""
        self.evaluation.save(folder)
        content = io.BytesIO()
        class_names = np.asarray(self.evaluator.class_names, dtype=np.str_)
        np.savez_compressed(content, confusion=self.confusion.numpy(), class_names=class_names)
        (folder / PREDICTIONS).parent.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / PREDICTIONS, content.getvalue())
        write_report([folder], folder / REPORT)


def save_label_map(labels: Tensor, folder: Path, name: str) -> None:
    """Keep predicted categories (H, W) of a test image in the run folder."""
    file = folder / LABEL_MAPS / f"{name}.png"
    file.parent.mkdir(parents=True, exist_ok=True)
    content = io.BytesIO()
    Image.fromarray(labels.cpu().numpy().astype(np.uint8)).save(content, "PNG")
    write_atomically(file, content.getvalue())


def remove_results(folder: Path) -> None:
    """Forget an earlier test."""
    for file in (EVALUATION, PREDICTIONS, REPORT):
        (folder / file).unlink(missing_ok=True)
    shutil.rmtree(folder / LABEL_MAPS, ignore_errors=True)
