import pytest
import torch

from equigrad.models.detection.targets import check_targets, image_sizes

IMAGES = torch.zeros(2, 3, 64, 96)


def test_an_image_has_the_size_of_its_target_or_of_the_batch():
    assert image_sizes(IMAGES, None) == [(64, 96)] * 2
    assert image_sizes(IMAGES, [{"image_size": torch.tensor([50, 90])}, {}]) == [(50, 90), (64, 96)]


def test_a_batch_without_its_targets_is_refused():
    check_targets(IMAGES, None, training=False)
    check_targets(IMAGES, [{}, {}], training=True)
    with pytest.raises(ValueError, match="training needs targets"):
        check_targets(IMAGES, None, training=True)
    with pytest.raises(ValueError, match="expected targets of 2 images, got 1"):
        check_targets(IMAGES, [{}], training=False)
