import pytest

from detection_on_disk import annotation, coco, image, write_json
from equigrad.data.detection.formats.coco_json import read_coco
from equigrad.data.detection.stats import detection_stats
from equigrad.sampling import RepeatFactorSampler
from equigrad.sampling.presence import CategoryPresence
from shared_data import shared_folder


@pytest.fixture
def data(tmp_path):
    """120 images: cats in all, dogs in 20, an eel in one, no fox."""
    images = [image(number) for number in range(1, 122)]
    cats = [annotation(number, number) for number in range(1, 121)]
    dogs = [annotation(1000 + number, number % 20 + 1, 7) for number in range(40)]
    names = [(1, "cat"), (7, "dog"), (8, "eel"), (9, "fox")]
    records = [*cats, *dogs, annotation(2000, 3, 8), annotation(2001, 3, 9, iscrowd=1)]
    content = coco(images, records, [{"id": id_, "name": name} for id_, name in names])
    return read_coco(write_json(tmp_path / "a.json", content))


def test_categories_are_counted_and_grouped_by_images(data):
    stats = detection_stats(data)
    rows = [(row.id, row.name, row.images, row.instances, row.group) for row in stats.categories]
    assert rows == [
        (1, "cat", 120, 120, "frequent"),
        (7, "dog", 20, 40, "common"),
        (8, "eel", 1, 1, "rare"),
        (9, "fox", 0, 0, "rare"),
    ]
    assert (stats.num_images, stats.num_empty_images, stats.num_annotations, stats.num_crowd) == (121, 1, 162, 1)


def test_the_table_has_totals_groups_and_categories(data):
    text = str(detection_stats(data))
    assert "121 images (1 without annotation), 162 annotations (1 crowd)" in text
    assert "4 categories, 1 of them without images" in text
    assert "images of a category: 120 to 1, imbalance factor 120" in text
    lines = [line.split() for line in text.splitlines()]
    assert ["rare", "2", "1", "1", "1"] in lines
    assert ["dog", "20", "40", "common"] in lines


def test_long_tables_show_head_and_tail(data):
    text = detection_stats(data).table(num_shown=1)
    assert "cat " in text
    assert "eel" in text  # the rarest that occurs
    assert "dog" not in text
    assert "..." in text


def test_quantiles_have_equally_many_categories(data):
    stats = detection_stats(data, groups_by="quantiles", num_groups=2)
    assert {name: members.tolist() for name, members in stats.groups.items()} == {
        "quantile 1": [2, 3],
        "quantile 2": [0, 1],
    }
    assert "rarest first" in str(stats)


def test_wrong_groups_are_refused(data):
    with pytest.raises(ValueError, match="groups_by must be file, images or quantiles"):
        detection_stats(data, groups_by="size")
    with pytest.raises(ValueError, match=r"num_groups must be in 1..4"):
        detection_stats(data, groups_by="quantiles", num_groups=5)


def test_the_presence_is_all_a_preview_of_an_epoch_needs(data):
    import torch

    stats = detection_stats(data)
    images, categories = map(torch.from_numpy, stats.presence)
    presence = CategoryPresence(images, categories, stats.num_images, len(stats.categories))
    assert presence.image_counts.tolist() == stats.image_counts.tolist()
    preview = RepeatFactorSampler(presence, threshold=0.1).preview(category_names=stats.names)
    assert "eel" in str(preview)


@pytest.mark.shared_data
def test_groups_of_lvis_come_from_its_file():
    stats = detection_stats(read_coco(shared_folder("lvis_val_100", "lvis_val_100.json")))
    assert {name: len(members) for name, members in stats.groups.items()} == {
        "rare": 454,
        "common": 461,
        "frequent": 315,
    }
    assert stats.grouped_by == "by the file"
