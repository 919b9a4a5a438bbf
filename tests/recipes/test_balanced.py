from dataclasses import replace

import pytest

from equigrad.recipes import balanced, image_classification, two_stage


@pytest.mark.parametrize(
    ("recipe", "long_tailed"),
    [
        (balanced.imagenet_resnet50(), image_classification.imagenet_lt_resnet50("ce")),
        (balanced.coco_mask_rcnn_r50(), two_stage.lvis_mask_rcnn_r50("ce")),
    ],
    ids=["ImageNet", "COCO"],
)
def test_balanced_recipes_differ_from_the_long_tailed_ones_in_their_data_alone(recipe, long_tailed):
    assert recipe.data != long_tailed.data
    assert replace(recipe, data=long_tailed.data) == replace(long_tailed, table="", row="")
