import json

import pytest

from detection_on_disk import annotation, coco, image, write_json
from equigrad.cli import main
from shared_data import shared_folder

CATEGORIES = [{"id": 1, "name": "cat<b>"}, {"id": 7, "name": "dog"}]


@pytest.fixture
def annotations(tmp_path):
    boxes = [annotation(1, image_id=1, category_id=1, box=(1, 1, 8, 4)), annotation(2, image_id=2, category_id=7)]
    return write_json(tmp_path / "annotations.json", coco([image(1), image(2)], boxes, CATEGORIES))


@pytest.fixture
def predictions(tmp_path):
    found = [{"image_id": 1, "category_id": 1, "bbox": [1, 1, 8, 4], "score": 0.5}]
    return write_json(tmp_path / "predictions.json", found)


def test_detections_of_any_tool_are_evaluated(tmp_path, annotations, predictions, capsys):
    words = ["evaluate", predictions, "--annotations", annotations]
    out = {kind: tmp_path / f"out.{kind}" for kind in ("json", "csv", "html")}
    files = [word for kind, file in out.items() for word in (f"--{kind}", file)]
    assert main([str(word) for word in [*words, *files]]) == 0
    assert "AP50" in capsys.readouterr().out
    assert json.loads(out["json"].read_text())["AP"] == pytest.approx(0.5)  # one category found, one missed
    assert [line.split(",")[0] for line in out["csv"].read_text().splitlines()] == ["name", "cat<b>", "dog"]
    assert "cat<b>" not in out["html"].read_text()


@pytest.mark.parametrize("kind", [int, str])
def test_groups_follow_the_training_set(tmp_path, annotations, predictions, capsys, kind):
    categories = [{**record, "id": kind(record["id"])} for record in CATEGORIES]
    train = [annotation(number, image_id=number, category_id=1) for number in range(1, 13)]
    file = write_json(tmp_path / "train.json", coco([image(number) for number in range(1, 13)], train, categories))
    words = ["evaluate", predictions, "--annotations", annotations, "--train-annotations", file, "--json"]
    assert main([*map(str, words), str(tmp_path / "out.json")]) == 0
    result = json.loads((tmp_path / "out.json").read_text())
    assert (result["APc"], result["APr"]) == pytest.approx((1.0, 0.0))


@pytest.mark.parametrize(
    ("change", "message"),
    [({"category_id": 3}, "category_id"), ({"score": None}, "score"), ({"bbox": [1, 1, -2, 3]}, "bbox")],
)
def test_a_wrong_detection_is_named_in_one_line(tmp_path, annotations, capsys, change, message):
    found = [{"image_id": 1, "category_id": 1, "bbox": [1, 1, 8, 4], "score": 0.5, **change}]
    file = write_json(tmp_path / "wrong.json", found)
    assert main(["evaluate", str(file), "--annotations", str(annotations)]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert message in error
    assert "wrong.json" in error


def test_norcal_lowers_the_scores_of_frequent_categories(tmp_path, annotations, capsys):
    found = [
        {"image_id": 1, "category_id": 1, "bbox": [1, 1, 8, 4], "score": 0.5},
        {"image_id": 2, "category_id": 1, "bbox": [2, 1, 4, 4], "score": 0.9},
        {"image_id": 2, "category_id": 7, "bbox": [2, 1, 4, 4], "score": 0.4},
    ]
    predictions = write_json(tmp_path / "predictions.json", found)
    train = [annotation(number, image_id=number, category_id=1) for number in range(1, 13)]
    train.append(annotation(13, image_id=1, category_id=7))
    file = write_json(tmp_path / "train.json", coco([image(number) for number in range(1, 13)], train, CATEGORIES))
    words = ["evaluate", predictions, "--annotations", annotations, "--train-annotations", file, "--json"]
    pooled = {}
    for power in ("0", "1"):
        out = tmp_path / f"{power}.json"
        assert main([str(word) for word in [*words, out, "--norcal", power]]) == 0
        pooled[power] = json.loads(out.read_text())["AP-pool"]
    # The false cat comes first; divided by its 12 images it comes after the dog, which has one.
    assert pooled["1"] > pooled["0"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--norcal", "1"], "--norcal needs the counts"),
        (["--set", "method=norcal", "--output", "x"], "--set and --best are for a run"),
    ],
)
def test_norcal_of_detections_says_what_it_lacks(annotations, predictions, capsys, words, message):
    assert main(["evaluate", str(predictions), "--annotations", str(annotations), *words]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert message in error


def test_detections_without_annotations_are_asked_for_them(predictions, capsys):
    assert main(["evaluate", str(predictions)]) == 2
    assert "--annotations FILE" in capsys.readouterr().err


@pytest.mark.shared_data
@pytest.mark.parametrize("iou_type", ["bbox", "segm"])
def test_the_official_evaluator_says_the_same(tmp_path, iou_type):
    folder = shared_folder("lvis_val_100")
    words = ["evaluate", folder / "made_detections.json", "--annotations", folder / "lvis_val_100.json"]
    assert main([str(word) for word in [*words, "--iou-type", iou_type, "--json", tmp_path / "out.json"]]) == 0
    result = json.loads((tmp_path / "out.json").read_text())
    expected = json.loads((folder / "expected_ap.json").read_text())["expected"][iou_type]
    assert {name: result[name] for name in expected} == pytest.approx(expected, abs=1e-9)
