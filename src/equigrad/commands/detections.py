"""`equigrad evaluate PREDICTIONS.json --annotations FILE`: any tool's detections, without a model."""

import argparse
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from equigrad.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from equigrad.data.detection.data import DetectionData
    from equigrad.evaluation.detection.predictions import Predictions
    from equigrad.evaluation.detection.result import DetectionResult


def add_arguments(evaluate: argparse.ArgumentParser) -> None:
    """What `equigrad evaluate` takes for detections."""
    group = evaluate.add_argument_group("detections in COCO's result format, instead of a run")
    group.add_argument(
        "--annotations", type=Path, metavar="FILE", help="COCO or LVIS file with annotations of these images"
    )
    group.add_argument("--iou-type", choices=("bbox", "segm"), default="bbox", help="compare boxes or masks (bbox)")
    group.add_argument(
        "--protocol", choices=("lvis", "coco"), help="rules of the metrics; by default those of the file"
    )
    group.add_argument(
        "--train-annotations", type=Path, metavar="FILE", help="annotations whose counts define the groups"
    )
    group.add_argument(
        "--norcal",
        type=float,
        metavar="POWER",
        help="first divide each score by this power of the training images of its category (--train-annotations); AP "
        "moves only where an image has more detections than are counted. The whole method needs the model: "
        "evaluate RUN --set method=norcal --output FOLDER",
    )
    group.add_argument("--html", type=Path, metavar="FILE", help="write a page with every category")


def evaluate_file(parsed: argparse.Namespace, command: Sequence[str]) -> None:
    """Evaluate, print the metrics and write what was asked for."""
    from equigrad.data.detection.formats.coco_index import indexed_coco
    from equigrad.evaluation.detection.evaluator import evaluate, load_predictions
    from equigrad.evaluation.tables import write_table
    from equigrad.files import write_atomically

    annotations = indexed_coco(parsed.annotations)
    train_counts = _train_counts(parsed.train_annotations, annotations)
    predictions = load_predictions(parsed.run, annotations, parsed.iou_type)
    if parsed.norcal is not None:
        predictions = _calibrated(predictions, train_counts, parsed.norcal)
    evaluated = evaluate(predictions, annotations, parsed.iou_type, parsed.protocol, train_counts=train_counts)
    result = {name: None if math.isnan(value) else value for name, value in evaluated.result().items()}
    if parsed.json:
        parsed.json.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(parsed.json, (json.dumps(result, indent=1, allow_nan=False) + "\n").encode())
    if parsed.csv:
        write_table(evaluated.per_category(), parsed.csv)
    if parsed.html:
        _write_page(evaluated, parsed.run, parsed.html, command)
    width = max(map(len, result))
    for name, value in result.items():
        print(f"{name:{width}} {'–' if value is None else f'{100 * value:6.2f}':>6}")


def _train_counts(file: Path | None, annotations: "DetectionData") -> "NDArray[np.int64] | None":
    from equigrad.data.detection.formats.coco_index import indexed_coco

    if file is None:
        return None
    train = indexed_coco(file)
    # As texts, because one of two tools may have written numbers as texts.
    wanted, known = (list(map(str, data.categories.ids.tolist())) for data in (annotations, train))
    if sorted(wanted) != sorted(known):
        raise ValueError(f"{file}: expected the category ids of {annotations.source}, got others")
    return train.category_counts[[known.index(number) for number in wanted]]


def _calibrated(predictions: "Predictions", train_counts: "NDArray[np.int64] | None", power: float) -> "Predictions":
    from equigrad.tasks.detection.calibration import norcal_predictions

    if train_counts is None:
        raise UsageError("--norcal needs the counts of the training set: --train-annotations FILE")
    return norcal_predictions(predictions, train_counts, power)


def _write_page(evaluated: "DetectionResult", predictions: Path, file: Path, command: Sequence[str]) -> None:
    from equigrad.analysis import Evaluation, RunHistory
    from equigrad.analysis.comparison import compare
    from equigrad.analysis.report import write_comparison

    evaluation = Evaluation.from_rows(evaluated.result(), evaluated.per_category())
    run = RunHistory(predictions.stem, predictions.parent, recipe={}, metrics=(), statistics={}, evaluation=evaluation)
    write_comparison(compare([run]), file, command=command)
