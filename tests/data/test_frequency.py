import json
from pathlib import Path

import numpy as np
import pytest

from equigrad.data.frequency import (
    exponential_profile,
    load_frequencies,
    lvis_split,
    pareto_profile,
    pick_categories,
    scale_counts,
    shot_split,
)

GOLDEN = Path(__file__).parents[1] / "golden" / "shot_split.json"


def sizes(groups):
    return {name: len(members) for name, members in groups.items()}


def test_lvis_frequencies_have_the_published_size_and_groups():
    lvis = load_frequencies("lvis_v1")
    assert len(lvis) == 1203
    assert lvis.image_counts.sum() == 360_952
    assert lvis.instance_counts.sum() == 1_270_141
    assert sizes(lvis_split(lvis.image_counts)) == {"rare": 337, "common": 461, "frequent": 405}


def test_places_lt_has_the_published_size_and_groups():
    places = load_frequencies("places_lt")
    assert (len(places), places.image_counts.sum(), places.image_counts.max()) == (365, 62_500, 4_980)
    assert sizes(shot_split(places.image_counts)) == {"many": 131, "medium": 163, "few": 71}


def test_imagenet_lt_like_has_the_published_total_and_groups():
    imagenet = load_frequencies("imagenet_lt_like")
    assert (len(imagenet), imagenet.image_counts.sum()) == (1000, 115_846)
    assert sizes(shot_split(imagenet.image_counts)) == {"many": 385, "medium": 479, "few": 136}


def test_ade20k_has_pixel_ratios_beside_image_counts():
    ade20k = load_frequencies("ade20k")
    assert (len(ade20k), ade20k.names[0], ade20k.image_counts[0]) == (150, "wall", 11_664)
    assert ade20k.pixel_ratios[0] == 0.1576


def test_an_unknown_benchmark_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"lvis_v1.*got 'lvis'"):
        load_frequencies("lvis")


def test_shot_split_gives_the_accuracies_of_the_published_code():
    golden = json.loads(GOLDEN.read_text())
    labels, predictions = np.array(golden["labels"]), np.array(golden["predictions"])
    accuracies = np.array([(predictions[labels == c] == c).mean() for c in range(len(golden["train_counts"]))])
    for name, members in shot_split(golden["train_counts"]).items():
        assert accuracies[members].mean() == pytest.approx(golden[name], abs=1e-12)


@pytest.mark.parametrize(
    ("convention", "expected"),
    [
        ("code", {"many": [0], "medium": [1, 2, 3, 4], "few": [5, 6]}),
        ("paper", {"many": [0, 1], "medium": [2, 3], "few": [4, 5, 6]}),
    ],
)
def test_the_two_shot_conventions_differ_at_100_and_20(convention, expected):
    groups = shot_split([101, 100, 99, 21, 20, 19, 0], convention)
    assert {name: members.tolist() for name, members in groups.items()} == expected


def test_an_unknown_convention_is_refused():
    with pytest.raises(ValueError, match="code"):
        shot_split([1], "text")


def test_lvis_edges_are_10_and_100_and_unseen_categories_are_rare():
    groups = lvis_split([0, 1, 10, 11, 100, 101])
    assert {name: members.tolist() for name, members in groups.items()} == {
        "rare": [0, 1, 2],
        "common": [3, 4],
        "frequent": [5],
    }


def test_exponential_profile_falls_by_one_factor():
    assert exponential_profile(3, 100, 100).tolist() == [100, 10, 1]


@pytest.mark.parametrize("profile", [exponential_profile, pareto_profile])
def test_profiles_span_the_imbalance_factor_and_never_rise(profile):
    counts = profile(50, 500, 100)
    assert (counts[0], counts[-1]) == (500, 5)
    assert (np.diff(counts) <= 0).all()


def test_pareto_profile_has_a_shorter_head_than_the_exponential_one():
    assert pareto_profile(100, 1000, 100).sum() < 0.7 * exponential_profile(100, 1000, 100).sum()


@pytest.mark.parametrize("profile", [exponential_profile, pareto_profile])
def test_a_profile_without_imbalance_or_with_one_category_is_flat(profile):
    assert profile(4, 7, 1).tolist() == [7, 7, 7, 7]
    assert profile(1, 7, 10).tolist() == [7]


def test_a_steep_profile_keeps_every_category():
    assert exponential_profile(10, 5, 1000).min() == 1


@pytest.mark.parametrize("arguments", [(0, 10, 10), (10, 0, 10), (10, 10, 0.5), (10, 10, float("nan"))])
def test_impossible_profiles_are_refused(arguments):
    with pytest.raises(ValueError, match="at least 1"):
        exponential_profile(*arguments)


def test_picked_categories_keep_both_ends_and_the_order():
    counts = load_frequencies("lvis_v1").image_counts
    picked = pick_categories(counts, 100)
    assert (len(picked), picked[0], picked[-1]) == (100, counts.max(), counts.min())
    assert (np.diff(picked) <= 0).all()


@pytest.mark.parametrize("total", [1203, 5000, 999_999])
def test_scaled_counts_sum_exactly_keep_every_category_and_their_order(total):
    counts = load_frequencies("lvis_v1").image_counts
    scaled = scale_counts(counts, total)
    assert scaled.sum() == total
    assert scaled.min() >= 1
    order = np.argsort(counts, kind="stable")
    assert (np.diff(scaled[order]) >= -1).all()  # a remainder may favour one of two equal counts


def test_scaling_leaves_absent_categories_absent_and_refuses_too_small_a_total():
    assert scale_counts([0, 3, 0, 1], 8).tolist() == [0, 6, 0, 2]
    with pytest.raises(ValueError, match="at least 2, one for each category that occurs"):
        scale_counts([0, 3, 0, 1], 1)


@pytest.mark.parametrize("counts", [[], [[1]], [1.5], [-1], [float("nan")], ["a"]])
def test_counts_that_are_no_counts_are_refused(counts):
    with pytest.raises(ValueError, match="counts must be"):
        shot_split(counts)
