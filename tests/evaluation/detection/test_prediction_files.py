import json
import tracemalloc

import pycocotools.mask as mask_api
import pytest

from equigrad.evaluation.detection import json_entries
from equigrad.evaluation.detection.prediction_files import read_predictions, write_predictions
from evaluation.detection_files import annotations_of, corners, detection, detections_file, federated

BOX = [10, 10, 20, 20]
GOOD = detection(7, 2, BOX, 0.5)
MASK = mask_api.frPyObjects([corners(BOX)], 100, 200)[0]["counts"].decode()


@pytest.fixture
def annotations(tmp_path):
    return annotations_of(tmp_path, federated({9: ([], []), 7: ([], [])}, [(7, 2, BOX)]))


def read(folder, annotations, detections):
    return read_predictions(detections_file(folder, detections), annotations)


def test_ids_become_indices_and_numbers_keep_every_digit(tmp_path, annotations):
    drawn = [detection(7, 2, [1.1, 2.2, 3.3, 4.4], 0.1), detection(9, 3, [0, 0, 1, 1], 1)]
    predictions = read(tmp_path, annotations, drawn)
    assert predictions.images.tolist() == [1, 0]
    assert predictions.labels.tolist() == [1, 2]
    assert predictions.boxes.tolist() == [[1.1, 2.2, 3.3, 4.4], [0, 0, 1, 1]]
    assert predictions.scores.tolist() == [0.1, 1]
    assert predictions.areas.tolist() == [3.3 * 4.4, 1]
    assert predictions.masks is None


def test_no_detections_are_no_mistake(tmp_path, annotations):
    assert len(read(tmp_path, annotations, [])) == 0


@pytest.mark.parametrize(
    "mask",
    [
        {"size": [100, 200], "counts": MASK},
        {"size": [100, 200], "counts": [1010] + [20, 80] * 19 + [20, 20000 - 1010 - 20 * 100 + 80]},
        [corners(BOX)],
    ],
    ids=["compressed", "runs", "polygons"],
)
def test_masks_come_in_three_forms_and_give_the_box_where_there_is_none(tmp_path, annotations, mask):
    entry = {"image_id": 7, "category_id": 1, "score": 0.5, "segmentation": mask}
    predictions = read(tmp_path, annotations, [entry])
    assert predictions.masks.counts(0).decode() == MASK
    assert predictions.boxes.tolist() == [BOX]
    assert predictions.areas.tolist() == [400]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"image_id": 8}, "image_id must be the id of an image of the annotations, got 8"),
        ({"image_id": "07"}, "image_id must be the id of an image"),
        ({"image_id": 7.5}, "image_id must be the id of an image"),
        ({"image_id": 10**30}, "image_id must be the id of an image"),
        ({"image_id": None}, "image_id must be the id of an image"),
        ({"category_id": 0}, "category_id must be the id of a category of the annotations, got 0"),
        ({"category_id": [1]}, "category_id must be the id of a category"),
        ({"score": float("nan")}, "score must be a finite number, got NaN"),
        ({"score": float("inf")}, "score must be a finite number"),
        ({"score": "0.5"}, 'score must be a finite number, got "0.5"'),
        ({"score": 10**400}, "score must be a finite number"),
        ({"bbox": [1, 2, -3, 4]}, "bbox must be x, y, width, height: .* the sides from 0, got .1, 2, -3, 4."),
        ({"bbox": [1, 2, 3]}, "bbox must be x, y, width, height"),
        ({"bbox": [1, 2, 3, "4"]}, "bbox must be x, y, width, height"),
        ({"bbox": [1, 2, 3, float("nan")]}, "bbox must be x, y, width, height"),
        ({"bbox": None}, "bbox must be x, y, width, height"),
    ],
)
def test_a_bad_detection_is_named_with_its_field(tmp_path, annotations, change, message):
    with pytest.raises(ValueError, match=rf"detections.json: entry 1500: {message}"):
        read(tmp_path, annotations, [GOOD] * 1500 + [GOOD | change, GOOD])


@pytest.mark.parametrize("field", GOOD)
def test_a_missing_field_is_named(tmp_path, annotations, field):
    bad = {name: value for name, value in GOOD.items() if name != field}
    with pytest.raises(ValueError, match=f"entry 1: {field} is missing"):
        read(tmp_path, annotations, [GOOD, bad])


@pytest.mark.parametrize("entry", [3, [1, 2], None, {}])
def test_what_is_no_detection_is_named(tmp_path, annotations, entry):
    with pytest.raises(ValueError, match="entry 0: expected an object"):
        read(tmp_path, annotations, [entry])
    with pytest.raises(ValueError, match="entry 1: "):
        read(tmp_path, annotations, [GOOD, entry])


@pytest.mark.parametrize(
    "mask",
    [
        {"size": [200, 100], "counts": MASK},
        {"size": [100, 200], "counts": MASK[:-1]},
        {"size": [100, 200], "counts": "é"},
        {"size": [100, 200], "counts": ""},
        {"size": [100, 200], "counts": [5, 6]},
        {"size": [100, 200], "counts": [20001, -1]},
        {"size": [100, 200]},
        {"counts": MASK},
        [],
        [[1, 2, 3]],
        [[0, 0, 1e300, 0, 5, 5]],
        ["text"],
        "text",
        None,
    ],
)
def test_a_mask_that_does_not_fit_its_image_is_refused(tmp_path, annotations, mask):
    good = GOOD | {"segmentation": {"size": [100, 200], "counts": MASK}}
    with pytest.raises(ValueError, match="entry 1: segmentation must be a mask of 100 x 200 pixels"):
        read(tmp_path, annotations, [good, GOOD | {"segmentation": mask}])


def test_a_part_that_ends_inside_an_entry_is_read_all_the_same(tmp_path, annotations, monkeypatch):
    monkeypatch.setattr(json_entries, "PART", 150)
    nested = GOOD | {"parts": [{"name": "},{"}, {"name": ""}], "area": float("nan")}
    assert len(read(tmp_path, annotations, [GOOD] * 5 + [nested] * 5 + [GOOD])) == 11
    with pytest.raises(ValueError, match="entry 10: score must be a finite number"):
        read(tmp_path, annotations, [GOOD] * 5 + [nested] * 5 + [GOOD | {"score": None}])


def test_detections_are_not_kept_as_objects(tmp_path, annotations, monkeypatch):
    monkeypatch.setattr(json_entries, "CHUNK", 1 << 18)
    file = detections_file(tmp_path, [detection(7, 2, [1.5, 2.5, 3.5, 4.5], index / 1e5) for index in range(10_000)])
    tracemalloc.start()
    read_predictions(file, annotations)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4e6  # json.load needs 6 MB for the dictionaries alone


def test_what_is_written_is_read_again(tmp_path, annotations):
    mask = {"size": [100, 200], "counts": MASK}
    drawn = [detection(7, 2, [0.1, 0.2, 1 / 3, 4], 1 / 7) | {"segmentation": mask}] * 3
    file = write_predictions(read(tmp_path, annotations, drawn), annotations, tmp_path / "again.json")
    assert json.loads(file.read_text()) == drawn
