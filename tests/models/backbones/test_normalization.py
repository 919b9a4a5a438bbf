import pytest
import torch
from torch.testing import assert_close

from equigrad.models.backbones.normalization import EFFICIENTNET_LITE, IMAGENET, Normalization


def test_bytes_and_fractions_are_the_same_image():
    images = torch.randint(0, 256, (2, 3, 4, 5), dtype=torch.uint8)
    normalization = Normalization(IMAGENET)
    assert_close(normalization(images), normalization(images / 255))


def test_lite_takes_127_from_bytes_and_divides_by_128():
    images = torch.arange(0, 240, 20, dtype=torch.uint8).reshape(1, 3, 2, 2)
    assert_close(Normalization(EFFICIENTNET_LITE)(images), (images.float() - 127) / 128)


def test_it_is_not_saved():
    assert Normalization(IMAGENET).state_dict() == {}


def test_other_images_are_refused():
    with pytest.raises(ValueError, match=r"\(N, 3, H, W\)"):
        Normalization(IMAGENET)(torch.zeros(3, 8, 8))
    with pytest.raises(ValueError, match="int64"):
        Normalization(IMAGENET)(torch.zeros(1, 3, 8, 8, dtype=torch.int64))
