import numpy as np
import pytest
import torch
from PIL import Image
from torch.testing import assert_close

from equigrad.data.images.transforms import (
    evaluation_transform,
    small_evaluation_transform,
    small_train_transform,
    train_transform,
    whole_image_transform,
)


@pytest.fixture
def image():
    pixels = np.random.default_rng(0).integers(0, 256, (300, 400, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


@pytest.mark.parametrize(
    ("transform", "size"),
    [
        (train_transform(), 224),
        (train_transform(96, color_jitter=0, flip=False), 96),
        (evaluation_transform(), 224),
        (whole_image_transform(128, interpolation="bicubic"), 128),
        (small_train_transform(), 32),
        (small_train_transform(48, flip=True), 48),
        (small_evaluation_transform(), 32),
    ],
)
def test_every_transform_gives_bytes_of_the_right_size(image, transform, size):
    result = transform(image)
    assert (result.shape, result.dtype) == ((3, size, size), torch.uint8)


def test_evaluation_takes_the_centre_of_the_resized_image(image):
    resized = image.resize((341, 256), Image.Resampling.BILINEAR)
    expected = torch.from_numpy(np.array(resized)).permute(2, 0, 1)[:, 16:240, 58:282]
    assert_close(evaluation_transform()(image), expected)


def test_training_is_random_and_follows_the_seed_of_torch(image):
    transform = train_transform(32)
    results = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        results.append(transform(image))
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])


def test_inaturalist_goes_without_colour_jitter():
    assert "ColorJitter" in repr(train_transform())
    assert "ColorJitter" not in repr(train_transform(color_jitter=0))


def test_unknown_interpolations_are_refused():
    with pytest.raises(ValueError, match="interpolation must be one of"):
        evaluation_transform(interpolation="nearest")
