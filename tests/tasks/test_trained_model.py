"""Runs of the three tasks in Python: the numbers of an evaluation, for every kind of image."""

import itertools
import json

import numpy as np
import pytest
import torch
from PIL import Image

import equigrad
from commands.running_commands import SHORT_RUN, equigrad as command
from equigrad.evaluation.detection.prediction_shards import read_shards
from equigrad.tasks.classification.prediction import Classification
from equigrad.tasks.detection.prediction import Detections
from equigrad.tasks.segmentation.prediction import Segmentation

DETECTOR = [
    *("data.num_classes=4", "data.max_count=12", "data.test_count=2", "data.image_size=64"),
    *("preprocessing.test_short=64", "preprocessing.short=64", "training.num_workers=0"),
    *("training.schedule.epochs=1", "training.batch_size=8", "training.schedule.warmup.length=1"),
]
SEGMENTER = [
    *("data.num_glyphs=3", "data.max_count=12", "data.imbalance_factor=6", "data.test_count=2"),
    *("keeps_label_maps=true", "training.schedule.epochs=1", "training.batch_size=8"),
]
RESULTS = {"classifier": Classification, "detector": Detections, "segmenter": Segmentation}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder with a small finished run of each task."""
    folder = tmp_path_factory.mktemp("runs")
    for name, recipe, settings in (
        ("classifier", "tiny:softmax_eql", SHORT_RUN),
        ("detector", "glyph_objects:mask_rcnn", [*DETECTOR, f"data.root={folder / 'glyphs'}"]),
        ("segmenter", "tiny:segmentation", SEGMENTER),
    ):
        done = command("train", recipe, "--run", folder / name, settings=settings)
        assert done.code == 0, done.err
    return folder


@pytest.fixture(scope="module")
def models(runs):
    return {name: equigrad.load(runs / name, device="cpu") for name in RESULTS}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Images of two sizes, one of them in a sub-folder."""
    root = tmp_path_factory.mktemp("photos")
    rng = np.random.default_rng(0)
    (root / "more").mkdir()
    for name, size in (("a.png", (48, 64)), ("b.png", (64, 64)), ("more/c.png", (48, 64))):
        Image.fromarray(rng.integers(0, 256, (*size, 3), dtype=np.uint8)).save(root / name)
    return root


@pytest.fixture(params=RESULTS)
def model(request, models):
    return models[request.param]


def numbers(prediction):
    """All that a model computed, in an order that ties of scores do not change."""
    if isinstance(prediction, Segmentation):
        return prediction.label_map
    if isinstance(prediction, Classification):
        return prediction.scores[np.argsort(prediction.labels)]
    return np.concatenate([prediction.boxes, prediction.scores[:, None]], 1)


def test_each_task_has_its_own_results(models, folder):
    for name, kind in RESULTS.items():
        prediction = models[name].predict(folder / "a.png")
        assert isinstance(prediction, kind)
        assert prediction.path == folder / "a.png"
        assert set(prediction.names) <= set(models[name].names)
        assert isinstance(prediction.draw(), Image.Image)


def test_one_image_gives_one_result_a_list_a_list_and_a_generator_an_iterator(model, folder):
    assert isinstance(model.predict([folder / "a.png"]), list)
    assert [one.path.name for one in model.predict(folder)] == ["a.png", "b.png", "c.png"]
    assert model.predict([]) == []
    without_end = model.predict(itertools.cycle([folder / "a.png", folder / "b.png"]))
    assert [next(without_end).path.name for _ in range(3)] == ["a.png", "b.png", "a.png"]


def test_every_kind_of_image_gives_the_same_numbers(model, folder):
    image = Image.open(folder / "a.png")
    pixels = np.array(image)
    tensor = torch.from_numpy(pixels).permute(2, 0, 1)
    expected = numbers(model.predict(folder / "a.png", threshold=0))
    for given in (str(folder / "a.png"), image, pixels, tensor):
        np.testing.assert_array_equal(numbers(model.predict(given, threshold=0)), expected)
    for several in (pixels[None], tensor[None]):
        (found,) = model.predict(several, threshold=0)
        np.testing.assert_array_equal(numbers(found), expected)


def test_a_batch_changes_nothing_but_rounding(model, folder):
    alone = [model.predict(one.path, threshold=0.0) for one in model.predict(folder)]
    for one, together in zip(alone, model.predict(folder, batch_size=3, threshold=0.0), strict=True):
        assert together.path == one.path
        np.testing.assert_allclose(numbers(together), numbers(one), atol=1e-3)


def test_what_cannot_be_predicted_is_refused(model, folder):
    with pytest.raises(FileNotFoundError, match=r"gone\.jpg: no such image"):
        model.predict("gone.jpg")
    with pytest.raises(ValueError, match="batch_size must be at least 1"):
        model.predict(folder, batch_size=0)
    with pytest.raises(ValueError, match="threshold must be"):
        model.predict(folder, threshold=2)
    with pytest.raises(ValueError, match="device 'moon'"):
        model.predict(folder, device="moon")
    with pytest.raises(ValueError, match="got int"):
        model.predict(7)
    with pytest.raises(ValueError, match="got dict"):
        model.predict({"image": folder / "a.png"})
    with pytest.raises(ValueError, match=r"bytes are no image; give PIL.Image.open"):
        model.predict((folder / "a.png").read_bytes())
    with pytest.raises(ValueError, match=r"got \(4,\) of uint8"):
        model.predict([np.zeros(4, np.uint8)])


def test_a_classifier_has_the_scores_of_its_evaluation(models, runs):
    _, test_set = models["classifier"].recipe.data.load()
    stored = np.load(runs / "classifier" / "predictions" / "test.npz")
    images = [test_set.images.store.read(path) for path in stored["paths"].tolist()]
    found = models["classifier"].predict(images, batch_size=4)
    np.testing.assert_array_equal([one.labels[:5] for one in found], stored["top"])
    np.testing.assert_allclose([one.scores[:5] for one in found], stored["scores"], rtol=1e-5)


def test_a_segmenter_has_the_label_maps_of_its_evaluation(models, runs):
    _, test_set = models["segmenter"].recipe.data.load()
    data = test_set.data
    for index, found in enumerate(models["segmenter"].predict(data.read_image(index) for index in range(len(data)))):
        stored = Image.open(runs / "segmenter" / "predictions" / "label_maps" / f"{data.names[index]}.png")
        np.testing.assert_array_equal(found.label_map, np.array(stored))


def test_a_detector_has_the_objects_of_its_evaluation(models, runs):
    recipe = models["detector"].recipe
    annotations = recipe.data.load(with_masks=True).test.data
    stored = read_shards(runs / "detector" / "predictions", annotations)
    found = models["detector"].predict(runs / "glyphs" / "images" / "val", threshold=0)
    entries = [entry for one in found for entry in one.to_coco(int(one.path.stem))]
    assert len(entries) == len(stored) > 20
    scores = sorted(entry["score"] for entry in entries)
    np.testing.assert_allclose(scores, np.sort(stored.scores), rtol=1e-4)
    assert all("segmentation" in entry for entry in entries)


def test_a_detectors_file_evaluates_to_the_numbers_of_its_run(runs, tmp_path):
    annotations = runs / "glyphs" / "annotations" / "lvis_val.json"
    images = runs / "glyphs" / "images" / "val"
    words = ["--threshold", "0", "--no-pictures", "--json", tmp_path / "found.json", "--annotations", annotations]
    done = command("predict", runs / "detector", images, *words)
    assert done.code == 0, done.err
    expected = json.loads((runs / "detector" / "evaluation.json").read_text())["result"]
    for iou_type, end in (("segm", ""), ("bbox", "b")):
        words = ["--iou-type", iou_type, "--json", tmp_path / f"{iou_type}.json"]
        done = command("evaluate", tmp_path / "found.json", "--annotations", annotations, *words)
        assert done.code == 0, done.err
        result = json.loads((tmp_path / f"{iou_type}.json").read_text())
        for metric in ("AP", "AP50", "APr"):
            assert result[metric] == pytest.approx(expected[f"AP{end}{metric[2:]}"], abs=1e-6)
