import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from detection_on_disk import with_text_ids, without_sizes
from equigrad.tasks.detection.data import CocoFiles, GlyphObjects, OpenImages
from equigrad.tasks.smoke_test.generated_objects import write_openimages
from images_on_disk import zip_folder
from small_detection_data import CATEGORIES, TRAIN, annotated, write_small_data

PAN = {"id": 2, "name": "pan", "frequency": "r"}


@pytest.fixture
def root(tmp_path):
    return write_small_data(tmp_path)


def files(root, **changes):
    return CocoFiles(**{"train": root / "train.json", "test": root / "test.json", "images": root / "images", **changes})


def rewrite(file, change):
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))


def test_both_files_are_read_and_test_images_have_their_annotations(root):
    sets = files(root).load(with_masks=True)
    assert (len(sets.train), len(sets.test)) == (8, 5)
    image, target = sets.test[2]
    assert tuple(image.shape) == (3, 40, 60)
    assert target["labels"].tolist() == [0, 1, 2]
    assert sets.train[5][1]["masks"].dense().sum((1, 2)).tolist() == [15**2, 16**2, 17**2]


def test_images_without_annotation_are_trained_on_unless_told_otherwise(root):
    assert len(files(root, keep_empty=False).load(with_masks=False).train) == len([ids for ids in TRAIN if ids])


def test_files_with_texts_as_ids_and_without_sizes_give_the_same_targets(root):
    plain = files(root).load(with_masks=True)
    for name in ("train", "test"):
        content = without_sizes(with_text_ids(json.loads((root / f"{name}.json").read_text())))
        (root / f"odd_{name}.json").write_text(json.dumps(content))
    odd = {name: root / f"odd_{name}.json" for name in ("train", "test")}
    sets = files(root, **odd, images=zip_folder(root / "images", root / "images.zip")).load(with_masks=True)
    for found, expected in ((sets.train, plain.train), (sets.test, plain.test)):
        assert [found[index][1]["image_id"] for index in (0, 1)] == ["image-010", "image-011"]
        for (_, one), (_, other) in zip(found, expected, strict=True):
            assert torch.equal(one["boxes"], other["boxes"])
            assert (one["labels"].tolist(), one["original_size"]) == (other["labels"].tolist(), other["original_size"])
    assert sets.train[5][1]["masks"].dense().sum() == plain.train[5][1]["masks"].dense().sum()


def test_test_images_may_lie_elsewhere(root):
    (root / "images" / "test").rename(root / "test")
    with pytest.raises(FileNotFoundError, match=r"10\.png"):
        files(root).load(with_masks=False)
    elsewhere = root / "elsewhere"
    elsewhere.mkdir()
    (root / "test").rename(elsewhere / "test")
    assert files(root, test_images=elsewhere).load(with_masks=False).test[0]


def test_images_of_both_sets_that_differ_only_in_their_folder_are_not_mixed_up(root):
    for name in ("train", "test"):
        rewrite(root / f"{name}.json", lambda content: content.update(without_sizes(content)))
    with pytest.raises(
        ValueError, match=r"train/10\.png: is train/10\.png of .*train\.json and test/10\.png of .*test\."
    ):
        files(root, images=root / "images" / "train").load(with_masks=False)
    split = {"images": root / "images" / "train", "test_images": root / "images" / "test"}
    assert files(root, **split).load(with_masks=False).test[0]


def test_images_may_be_a_folder_of_an_archive_which_the_message_names(root):
    archive = zip_folder(root, root / "all.zip")
    assert files(root, images=archive / "images").load(with_masks=False).train[0]
    with pytest.raises(
        FileNotFoundError, match=r"no such image; the images are in .*all\.zip/images, name that instead"
    ):
        files(root, images=archive).load(with_masks=False)


@pytest.mark.parametrize("field", ["train", "test", "images", "test_images"])
def test_what_is_missing_is_named_with_the_setting_that_names_it(root, field):
    with pytest.raises(FileNotFoundError, match=rf"nowhere: no such file or folder; .* --set data\.{field}="):
        files(root, **{field: root / "nowhere"}).load(with_masks=False)


def test_without_a_test_file_a_share_is_held_out_always_the_same(root):
    parts = [files(root, test=None, test_share=0.25).load(with_masks=False) for _ in range(2)]
    train, test = (parts[0].train.data.image_ids.tolist(), parts[0].test.data.image_ids.tolist())
    assert len(test) == 2
    assert sorted(train + test) == [10 + number for number in range(8)]
    assert parts[1].test.data.image_ids.tolist() == test


@pytest.mark.parametrize("share", [0.0, 0.01, 1.0])
def test_a_share_that_leaves_a_part_empty_is_refused(root, share):
    with pytest.raises(ValueError, match="of 8 images leaves none"):
        files(root, test=None, test_share=share).load(with_masks=False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: content["categories"][1].update(name="mug"), "id 5 is 'mug' here and 'jug' there"),
        (lambda content: content["categories"].append(PAN), "id 2 is 'pan' here and missing there"),
    ],
)
def test_other_categories_in_the_test_file_are_refused(root, change, message):
    rewrite(root / "test.json", change)
    line = rf"test\.json: categories must be those of .*train\.json, or some of them; {message}"
    with pytest.raises(ValueError, match=line):
        files(root).load(with_masks=False)


def test_a_test_file_may_list_only_some_of_the_categories(root):
    whole = files(root).load(with_masks=False).test

    def without_the_first(content):
        first = min(category["id"] for category in content["categories"])
        content["categories"] = [category for category in content["categories"] if category["id"] != first]
        content["annotations"] = [item for item in content["annotations"] if item["category_id"] != first]
        for image in content["images"]:  # of LVIS: they name categories
            del image["neg_category_ids"], image["not_exhaustive_category_ids"]

    rewrite(root / "test.json", without_the_first)
    part = files(root).load(with_masks=False).test
    assert part.class_names == whole.class_names
    assert [target["labels"].tolist() for _, target in part] == [
        [label for label in target["labels"].tolist() if label != 0] for _, target in whole
    ]


def test_the_same_categories_in_another_order_are_the_same(root):
    rewrite(root / "test.json", lambda content: content["categories"].reverse())
    assert files(root).load(with_masks=False).test[2][1]["labels"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("name", ["train.json", "test.json"])
def test_masks_are_asked_for_before_the_training(root, name):
    def without_masks(content):
        for annotation in content["annotations"]:
            del annotation["segmentation"]

    rewrite(root / name, without_masks)
    with pytest.raises(ValueError, match=rf"{name}: .*segmentation"):
        files(root).load(with_masks=True)
    assert files(root).load(with_masks=False)


def test_groups_of_files_without_letters_follow_the_training_images(root, tmp_path):
    def without_letters(content):
        for category in content["categories"]:
            category.pop("frequency", None)

    for name in ("train.json", "test.json"):
        rewrite(root / name, without_letters)
    evaluator = files(root).load(with_masks=False).evaluator(tmp_path / "predictions", ("bbox",))
    nothing = {"boxes": torch.zeros(0, 4), "labels": torch.zeros(0, dtype=torch.int64), "scores": torch.zeros(0)}
    evaluator.add([nothing], [{"image_id": 10}])
    assert [row.group for row in evaluator.per_category()] == ["rare"] * 4
    assert [row.count for row in evaluator.per_category()] == [7, 3, 1, 1]


def test_the_benchmark_decides_the_rules(root, tmp_path):
    names = {
        benchmark: files(root, benchmark=benchmark).load(with_masks=False).evaluator(tmp_path / "a", ("bbox",)).protocol
        for benchmark in ("lvis", "coco", None)
    }
    assert names == {"lvis": "lvis", "coco": "coco", None: None}


def test_a_part_of_the_test_images_is_the_same_each_time_and_keeps_the_federated_rules(root, tmp_path):
    sets = files(root).load(with_masks=False)
    part = sets.minival(3)
    assert part.tolist() == files(root).load(with_masks=False).minival(3).tolist()
    assert len(set(part.tolist())) == 3
    annotations = sets.evaluator(tmp_path, ("bbox",), part).annotations
    whole = sets.test.data
    assert annotations.image_ids.tolist() == whole.image_ids[part].tolist()
    assert [annotations.negative[row].tolist() for row in range(3)] == [whole.negative[row].tolist() for row in part]
    assert sets.minival(5) is None  # there are no more
    assert sets.minival(None) is None


def test_glyph_objects_are_drawn_once_and_in_their_numbers(tmp_path):
    data = GlyphObjects(tmp_path / "glyphs", num_classes=6, max_count=12, test_count=2, image_size=64)
    first = data.load(with_masks=True)
    assert first.train.data.instance_counts.max() == 12
    assert first.test.data.instance_counts.tolist() == [2] * 6
    written = {file: file.stat().st_mtime_ns for file in (tmp_path / "glyphs").rglob("*.*")}
    data.load(with_masks=True)
    assert {file: file.stat().st_mtime_ns for file in (tmp_path / "glyphs").rglob("*.*")} == written


def test_other_glyphs_in_the_same_folder_are_refused(tmp_path):
    data = GlyphObjects(tmp_path / "glyphs", num_classes=3, max_count=4, test_count=1, image_size=64)
    data.load(with_masks=False)
    other = GlyphObjects(tmp_path / "glyphs", num_classes=3, max_count=4, test_count=1, image_size=64, seed=1)
    with pytest.raises(FileExistsError, match="glyphs holds data made with another data; choose another folder"):
        other.load(with_masks=False)


def test_profiles_of_glyphs_are_lvis_or_exponential():
    lvis = GlyphObjects(num_classes=120, max_count=200)._counts()
    assert (lvis.max(), lvis.min()) == (200, 1)
    exponential = GlyphObjects(num_classes=3, max_count=100, profile="exponential", imbalance_factor=100)._counts()
    assert exponential.tolist() == [100, 10, 1]


@pytest.fixture(scope="module")
def openimages(tmp_path_factory):
    root = tmp_path_factory.mktemp("data") / "openimages"
    write_openimages(root)
    return OpenImages(root, root / "images")


def test_openimages_is_trained_on_the_boxes_as_published(openimages, tmp_path):
    sets = openimages.load(with_masks=False)
    assert sets.train.data.num_classes == 500
    assert sets.train.data.instance_counts[:3].tolist() == [1, 1, 1]
    evaluator = sets.evaluator(tmp_path, ("bbox",))
    assert list(evaluator.groups) == ["AP1", "AP2", "AP3", "AP4", "AP5"]


def test_boxes_of_ancestors_are_trained_on_if_asked_for_and_never_make_the_groups(openimages, tmp_path):
    expanded = replace(openimages, expand_boxes=True).load(with_masks=False)
    assert expanded.train.data.instance_counts[:3].tolist() == [20, 1, 1]  # the first is above the next 19
    plain = openimages.load(with_masks=False)
    groups = [sets.evaluator(tmp_path, ("bbox",)).groups for sets in (expanded, plain)]
    assert all(np.array_equal(groups[0][name], groups[1][name]) for name in groups[0])


def test_openimages_has_no_masks_and_says_what_is_missing(openimages, tmp_path):
    with pytest.raises(ValueError, match="without masks"):
        openimages.load(with_masks=True)
    with pytest.raises(FileNotFoundError, match=r"nowhere: no such folder; .* --set data\.root="):
        OpenImages(tmp_path / "nowhere").load(with_masks=False)


def test_the_small_data_has_what_its_tests_speak_of():
    content = annotated(TRAIN)
    assert len(content["annotations"]) == sum(map(len, TRAIN))
    assert content["categories"] == CATEGORIES
