import json
from collections import Counter

import numpy as np
import pytest
from PIL import Image

from equigrad.data.frequency import exponential_profile
from equigrad.data.glyphs.files import write_detection
from equigrad.data.glyphs.layout import GlyphData
from equigrad.data.glyphs.lvis_format import run_lengths
from equigrad.data.glyphs.scenes import SCENE, render_scene, scene_rng

coco_mask = pytest.importorskip("pycocotools.mask")

COUNTS = exponential_profile(20, 150, 75)
DATA = GlyphData(COUNTS, eval_count=3, num_fonts=2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_detection(tmp_path_factory.mktemp("glyphs") / "data", DATA, num_negatives=5, not_exhaustive_rate=0.2)


@pytest.fixture(scope="module")
def train(folder):
    return json.loads((folder / "annotations" / "lvis_train.json").read_text())


@pytest.fixture(scope="module")
def val(folder):
    return json.loads((folder / "annotations" / "lvis_val.json").read_text())


def decode(annotation):
    segmentation = annotation["segmentation"]
    return coco_mask.decode(coco_mask.frPyObjects(segmentation, *segmentation["size"])).astype(bool)


def by_image(dataset):
    annotations = {image["id"]: [] for image in dataset["images"]}
    for annotation in dataset["annotations"]:
        annotations[annotation["image_id"]].append(annotation)
    return annotations


def test_every_category_has_exactly_the_instances_asked_for(train, val):
    for dataset, counts in ((train, COUNTS.tolist()), (val, [3] * 20)):
        found = Counter(annotation["category_id"] for annotation in dataset["annotations"])
        assert [found[category["id"]] for category in dataset["categories"]] == counts
        assert [category["instance_count"] for category in dataset["categories"]] == counts


def test_image_counts_are_those_of_the_annotations(train):
    pairs = {(annotation["image_id"], annotation["category_id"]) for annotation in train["annotations"]}
    found = Counter(category for _, category in pairs)
    assert [category["image_count"] for category in train["categories"]] == [found[c] for c in range(1, 21)]


def test_both_files_carry_the_bands_of_training(train, val):
    bands = [category["frequency"] for category in train["categories"]]
    edges = [(10, "r"), (100, "c"), (float("inf"), "f")]
    counts = [category["image_count"] for category in train["categories"]]
    assert bands == [next(band for edge, band in edges if count <= edge) for count in counts]
    assert set(bands) == {"r", "c", "f"}
    assert [category["frequency"] for category in val["categories"]] == bands


def test_masks_are_the_visible_pixels_that_were_drawn(train):
    annotations, glyphs = by_image(train), DATA.glyphs()
    for index, image in enumerate(train["images"][:40]):
        rng = scene_rng(0, "train", index)
        rng.random()  # whether the scene has a glyph without annotation
        extra = [category - 1 for category in image["not_exhaustive_category_ids"]]
        labels = [annotation["category_id"] - 1 for annotation in annotations[image["id"]]]
        scene = render_scene(glyphs, labels + extra, SCENE, rng)
        for glyph, annotation in enumerate(annotations[image["id"]]):
            assert np.array_equal(decode(annotation), scene.mask(glyph))


def test_boxes_are_tight_and_areas_count_pixels(train):
    for annotation in train["annotations"]:
        mask = decode(annotation)
        rows, columns = np.nonzero(mask)
        x, y, width, height = annotation["bbox"]
        assert (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1) == (x, y, x + width, y + height)
        assert annotation["area"] == mask.sum() > 0


def test_no_pixel_belongs_to_two_instances(train):
    for annotations in by_image(train).values():
        assert sum(decode(annotation).astype(int) for annotation in annotations).max() == 1


def test_listed_negatives_are_absent_and_as_many_as_asked(train):
    annotations = by_image(train)
    for image in train["images"]:
        present = {annotation["category_id"] for annotation in annotations[image["id"]]}
        assert len(set(image["neg_category_ids"])) == 5
        assert present.isdisjoint(image["neg_category_ids"])


def test_some_images_are_not_exhaustive_for_a_category_they_show(train):
    annotations = by_image(train)
    incomplete = [image for image in train["images"] if image["not_exhaustive_category_ids"]]
    assert 0.1 < len(incomplete) / len(train["images"]) < 0.3
    for image in incomplete:
        present = {annotation["category_id"] for annotation in annotations[image["id"]]}
        assert present.issuperset(image["not_exhaustive_category_ids"])


def test_ids_are_unique_and_images_are_where_the_records_say(folder, train, val):
    images = train["images"] + val["images"]
    assert len({image["id"] for image in images}) == len(images)
    for image in images:
        assert image["coco_url"].split("/")[-2:] == image["file_name"].split("/")
        with Image.open(folder / "images" / image["file_name"]) as picture:
            assert picture.size == (image["width"], image["height"])
    for dataset in (train, val):
        ids = [annotation["id"] for annotation in dataset["annotations"]]
        assert ids == list(range(1, len(ids) + 1))


def test_the_annotation_fields_of_the_real_format_are_there(train):
    image = {"id", "width", "height", "file_name", "coco_url", "neg_category_ids", "not_exhaustive_category_ids"}
    annotation = {"id", "image_id", "category_id", "bbox", "area", "segmentation"}
    category = {"id", "name", "synset", "synonyms", "def", "frequency", "image_count", "instance_count"}
    for key, fields in (("images", image), ("annotations", annotation), ("categories", category)):
        assert all(fields <= record.keys() for record in train[key])


def test_coco_tools_load_the_file_and_find_perfect_detections_perfect(folder, capsys):
    coco_api, coco_eval = pytest.importorskip("pycocotools.coco"), pytest.importorskip("pycocotools.cocoeval")
    truth = coco_api.COCO(str(folder / "annotations" / "lvis_val.json"))
    perfect = [
        {"image_id": a["image_id"], "category_id": a["category_id"], "segmentation": truth.annToRLE(a), "score": 1.0}
        for a in truth.dataset["annotations"]
    ]
    evaluation = coco_eval.COCOeval(truth, truth.loadRes(perfect), "segm")
    evaluation.evaluate()
    evaluation.accumulate()
    evaluation.summarize()
    assert evaluation.stats[0] == pytest.approx(1.0)


@pytest.mark.parametrize("corner", [False, True])
def test_run_lengths_are_the_code_of_coco(corner):
    mask = np.random.default_rng(0).random((7, 5)) > 0.5
    mask[0, 0] = corner
    code = coco_mask.frPyObjects({"size": [7, 5], "counts": run_lengths(mask)}, 7, 5)
    assert np.array_equal(coco_mask.decode(code).astype(bool), mask)


@pytest.mark.parametrize(("full", "lengths"), [(False, [15]), (True, [0, 15])])
def test_run_lengths_of_empty_and_full_masks(full, lengths):
    assert run_lengths(np.full((3, 5), full)) == lengths


def test_impossible_federations_are_refused(tmp_path):
    with pytest.raises(ValueError, match="not_exhaustive_rate"):
        write_detection(tmp_path / "data", DATA, not_exhaustive_rate=1.5)
