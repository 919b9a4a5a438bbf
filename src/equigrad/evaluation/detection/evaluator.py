"""Metrics of detection and instance segmentation: LVIS and COCO average precision, AP-fixed and AP-pool.

result = evaluate_predictions("predictions.json", annotations)       # detections of any tool
result.result()                                                      # {"AP": 0.255, …, "APr": 0.177, …}

evaluator = DetectionEvaluator(annotations, folder)                  # during inference: predictions are written to disk
for images, targets in loader:
    evaluator.add(model(images, targets), targets)
evaluator.result()
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pycocotools.mask as mask_api  # type: ignore[import-untyped]
import torch.distributed as dist
from numpy.typing import ArrayLike
from torch import Tensor

from equigrad.evaluation.detection.annotations import Annotations
from equigrad.evaluation.detection.hotcoco_scores import SIZES, IouType, compare, precision_and_recall
from equigrad.evaluation.detection.prediction_files import read_predictions
from equigrad.evaluation.detection.prediction_shards import (
    PredictionWriter,
    finished_images,
    has_shards,
    read_shards,
    remove_shards,
)
from equigrad.evaluation.detection.predictions import Predictions
from equigrad.evaluation.detection.result import DetectionResult, DetectionRow, category_facts
from equigrad.evaluation.detection.rules import COCO, LVIS, Rules, select
from equigrad.evaluation.gathering import gather_files, is_distributed, own_rank, sees_first_folder

Protocol = Literal["lvis", "coco"]


def evaluate_predictions(
    predictions_file: str | os.PathLike[str],
    annotations: Annotations,
    iou_type: IouType = "bbox",
    protocol: Protocol | None = None,
    *,
    train_counts: ArrayLike | None = None,
) -> DetectionResult:
    """Evaluate a file of detections in the standard result format, or a folder written by `PredictionWriter`.

    Args:
        predictions_file: a JSON file or a folder.
        annotations: the annotations of the same images.
        iou_type: whether boxes ("bbox") or masks ("segm") are compared.
        protocol: the rules of a benchmark; None takes LVIS's if the annotations are federated, else COCO's.
        train_counts: training images of each category, (C,), which make the groups if the annotations do not.

    Raises:
        ValueError: names the entry and field of the file that is wrong.
    """
    predictions = load_predictions(predictions_file, annotations, iou_type)
    return evaluate(predictions, annotations, iou_type, protocol, train_counts=train_counts)


def load_predictions(
    predictions_file: str | os.PathLike[str], annotations: Annotations, iou_type: IouType = "bbox"
) -> Predictions:
    """Read the detections of a file or folder for `evaluate`; see `evaluate_predictions`."""
    path = Path(predictions_file)
    predictions = read_shards(path, annotations) if path.is_dir() else read_predictions(path, annotations)
    if iou_type == "segm" and predictions.masks is None and len(predictions):
        raise ValueError(f"{path}: expected detections with a segmentation, found none; evaluate boxes (bbox) instead")
    return predictions


def evaluate(
    predictions: Predictions,
    annotations: Annotations,
    iou_type: IouType = "bbox",
    protocol: Protocol | Rules | None = None,
    *,
    train_counts: ArrayLike | None = None,
) -> DetectionResult:
    """Evaluate detections in memory; see `evaluate_predictions`."""
    rules = _rules(annotations, protocol)
    facts = category_facts(annotations, train_counts)
    selection = select(predictions, annotations, rules)
    selected = compare(predictions, selection, annotations, rules, iou_type)
    fixed = selected.with_detections(selection.is_fixed)
    precision, recall = precision_and_recall(selected.with_detections(selection.is_standard), iou_type)
    if (selection.is_standard == selection.is_fixed).all():
        fixed_precision = precision[:, :1]
    else:
        fixed_precision, _ = precision_and_recall(fixed, iou_type, SIZES[:1])
    pool_precision, _ = precision_and_recall(fixed.pooled(), iou_type, SIZES[:1])
    return DetectionResult(
        rules,
        facts,
        precision,
        recall[:, :, -1],
        recall[:, 0, :-1],
        fixed_precision[:, 0],
        pool_precision[0, 0],
    )


def _rules(annotations: Annotations, protocol: Protocol | Rules | None) -> Rules:
    if isinstance(protocol, Rules):
        return protocol
    if protocol is None:
        protocol = "coco" if annotations.negative is None else "lvis"
    if protocol not in ("lvis", "coco"):
        raise ValueError(f'protocol must be "lvis", "coco" or None, got {protocol!r}')
    return LVIS if protocol == "lvis" else COCO


class DetectionEvaluator:
    """Writes predictions to disk as they are added, and computes the metrics at the end.

    With several ranks, each writes its own shards, and the first evaluates them; every rank calls `result` and gets the
    same. Where `folder` is not on a file system that all ranks share, the shards are sent to the first rank. An image
    that is added twice counts once: samplers repeat images so that all ranks have equally many.

    Args:
        annotations: the annotations of the test set.
        folder: where predictions are written.
        iou_types: whether boxes, masks or both are compared; with both, the metrics of boxes are APb, APb50, ….
        protocol: see `evaluate_predictions`.
        train_counts: see `evaluate_predictions`.
        resume: keep the predictions of an interrupted evaluation in the folder, and skip their images.
    """

    def __init__(
        self,
        annotations: Annotations,
        folder: str | os.PathLike[str],
        *,
        iou_types: Sequence[IouType] = ("bbox",),
        protocol: Protocol | None = None,
        train_counts: ArrayLike | None = None,
        resume: bool = False,
    ) -> None:
        if not iou_types or not set(iou_types) <= {"bbox", "segm"}:
            raise ValueError(f"iou_types must be bbox, segm or both, got {iou_types}")
        self.annotations, self.folder, self.iou_types = annotations, Path(folder), tuple(iou_types)
        self.protocol, self.train_counts = protocol, train_counts
        self.folder.mkdir(parents=True, exist_ok=True)
        self._has_own_folder = not sees_first_folder(self.folder)
        rank = own_rank()
        if (rank == 0 or self._has_own_folder) and not resume:
            remove_shards(self.folder)
        _wait_for_all()
        self._writer = PredictionWriter(self.folder, rank)
        # Shards of other ranks in a folder of its own are not sent.
        self._done = set(finished_images(self.folder, rank if self._has_own_folder else None).tolist())
        self._results: dict[IouType, DetectionResult] | None = None

    def add(self, predictions: Sequence[Mapping[str, Tensor]], targets: Sequence[Mapping[str, Any]]) -> None:
        """Add the detections of images.

        Args:
            predictions: for each image `boxes` (K, 4) x1, y1, x2, y2 in pixels of the original image, `scores` (K,),
                `labels` (K,) and, if masks are compared, `masks` (K, H, W) of the original size, 0 or 1.
            targets: for each image its `image_id`.
        """
        if len(predictions) != len(targets):
            raise ValueError(f"predictions and targets must have one length, got {len(predictions)} and {len(targets)}")
        for prediction, target in zip(predictions, targets, strict=True):
            image_id = target["image_id"]
            image_id = image_id if isinstance(image_id, str) else int(image_id)
            if image_id not in self._done:
                self._done.add(image_id)
                self._write(image_id, prediction)
        self._results = None

    def _write(self, image_id: int | str, prediction: Mapping[str, Tensor]) -> None:
        corners = prediction["boxes"].detach().float().cpu().numpy()
        # Rounding may put the second corner before the first: the side is then 0.
        boxes = np.concatenate([corners[:, :2], np.maximum(corners[:, 2:] - corners[:, :2], 0)], 1)
        labels = prediction["labels"].cpu().numpy()
        scores = prediction["scores"].detach().float().cpu().numpy()
        masks = encode_masks(prediction["masks"]) if "segm" in self.iou_types else None
        self._writer.add(image_id, self.annotations.categories.ids[labels], boxes, scores, masks)

    def result(self) -> dict[str, float]:
        """The metrics as fractions in [0, 1] under the papers' names."""
        results = self._evaluate()
        if len(results) == 1:
            return next(iter(results.values())).result()
        boxes = {_box_name(name): value for name, value in results["bbox"].result().items()}
        return results["segm"].result() | boxes

    def per_category(self) -> list[DetectionRow]:
        """One row for each category; AP is that of masks if they are compared."""
        results = self._evaluate()
        return results["segm" if "segm" in results else "bbox"].per_category()

    def _evaluate(self) -> dict[IouType, DetectionResult]:
        if self._results is None:
            self._writer.close()
            if is_distributed():
                gather_files(self._writer.shards() if self._has_own_folder else [], self.folder)
            _wait_for_all()
            results: list[Any] = [None]
            if own_rank() == 0:
                results = [self._results_of_shards()]
            if is_distributed():
                dist.broadcast_object_list(results)
            self._results = results[0]
        return self._results

    def _results_of_shards(self) -> dict[IouType, DetectionResult]:
        if not has_shards(self.folder):
            raise ValueError("no result: no predictions were added")
        predictions = read_shards(self.folder, self.annotations)
        return {
            iou_type: evaluate(predictions, self.annotations, iou_type, self.protocol, train_counts=self.train_counts)
            for iou_type in self.iou_types
        }


def encode_masks(masks: Tensor) -> list[bytes]:
    """Encode masks (K, H, W) of 0 and 1 as compressed run lengths."""
    encoded = mask_api.encode(np.asfortranarray(masks.detach().cpu().numpy().astype(np.uint8).transpose(1, 2, 0)))
    return [mask["counts"] for mask in encoded]


def _box_name(name: str) -> str:
    return f"{name[:2]}b{name[2:]}"


def _wait_for_all() -> None:
    if is_distributed():
        dist.barrier()
