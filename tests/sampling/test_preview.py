import json
from collections import Counter
from pathlib import Path

import pytest

from equigrad.sampling import (
    ClassBalancedSampler,
    RepeatFactorSampler,
)

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "repeat_factor.json").read_text())

# Seven images in a tail: category 0 is in five, 1 in two, 2 in one; image 5 has two categories, image 6 none.
TAILED = [[0], [0], [0], [0], [1], [0, 2], []]


def epochs_of(sampler, num_epochs):
    return [index for _ in range(num_epochs) for index in sampler]


class TestPreview:
    def test_counts_what_an_epoch_really_holds(self):
        sampler = RepeatFactorSampler(GOLDEN["image_categories"], threshold=0.2)
        preview = sampler.preview(num_rarest=12)
        epoch = list(sampler)
        assert preview.epoch_length == len(epoch)
        assert preview.length_factor == pytest.approx(len(epoch) / 40)
        for category in preview.rarest:
            shown = sum(category.category in GOLDEN["image_categories"][index] for index in epoch)
            assert category.images_per_epoch == pytest.approx(shown)

    @pytest.mark.parametrize(
        "sampler",
        [
            RepeatFactorSampler(TAILED, threshold=0.6, rounding="stochastic"),
            ClassBalancedSampler(TAILED, per_class=2),
            ClassBalancedSampler(TAILED, form="replacement", num_samples=20),
        ],
        ids=["stochastic", "cycle", "replacement"],
    )
    def test_is_the_mean_over_many_epochs(self, sampler):
        preview = sampler.preview()
        draws = Counter(epochs_of(sampler, 600))
        assert preview.epoch_length == pytest.approx(draws.total() / 600, rel=0.02)
        for category in preview.rarest:
            shown = sum(count for index, count in draws.items() if category.category in TAILED[index]) / 600
            assert category.images_per_epoch == pytest.approx(shown, rel=0.05)

    def test_groups_categories_by_their_number_of_images(self):
        data = [0] * 101 + [1] * 100 + [2] * 11 + [3] * 10 + [4]
        groups = RepeatFactorSampler(data, num_classes=7).preview().groups
        assert [(group.name, group.num_categories) for group in groups] == [("rare", 2), ("common", 2), ("frequent", 1)]

    def test_mean_repeats_of_a_group_are_those_of_its_categories(self):
        # t / f = 16 for category 1 with one image, 4 for category 2 with four.
        data = [0] * 95 + [1] + [2] * 4
        rare, common, _ = RepeatFactorSampler(data, threshold=0.16).preview().groups
        assert rare.mean_repeats == pytest.approx((4 + 2) / 2)
        assert common.mean_repeats == 1

    def test_prints_a_table(self):
        sampler = RepeatFactorSampler(TAILED, threshold=4 / 7, num_classes=4)
        assert str(sampler.preview(category_names=["cat", "ox", "yak", "gnu"], num_rarest=2)).splitlines() == [
            "7 images, 9 samples per epoch: this makes the epoch 1.29x longer",
            "1 images without category: 1 samples per epoch",
            "1 categories without images",
            "",
            "group     images  categories  mean repeats",
            "rare        1-10           3         1.73x",
            "common    11-100           0         empty",
            "frequent    >100           0         empty",
            "",
            "rarest  images  per epoch  repeats",
            "ox           1        2.0    2.00x",
            "yak          1        2.0    2.00x",
        ]

    def test_says_when_the_threshold_does_nothing_and_suggests_one(self):
        text = str(RepeatFactorSampler([0] * 8 + [1] * 2).preview())
        assert "threshold 0.001 repeats no image here; suggest_threshold gives 0.5" in text
        assert "1.00x as long" in text
        assert "suggest" not in str(RepeatFactorSampler([0] * 8 + [1] * 2, threshold=0.5).preview())

    def test_says_that_class_balancing_leaves_out_images_without_category(self):
        assert "1 images without category: 0 samples per epoch" in str(ClassBalancedSampler(TAILED).preview())

    def test_of_data_without_categories_is_a_plain_epoch(self):
        assert RepeatFactorSampler([[], []]).preview().length_factor == 1
        assert "2 images, 2 samples per epoch" in str(RepeatFactorSampler([[], []]).preview())

    def test_wants_a_name_for_each_category(self):
        with pytest.raises(ValueError, match="category_names must have 3 entries, got 1"):
            RepeatFactorSampler(TAILED).preview(category_names=["cat"])
