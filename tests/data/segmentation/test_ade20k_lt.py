import re
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays

from equigrad.data.frequency import load_frequencies
from equigrad.data.glyphs.files import write_segmentation
from equigrad.data.glyphs.layout import GlyphData
from equigrad.data.segmentation.ade20k_lt import (
    ADE20K_SIZE,
    PUBLISHED_SIZE,
    Reading,
    long_tailed_subset,
    simulated_presence,
    write_long_tailed,
)
from equigrad.data.segmentation.readers import read_camvid, read_label_folders, read_scene_parsing
from segmentation_on_disk import write_set
from shared_data import shared_folder

PAGE = Path(__file__).parents[3] / "docs" / "ade20k_lt.md"
READINGS = get_args(Reading)
PRESENCES = arrays(bool, st.tuples(st.integers(1, 60), st.integers(1, 8)))


@pytest.fixture(scope="module")
def ade20k():
    return simulated_presence(load_frequencies("ade20k").image_counts, ADE20K_SIZE)


@settings(max_examples=50)
@given(PRESENCES, st.floats(0, 1), st.integers(0, 5))
def test_quota_leaves_no_category_above_its_share(presence, rate, seed):
    subset = long_tailed_subset(presence, rate=rate, seed=seed)
    quotas = np.rint(np.exp(-rate * np.arange(presence.shape[1])) * presence.sum(0))
    assert (subset.counts_after <= quotas).all()
    assert (subset.counts_after == presence[subset.kept].sum(0)).all()
    assert (np.diff(subset.kept) > 0).all()


def presence_of(image_categories, num_classes):
    """The categories of every image as a matrix (N, C)."""
    return np.array([[label in categories for label in range(num_classes)] for categories in image_categories])


def test_quota_removes_only_what_is_too_much():
    # The tail, category 2 (ratio 0.25), goes from 4 images to 1; that leaves category 1 (0.5) with 3 of its 6, its
    # quota, and category 0 is in all images of the others, which makes 4 of 7 with its own.
    presence = presence_of([{0}, {0, 1}, {0, 1}, {0, 1, 2}, {0, 1, 2}, {0, 1, 2}, {0, 1, 2}], 3)
    subset = long_tailed_subset(presence, rate=np.log(2))
    assert subset.counts_before.tolist() == [7, 6, 4]
    assert subset.counts_after.tolist() == [4, 3, 1]
    assert {0, 1, 2} <= set(subset.kept.tolist())


@settings(max_examples=30)
@given(PRESENCES, st.floats(0, 1), st.sampled_from(["union", "top_up"]))
def test_readings_that_add_reach_the_share_of_every_category(presence, rate, reading):
    subset = long_tailed_subset(presence, rate=rate, reading=reading)
    wanted = [round(ratio * count) for ratio, count in zip(subset.ratios, presence.sum(0), strict=True)]
    assert (subset.counts_after >= wanted).all()


def test_each_reading_of_one_category_keeps_its_share():
    presence = np.ones((100, 2), dtype=bool)
    presence[:, 0] = False
    for reading in READINGS:
        assert len(long_tailed_subset(presence, rate=np.log(4), reading=reading).kept) == 25


def test_the_rarest_category_alone_decides():
    presence = presence_of([{0}] * 8 + [{0, 1}] * 8, 2)
    subset = long_tailed_subset(presence, rate=np.log(2), reading="rarest")
    assert subset.counts_after.tolist() == [12, 4]


def test_drops_add_up():
    presence = presence_of([{1, 2}] * 64 + [{0}] * 4, 3)
    subset = long_tailed_subset(presence, rate=np.log(2), reading="drop")
    assert subset.counts_after.tolist() == [4, 8, 8]  # 64 -> a quarter for category 2 -> half of that for category 1


@pytest.mark.parametrize("reading", READINGS)
def test_rate_0_keeps_every_labelled_image(reading):
    presence = simulated_presence([50, 20, 5], 80)
    assert len(long_tailed_subset(presence, rate=0.0, reading=reading).kept) >= presence.any(1).sum()


@pytest.mark.parametrize("reading", READINGS)
def test_a_seed_decides_the_choice(ade20k, reading):
    first, second, other = (long_tailed_subset(ade20k, reading=reading, seed=seed).kept for seed in (1, 1, 2))
    assert np.array_equal(first, second)
    assert not np.array_equal(first, other)


def test_the_choice_is_the_same_on_every_machine():
    subset = long_tailed_subset(presence_of([{0, 1}] * 10, 2), rate=0.5, seed=7)
    assert subset.kept.tolist() == [1, 2, 3, 4, 5, 7]


def test_another_order_makes_another_tail():
    presence = presence_of([{0}] * 10 + [{1}] * 10, 2)
    subset = long_tailed_subset(presence, rate=np.log(2), head_first=[1, 0])
    assert subset.counts_after.tolist() == [5, 10]


def test_categories_that_lose_everything_are_told():
    subset = long_tailed_subset(presence_of([{0}, {1}, {1, 2}], 4), rate=1.0)
    assert subset.lost.tolist() == [2]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"rate": -1.0}, "rate must be a number from 0"),
        ({"rate": float("nan")}, "rate must be"),
        ({"reading": "guess"}, "reading must be one of quota, union"),
        ({"head_first": [0, 0]}, r"categories 0\.\.1, each once"),
    ],
)
def test_wrong_arguments_are_refused(arguments, problem):
    with pytest.raises(ValueError, match=problem):
        long_tailed_subset(np.ones((3, 2), dtype=bool), **arguments)


def test_simulated_images_have_the_true_counts(ade20k):
    counts = load_frequencies("ade20k").image_counts
    assert (ade20k.sum(0) == counts).all()
    assert ade20k.shape == (20_210, 150)
    alike = simulated_presence(counts, ADE20K_SIZE, richness=0.0)
    assert alike.sum(1).std() < ade20k.sum(1).std()


def test_the_default_lands_near_the_published_size(ade20k):
    kept = len(long_tailed_subset(ade20k).kept)
    assert abs(kept - PUBLISHED_SIZE) < 300
    assert kept == pytest.approx(documented()["quota"][1], rel=0.01)


@pytest.mark.parametrize("reading", [reading for reading in READINGS if reading != "quota"])
def test_the_other_readings_are_far_from_it_as_documented(ade20k, reading):
    kept = len(long_tailed_subset(ade20k, reading=reading).kept)
    assert abs(kept - PUBLISHED_SIZE) > 2_500
    assert kept == pytest.approx(documented()[reading][1], rel=0.01)


def test_images_that_are_all_alike_give_fewer_as_documented():
    alike = simulated_presence(load_frequencies("ade20k").image_counts, ADE20K_SIZE, richness=0.0)
    for reading in READINGS:
        kept = len(long_tailed_subset(alike, reading=reading).kept)
        assert kept == pytest.approx(documented()[reading][0], rel=0.01)


def test_the_example_of_the_page_prints_the_size_in_its_table(capsys):
    (code,) = (
        code for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL) if "print" in code
    )
    exec(code, {})
    assert int(capsys.readouterr().out) == pytest.approx(documented()["quota"][1], rel=0.01)


def documented():
    """Images kept by reading, in the columns of the page's table."""
    rows = re.findall(r"^\| `(\w+)` \|.*?\| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \|", PAGE.read_text(), flags=re.MULTILINE)
    return {reading: [int(value.replace(",", "")) for value in values] for reading, *values in rows}


def test_a_list_is_written_for_any_set_with_its_layout(tmp_path):
    folder = write_segmentation(tmp_path / "glyphs", GlyphData([30, 12, 6], eval_count=1))
    data = read_scene_parsing(folder, "training")
    text = write_long_tailed(data, tmp_path / "lists/train.txt", rate=0.5)
    kept = data.listed(tmp_path / "lists/train.txt")
    assert 0 < len(kept) < len(data)
    assert f"{len(kept)} of {len(data)} images kept" in text
    assert "reading quota, rate 0.5, order index, seed 0" in text
    assert write_long_tailed(data, tmp_path / "again.txt", rate=0.5) == text.replace("lists/train.txt", "again.txt")


def test_a_list_is_written_for_label_folders_by_frequency(tmp_path):
    maps = {f"{index:02d}": [[index % 2 + 1] * 4] for index in range(20)} | {"99": [[0, 1, 1, 1]]}
    folder = write_set(tmp_path, maps)
    data = read_label_folders("images", "labels", folder / "classes.txt", root=folder)
    text = write_long_tailed(data, tmp_path / "train.txt", rate=np.log(2), order="pixels")
    # Pixels make the order sky, tram, road: tram keeps half of its 10 images, road a quarter of one, which is none.
    assert sum(name != "99" for name in data.listed(tmp_path / "train.txt").names) == 15
    assert "categories that lost all their images: road" in text
    assert not list(tmp_path.glob(".*"))


def test_nothing_is_written_when_no_image_is_left(tmp_path):
    folder = write_set(tmp_path, {"a": [[1]], "b": [[2]]})
    data = read_label_folders("images", "labels", folder / "classes.txt", root=folder)
    with pytest.raises(ValueError, match=r"rate 5\.0 and reading quota leave no image"):
        write_long_tailed(data, tmp_path / "train.txt", rate=5.0)
    assert not (tmp_path / "train.txt").exists()


@pytest.mark.shared_data
def test_camvid_has_a_long_tailed_subset_too(tmp_path):
    data = read_camvid(shared_folder("camvid"), "val")
    text = write_long_tailed(data, tmp_path / "val.txt", rate=0.05, order="images")
    kept = data.listed(tmp_path / "val.txt")
    assert f"{len(kept)} of 112 images kept" in text
    assert 20 < len(kept) < 100
