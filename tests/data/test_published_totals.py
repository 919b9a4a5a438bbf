import numpy as np
import pytest

from equigrad.data.frequency import load_frequencies
from equigrad.data.published_totals import PUBLISHED_SETS, Found, published_line

LVIS = load_frequencies("lvis_v1").names
COCO = ["person", *map(str, range(78)), "toothbrush"]
NUMBERS = {known.name: known for known in PUBLISHED_SETS}


def as_published(known, **changes):
    """The counts of a set as it was published, with some of them changed."""
    names = [str(label) for label in range(known.num_categories)]
    if known.frequencies:
        names = list(load_frequencies(known.frequencies).names)
    if known.ends:
        names[0], names[-1] = known.ends
    counts = np.full(known.num_categories, known.count_range[0] if known.count_range else 1)
    counts[0] = known.count_range[1] if known.count_range else 1
    found = {"num_images": known.num_images, "num_annotations": known.num_annotations, "image_counts": counts}
    return Found(known.kind, known.file_name, names, **(found | changes))


@pytest.mark.parametrize("name", NUMBERS)
def test_a_published_set_is_recognised_by_all_its_totals(name):
    known = NUMBERS[name]
    line = published_line(as_published(known))
    assert line.startswith(f"this is {name} as published: {known.num_images:,} images, {known.num_categories:,} cat")


@pytest.mark.parametrize("name", NUMBERS)
def test_one_image_less_is_not_as_published(name):
    known = NUMBERS[name]
    line = published_line(as_published(known, num_images=known.num_images - 1))
    assert line.startswith(f"not {name} as published: {known.num_images - 1:,} images instead of {known.num_images:,}")


def test_all_differences_are_named():
    line = published_line(Found("boxes", "mine.json", LVIS, 19_000, 240_000))
    assert line == (
        "not LVIS v1 val as published: 19,000 images instead of 19,809, 240,000 annotations instead of 244,707"
    )


def test_a_list_with_the_right_total_but_another_tail_is_not_as_published():
    counts = np.full(365, 171)
    line = published_line(Found("labels", "Places_LT_train.txt", COCO * 4 + COCO[:45], 62_500, image_counts=counts))
    assert line == (
        "not Places-LT train as published: 171 images of the rarest category instead of 5, "
        "171 images of the most frequent category instead of 4,980"
    )


@pytest.mark.parametrize(
    "found",
    [
        Found("boxes", "mine.json", ["cat", "dog"], 5_000, 36_781),
        Found("boxes", "mine.json", [str(label) for label in range(80)], 5_000, 36_781),
        Found("boxes", "mine.json", [str(label) for label in range(1203)], 100_170, 1_270_141),
        Found("labels", "train.txt", [str(label) for label in range(1000)], 115_846),
        Found("labels", "mine.json", COCO, 5_000),
    ],
)
def test_data_of_ones_own_is_not_compared_with_anything(found):
    assert published_line(found) is None


def test_the_totals_are_those_of_the_frequency_tables():
    assert load_frequencies("lvis_v1").instance_counts.sum() == NUMBERS["LVIS v1 train"].num_annotations
    places = load_frequencies("places_lt").image_counts
    known = NUMBERS["Places-LT train"]
    assert (places.sum(), (places.min(), places.max())) == (known.num_images, known.count_range)
    assert len(load_frequencies("ade20k")) == NUMBERS["ADE20K training"].num_categories


def test_the_paper_counts_fewer_images_of_ade20k_and_the_line_says_so():
    assert "20,196" in published_line(as_published(NUMBERS["ADE20K training"]))
