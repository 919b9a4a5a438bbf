import contextlib
import io

import numpy as np
import pycocotools.mask as mask_api
import pytest
from hypothesis import given, settings, strategies as st
from pycocotools.coco import COCO as PycocotoolsCOCO
from pycocotools.cocoeval import COCOeval

from equigrad.evaluation.detection.evaluator import evaluate
from equigrad.evaluation.detection.hotcoco_scores import SIZES, compare, precision_and_recall
from equigrad.evaluation.detection.prediction_files import read_predictions
from equigrad.evaluation.detection.rules import LVIS, Rules, select
from evaluation.detection_files import annotations_of, corners, detection, detections_file, federated

NUM_CATEGORIES = 3
HEIGHT, WIDTH = 100, 200


@pytest.fixture
def selected(tmp_path):
    """Two images, three categories, and detections that LVIS's rules keep."""
    content = federated(
        {2: ([3], []), 1: ([], [])}, [(2, 1, [0, 0, 40, 40]), (1, 2, [0, 0, 9, 9]), (2, 2, [5, 5, 9, 9])]
    )
    drawn = [
        detection(2, 2, [50, 50, 9, 9], 0.5),
        detection(1, 2, [0, 0, 9, 9], 0.5),
        detection(2, 3, [0, 0, 9, 9], 0.9),
    ]
    annotations = annotations_of(tmp_path, content)
    predictions = read_predictions(detections_file(tmp_path, drawn), annotations)
    return compare(predictions, select(predictions, annotations, LVIS), annotations, LVIS, "bbox")


def test_precision_and_recall_are_those_worked_out_by_hand(selected):
    precision, recall = precision_and_recall(selected, "bbox")
    # Nothing found of category 1. Of category 2 the first half: image 1 comes first among equal scores.
    assert precision[:2, 0, 0] == pytest.approx([0, 51 / 101])
    assert recall[:2, 0, -1, 0].tolist() == [0, 0.5]
    # 40 x 40 is medium, 9 x 9 small, and nothing is large.
    unknown = [[False, True, False, True], [False, False, True, True], [True] * len(SIZES)]
    assert np.isnan(precision[:, :, 0]).tolist() == np.isnan(recall[:, :, -1, 0]).tolist() == unknown


def test_pooled_detections_are_ordered_by_score_then_image_then_category(selected):
    precision, recall = precision_and_recall(selected.pooled(), "bbox", SIZES[:1])
    # The mistake of category 3 has the highest score; then image 1 finds one of the three objects.
    assert precision[0, 0, 0] == pytest.approx(34 / 2 / 101)
    assert recall[0, 0, 0, 0] == pytest.approx(1 / 3)


def boxes(rng, count):
    """Few positions and sizes, so that many overlaps are equal; some without area, some of 32 x 32."""
    places = rng.integers(0, 3, (count, 2)) * 8.0
    return np.concatenate(
        [places, rng.choice([0, 8, 12, 16, 32, 33], (count, 2), p=[0.04, 0.3, 0.3, 0.3, 0.03, 0.03])], 1
    )


def with_mask(entry):
    x, y, width, height = entry["bbox"]
    mask = mask_api.merge(mask_api.frPyObjects([corners([x, y, width + 1, height + 1])], HEIGHT, WIDTH))
    return entry | {"segmentation": {"size": mask["size"], "counts": mask["counts"].decode()}}


@st.composite
def data_sets(draw, is_federated):
    """The content of an annotation file, and detections with few different scores."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    image_ids = rng.permutation(np.arange(1, 20))[: draw(st.integers(1, 4))].tolist()
    labels = np.arange(1, NUM_CATEGORIES + 1)
    lists = {image: tuple(labels[rng.random(NUM_CATEGORIES) < 0.4].tolist() for _ in range(2)) for image in image_ids}
    objects = [
        (image, int(rng.choice(labels)), box) for image in image_ids for box in boxes(rng, rng.integers(0, 6)).tolist()
    ]
    content = federated(lists, objects, NUM_CATEGORIES)
    content["annotations"] = [
        with_mask(row) | {"iscrowd": int(not is_federated and rng.random() < 0.2)} for row in content["annotations"]
    ]
    if not is_federated:
        content["images"] = [
            {name: image[name] for name in ("id", "file_name", "height", "width")} for image in content["images"]
        ]
    drawn = []
    for box in boxes(rng, draw(st.integers(0, 40))).tolist():
        image, category, near = objects[rng.integers(len(objects))] if objects else (image_ids[0], 1, box)
        guess = (int(rng.choice(image_ids)), int(rng.choice(labels)), box)
        place = guess if rng.random() < 0.5 else (image, category, near)
        drawn.append(with_mask(detection(*place, float(rng.integers(0, 5)) / 4)))
    return content, drawn


def result_of(folder, content, drawn, iou_type, rules=None):
    annotations = annotations_of(folder, content)
    return evaluate(read_predictions(detections_file(folder, drawn), annotations), annotations, iou_type, rules)


@settings(max_examples=40, deadline=None)
@given(data=data_sets(is_federated=False), iou_type=st.sampled_from(["bbox", "segm"]))
def test_every_number_is_that_of_pycocotools(tmp_path_factory, data, iou_type):
    content, drawn = data
    if not (drawn and content["annotations"]):
        return  # pycocotools stops
    result = result_of(tmp_path_factory.mktemp("coco"), content, drawn, iou_type)
    with contextlib.redirect_stdout(io.StringIO()):
        truth = PycocotoolsCOCO()
        truth.dataset = content
        truth.createIndex()
        official = COCOeval(truth, truth.loadRes([dict(row) for row in drawn]), iou_type)
        official.evaluate()
        official.accumulate()
    precision = np.moveaxis(official.eval["precision"][..., -1].mean(1), 0, -1)
    recall = np.moveaxis(official.eval["recall"], 0, -1)  # (C, A, L, T)
    known = [np.where(values < 0, np.nan, values) for values in (precision, recall[:, :, -1], recall[:, 0, :-1])]
    for ours, theirs in zip((result.precision, result.recall, result.limited_recall), known, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12)


def outcomes_of_cell(content, drawn, image, category, threshold, iou_type):
    """LVIS's rule as one would explain it: (score, true or false) of the detections of a category in an image."""
    wanted = [
        row
        for row in content["annotations"]
        if (row["image_id"], row["category_id"]) == (image["id"], category) and row["area"]
    ]
    if not wanted and category not in image["neg_category_ids"]:
        return [], 0
    found = [row for row in drawn if (row["image_id"], row["category_id"]) == (image["id"], category)]
    found = sorted((row for row in found if row["bbox"][2] * row["bbox"][3]), key=lambda row: -row["score"])
    field = {"bbox": "bbox", "segm": "segmentation"}[iou_type]
    sides = [[np.array(row[field]) if iou_type == "bbox" else row[field] for row in rows] for rows in (found, wanted)]
    ious = np.reshape(mask_api.iou(*sides, [0] * len(wanted)), (len(found), len(wanted))) if found and wanted else None
    free, outcomes = set(range(len(wanted))), []
    for index, row in enumerate(found):
        possible = [other for other in free if ious[index, other] >= threshold]
        if possible:
            free.remove(max(possible, key=lambda other: (ious[index, other], other)))
            outcomes.append((row["score"], True))
        elif category not in image["not_exhaustive_category_ids"]:
            outcomes.append((row["score"], False))
    return outcomes, len(wanted)


def average_precision(cells):
    """From the outcomes of cells, in the order in which equal scores are taken."""
    num = sum(count for _, count in cells)
    if not num:
        return np.nan
    ordered = sorted((outcome for outcomes, _ in cells for outcome in outcomes), key=lambda outcome: -outcome[0])
    is_true = np.array([outcome[1] for outcome in ordered], bool)
    precision, recall = np.cumsum(is_true) / np.arange(1, len(is_true) + 1), np.cumsum(is_true) / num
    levels = [precision[recall >= level] for level in np.linspace(0, 1, 101)]
    return np.mean([level.max() if len(level) else 0 for level in levels])


def best(drawn, limit, field):
    """The detections without those beyond the limit of their image or category, in the order of the file."""
    ranked = sorted(range(len(drawn)), key=lambda index: -drawn[index]["score"])
    kept, counts = set(), {}
    for index in ranked:
        counts[drawn[index][field]] = counts.get(drawn[index][field], 0) + 1
        if counts[drawn[index][field]] <= limit:
            kept.add(index)
    return [row for index, row in enumerate(drawn) if index in kept]


@settings(max_examples=40, deadline=None)
@given(data=data_sets(is_federated=True), iou_type=st.sampled_from(["bbox", "segm"]), limit=st.sampled_from([3, 300]))
def test_federated_rules_with_fixed_and_pooled_precision_are_those_in_plain_words(
    tmp_path_factory, data, iou_type, limit
):
    content, drawn = data
    rules = Rules(is_federated=True, per_image=limit, fixed_limit=5)
    result = result_of(tmp_path_factory.mktemp("lvis"), content, drawn, iou_type, rules)
    images = sorted(content["images"], key=lambda image: image["id"])
    standard, fixed = best(drawn, limit, "image_id"), best(drawn, rules.fixed_limit, "category_id")
    for level, threshold in ((0, 0.5), (5, 0.75)):
        cells = [
            {
                (image["id"], category): outcomes_of_cell(content, chosen, image, category, threshold, iou_type)
                for image in images
                for category in range(1, NUM_CATEGORIES + 1)
            }
            for chosen in (standard, fixed)
        ]
        by_category = [
            [
                average_precision([cell for (_, label), cell in part.items() if label == category])
                for category in range(1, NUM_CATEGORIES + 1)
            ]
            for part in cells
        ]
        np.testing.assert_allclose(result.precision[:, 0, level], by_category[0], rtol=0, atol=1e-12)
        np.testing.assert_allclose(result.fixed_precision[:, level], by_category[1], rtol=0, atol=1e-12)
        np.testing.assert_allclose(
            result.pool_precision[level], average_precision(list(cells[1].values())), rtol=0, atol=1e-12
        )
