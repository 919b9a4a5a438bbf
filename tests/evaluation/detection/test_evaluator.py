import contextlib
import copy
import io
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pycocotools.mask as mask_api
import pytest
import torch
import torch.distributed as dist
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from equigrad.data.detection.formats.coco_json import read_coco
from equigrad.evaluation.detection import hotcoco_scores
from equigrad.evaluation.detection.evaluator import DetectionEvaluator, evaluate, evaluate_predictions
from equigrad.evaluation.detection.prediction_files import read_predictions, write_predictions
from equigrad.evaluation.detection.prediction_shards import PredictionWriter, read_shards
from equigrad.evaluation.detection.rules import LVIS
from evaluation.detection_files import annotations_of, corners, detection, detections_file, federated
from quick_processes import run_ranks
from shared_data import shared_folder

GOLDEN = json.loads(Path(__file__).parents[2].joinpath("golden", "lvis_evaluator.json").read_text())
COCO_NAMES = ["AP", "AP50", "AP75", "APs", "APm", "APl", "AR@1", "AR@10", "AR@100", "ARs@100", "ARm@100", "ARl@100"]
BOX = [10, 10, 20, 20]


def official(value):
    """The official evaluators say -1 where there is nothing to find."""
    return -1 if math.isnan(value) else value


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda case: case["name"])
def test_results_are_those_of_the_official_lvis_evaluator(tmp_path, monkeypatch, case):
    annotations = annotations_of(tmp_path, case["annotations"])
    predictions = read_predictions(detections_file(tmp_path, case["detections"]), annotations)
    rules = replace(LVIS, fixed_limit=GOLDEN["fixed_limit"])
    for iou_type, expected in case["expected"].items():
        for categories_at_once in (1000, 3):
            monkeypatch.setattr(hotcoco_scores, "CATEGORIES_AT_ONCE", categories_at_once)
            result = evaluate(predictions, annotations, iou_type, rules).result()
            assert {name: official(value) for name, value in result.items()} == pytest.approx(expected, abs=1e-12)


@pytest.mark.shared_data
@pytest.mark.parametrize("iou_type", ["bbox", "segm"])
def test_lvis_val_100_gives_the_expected_values(iou_type):
    folder = shared_folder("lvis_val_100")
    expected = json.loads((folder / "expected_ap.json").read_text())["expected"][iou_type]
    annotations = read_coco(folder / "lvis_val_100.json")
    result = evaluate_predictions(folder / "made_detections.json", annotations, iou_type).result()
    assert {name: result[name] for name in expected} == pytest.approx(expected, abs=1e-9)


def coco_detections(content, seed):
    """Moved copies of annotations; many inside crowds, more than 100 of a category in an image, and equal scores."""
    rng = np.random.default_rng(seed)
    sizes = {image["id"]: (image["height"], image["width"]) for image in content["images"]}
    drawn = []
    for annotation in content["annotations"]:
        for _ in range(40 if annotation["iscrowd"] else int(rng.integers(0, 4))):
            box = np.array(annotation["bbox"])
            box = np.maximum(box + rng.normal(0, 0.1, 4) * box[[2, 3, 2, 3]], 0).round(2).tolist()
            mask = mask_api.merge(mask_api.frPyObjects([corners(box)], *sizes[annotation["image_id"]]))
            row = detection(annotation["image_id"], annotation["category_id"], box, float(rng.random().__round__(2)))
            drawn.append(row | {"segmentation": {"size": mask["size"], "counts": mask["counts"].decode()}})
    return drawn + [row | {"score": float(rng.random().__round__(2))} for row in drawn[:1] * 120]


@pytest.mark.shared_data
@pytest.mark.parametrize("iou_type", ["bbox", "segm"])
def test_coco_results_are_those_of_pycocotools(tmp_path, iou_type):
    file = shared_folder("coco228") / "instances_train128.json"
    drawn = coco_detections(json.loads(file.read_text()), seed=0)
    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO(str(file))
        evaluator = COCOeval(truth, truth.loadRes(copy.deepcopy(drawn)), iou_type)
        evaluator.evaluate()
        evaluator.accumulate()
        evaluator.summarize()
    result = evaluate_predictions(detections_file(tmp_path, drawn), read_coco(file), iou_type).result()
    assert [official(result[name]) for name in COCO_NAMES] == pytest.approx(evaluator.stats.tolist(), abs=1e-9)


def two_categories(tmp_path):
    """One object of each in each of two images."""
    content = federated({1: ([3], []), 2: ([], [])}, [(image, label, BOX) for image in (1, 2) for label in (1, 2)])
    return annotations_of(tmp_path, content)


def test_without_any_detection_everything_is_zero(tmp_path):
    annotations = two_categories(tmp_path)
    result = evaluate_predictions(detections_file(tmp_path, []), annotations).result()
    assert [result[name] for name in ("AP", "APr", "APc", "AR@300", "AP-fixed", "AP-pool")] == [0] * 6
    assert math.isnan(result["APf"])
    assert evaluate_predictions(detections_file(tmp_path, []), annotations, "segm").result()["AP"] == 0


def test_pooling_compares_the_scores_of_categories(tmp_path):
    annotations = two_categories(tmp_path)
    # Each category ranks perfectly, but one gives its mistake a higher score than the other its finds.
    drawn = [detection(image, 1, BOX, 0.9) for image in (1, 2)] + [detection(image, 2, BOX, 0.3) for image in (1, 2)]
    drawn += [detection(1, 1, [90, 10, 5, 5], 0.5)]
    result = evaluate_predictions(detections_file(tmp_path, drawn), annotations).result()
    assert result["AP"] == result["AP-fixed"] == pytest.approx(1)
    assert result["AP-pool"] == pytest.approx((51 + 50 * 4 / 5) / 101)


def test_the_limit_of_an_image_costs_plain_ap_but_not_ap_fixed(tmp_path):
    annotations = two_categories(tmp_path)
    drawn = [detection(1, 3, [1, 1, 5, 5], 0.9)] * 300 + [detection(image, 1, BOX, 0.5) for image in (1, 2)]
    result = evaluate_predictions(detections_file(tmp_path, drawn), annotations).result()
    assert result["APr"] == pytest.approx(51 / 101)
    assert result["APr-fixed"] == pytest.approx(1)


def test_the_protocol_follows_the_annotations_unless_it_is_named(tmp_path):
    annotations = two_categories(tmp_path)
    file = detections_file(tmp_path, [detection(1, 1, BOX, 0.5)])
    assert "AR@300" in evaluate_predictions(file, annotations).result()
    assert "AR@100" in evaluate_predictions(file, annotations, protocol="coco").result()
    with pytest.raises(ValueError, match='protocol must be "lvis", "coco" or None'):
        evaluate_predictions(file, annotations, protocol="voc")


def test_masks_cannot_be_compared_without_masks(tmp_path):
    file = detections_file(tmp_path, [detection(1, 1, BOX, 0.5)])
    with pytest.raises(ValueError, match=r"detections.json: expected detections with a segmentation, found none"):
        evaluate_predictions(file, two_categories(tmp_path), "segm")


def prediction(boxes, labels, scores):
    """What a model gives for an image of 100 x 200 pixels."""
    masks = torch.zeros(len(boxes), 100, 200, dtype=torch.bool)
    for mask, (x, y, right, bottom) in zip(masks, boxes, strict=True):
        mask[y:bottom, x:right] = True
    columns = {"boxes": torch.tensor(boxes).float(), "labels": torch.tensor(labels), "scores": torch.tensor(scores)}
    return columns | {"masks": masks}


PREDICTIONS = {
    1: prediction([[10, 10, 30, 30], [10, 10, 30, 25]], [0, 1], [0.9, 0.8]),
    2: prediction([[50, 50, 60, 60]], [0], [0.95]),
}


def test_an_evaluator_streams_predictions_to_disk_and_gives_what_their_file_gives(tmp_path):
    annotations = two_categories(tmp_path)
    evaluator = DetectionEvaluator(annotations, tmp_path / "shards", iou_types=("bbox", "segm"))
    for image, found in PREDICTIONS.items():
        evaluator.add([found], [{"image_id": image}])
    result = evaluator.result()
    file = write_predictions(read_shards(tmp_path / "shards", annotations), annotations, tmp_path / "all.json")
    boxes = evaluate_predictions(file, annotations).result()
    masks = evaluate_predictions(file, annotations, "segm").result()
    assert {name: value for name, value in result.items() if "b" not in name} == pytest.approx(masks, nan_ok=True)
    assert (result["APb"], result["APb50"], result["ARb@300"]) == (boxes["AP"], boxes["AP50"], boxes["AR@300"])
    assert pytest.approx(6 * 51 / 101 / 10) == evaluator.per_category()[1].AP  # found in one image, IoU 0.75
    assert evaluate_predictions(tmp_path / "shards", annotations).result() == pytest.approx(boxes, nan_ok=True)


def test_an_image_added_twice_counts_once(tmp_path):
    evaluator = DetectionEvaluator(two_categories(tmp_path), tmp_path / "shards")
    for _ in range(2):
        evaluator.add(list(PREDICTIONS.values()), [{"image_id": torch.tensor(image)} for image in PREDICTIONS])
    assert pytest.approx(51 / 101 / 2) == evaluator.per_category()[0].AP


def test_an_evaluation_starts_afresh_unless_it_is_resumed(tmp_path):
    annotations = two_categories(tmp_path)
    first = DetectionEvaluator(annotations, tmp_path / "shards")
    first.add([PREDICTIONS[1]], [{"image_id": 1}])
    assert first.result()["AP50"] == pytest.approx(51 / 101)
    resumed = DetectionEvaluator(annotations, tmp_path / "shards", resume=True)
    assert resumed.result() == pytest.approx(first.result(), nan_ok=True)
    with pytest.raises(ValueError, match="no predictions were added"):
        DetectionEvaluator(annotations, tmp_path / "shards").result()


def test_wrong_arguments_are_refused(tmp_path):
    with pytest.raises(ValueError, match="iou_types must be bbox, segm or both"):
        DetectionEvaluator(two_categories(tmp_path), tmp_path, iou_types=("mask",))
    evaluator = DetectionEvaluator(two_categories(tmp_path), tmp_path / "shards")
    with pytest.raises(ValueError, match="must have one length, got 1 and 0"):
        evaluator.add([PREDICTIONS[1]], [])


def evaluate_on_rank(rank, folder, shards, store):
    own_folder = folder / shards.format(rank=rank)
    earlier = PredictionWriter(own_folder, 5 + rank)  # of an evaluation by more ranks
    earlier.add(rank + 1, [1], [[0, 0, 1, 1]], [0.9])
    earlier.close()
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    evaluator = DetectionEvaluator(two_categories(folder / f"{rank}"), own_folder)
    evaluator.add([PREDICTIONS[rank + 1]], [{"image_id": rank + 1}])
    evaluator.add([PREDICTIONS[2]], [{"image_id": 2}])  # as samplers pad
    (folder / f"result{rank}.json").write_text(json.dumps(evaluator.result()))
    dist.destroy_process_group()


@pytest.mark.parametrize("shards", ["shards", "{rank}/shards"], ids=["one folder", "a folder for each rank"])
def test_two_ranks_get_what_one_gets(shards, tmp_path):
    for rank in range(2):
        (tmp_path / f"{rank}").mkdir()
    run_ranks(evaluate_on_rank, tmp_path, shards, tmp_path / "store")
    evaluator = DetectionEvaluator(two_categories(tmp_path), tmp_path / "alone")
    evaluator.add(list(PREDICTIONS.values()), [{"image_id": image} for image in PREDICTIONS])
    for rank in range(2):
        shown = json.loads((tmp_path / f"result{rank}.json").read_text())
        assert shown == pytest.approx(evaluator.result(), nan_ok=True)
