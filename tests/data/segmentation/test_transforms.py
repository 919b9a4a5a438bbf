import colorsys

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch.testing import assert_close
from torchvision import tv_tensors

from equigrad import IGNORE
from equigrad.data.segmentation.transforms import (
    MEAN_COLOUR,
    Compose,
    PadTo,
    PhotometricDistortion,
    RandomCrop,
    RandomFlip,
    RandomScale,
    ResizeImage,
    _saturated,
    evaluation_transform,
    train_transform,
)


def pair(height, width, num_classes=5):
    """Random labels of 16 bits, some ignored, and an image whose red channel shows them."""
    labels = torch.randint(num_classes, (height, width), dtype=torch.int16)
    image = torch.randint(256, (3, height, width), dtype=torch.uint8)
    image[0] = labels.to(torch.uint8) * 40
    labels[torch.rand(height, width) < 0.1] = IGNORE
    return tv_tensors.Image(image), tv_tensors.Mask(labels)


def agree(image, labels):
    """Whether the labels are still where the image shows them."""
    is_sample = labels != IGNORE
    return bool((image[0][is_sample] == labels[is_sample] * 40).all())


@settings(max_examples=30)
@given(st.integers(2, 90), st.integers(2, 90), st.integers(0, 10_000))
def test_training_gives_the_crop_size_whatever_comes(height, width, seed):
    torch.manual_seed(seed)
    image, labels = train_transform((32, 48), base=(160, 40))(*pair(height, width))
    assert (image.shape, image.dtype) == ((3, 32, 48), torch.uint8)
    assert labels.shape == (32, 48)
    assert set(labels.unique().tolist()) <= {IGNORE, *range(5)}
    assert isinstance(image, tv_tensors.Image)
    assert isinstance(labels, tv_tensors.Mask)


def test_crop_flip_and_padding_move_image_and_labels_together():
    together = Compose((RandomCrop((20, 30), max_share=1), RandomFlip(), PadTo((25, 40))))
    for _ in range(20):
        image, labels = together(*pair(24, 50))
        assert agree(image, labels)
        assert (labels[20:] == IGNORE).all()
        assert (labels[:, 30:] == IGNORE).all()
        assert image[:, 22, 35].tolist() == list(MEAN_COLOUR)


def test_flips_are_those_of_half_the_images():
    image, labels = pair(1, 6)
    flipped = [torch.equal(RandomFlip()(image, labels)[1], labels.flip(1)) for _ in range(200)]
    assert 70 < sum(flipped) < 130


@pytest.mark.parametrize(
    ("size", "base", "expected"),
    [
        ((300, 400), (2048, 512), (512, 683)),  # the shorter side decides
        ((100, 1000), (2048, 512), (205, 2048)),  # the longer side decides
        ((1000, 100), (2048, 512), (2048, 205)),
        ((360, 480), None, (360, 480)),
    ],
)
def test_at_factor_1_the_image_fills_the_box(size, base, expected):
    image, labels = RandomScale((1.0, 1.0), base)(*pair(*size))
    assert image.shape[1:] == labels.shape == expected


def test_factors_fill_their_range():
    widths = torch.tensor([RandomScale((0.5, 2.0), None)(*pair(10, 100))[0].shape[2] for _ in range(300)])
    assert 50 <= widths.min() < 55
    assert 195 < widths.max() <= 200
    assert widths.float().mean() == pytest.approx(125, abs=8)


def test_resized_labels_are_labels():
    image, labels = pair(30, 30)
    _, larger = RandomScale((1.7, 1.7), None)(image, labels)
    assert set(larger.unique().tolist()) == set(labels.unique().tolist())
    assert larger.dtype == torch.int16


def test_a_window_avoids_too_much_of_one_category():
    labels = torch.zeros(40, 400, dtype=torch.int16)
    labels[:, 300:] = torch.arange(100, dtype=torch.int16) % 4  # a quarter of the width holds four categories
    image = torch.zeros(3, 40, 400, dtype=torch.uint8)

    def mixed(max_share):
        crop = RandomCrop((40, 40), max_share)
        shares = [crop(image, labels)[1].unique(return_counts=True)[1].max() / 1600 for _ in range(200)]
        return sum(share < 0.75 for share in shares) / 200

    # A window is mixed in about (360 - 274) / 361 of the places; ten tries fail with 0.76 ** 10 = 0.07.
    assert mixed(1.0) < 0.35
    assert mixed(0.75) > 0.85


def test_ignored_pixels_do_not_count_as_a_category():
    labels = torch.full((8, 8), IGNORE, dtype=torch.int16)
    labels[0, 0] = 1
    image, cut = RandomCrop((8, 8), 0.75)(torch.zeros(3, 8, 8, dtype=torch.uint8), labels)
    assert (image.shape, cut.shape) == ((3, 8, 8), (8, 8))  # no window is good, the last is taken


def test_saturation_is_that_of_hsv():
    image = torch.randint(256, (3, 6, 6)).float()
    for factor in (0.5, 1.0, 1.5):
        changed = _saturated(image, factor) / 255
        for row, column in [(0, 0), (2, 3), (5, 5), (4, 1)]:
            hue, saturation, value = colorsys.rgb_to_hsv(*(image[:, row, column] / 255).tolist())
            expected = colorsys.hsv_to_rgb(hue, min(saturation * factor, 1), value)
            assert_close(changed[:, row, column], torch.tensor(expected), atol=1e-5, rtol=0)


def test_black_and_grey_have_no_saturation_to_change():
    image = torch.tensor([0.0, 0.0, 0.0, 77.0, 77.0, 77.0]).view(2, 3).T.reshape(3, 1, 2)
    assert torch.equal(_saturated(image, 1.5), image)


def test_distortion_changes_colours_within_its_bounds_and_leaves_labels():
    image, labels = tv_tensors.Image(torch.full((3, 4, 4), 100, dtype=torch.uint8)), tv_tensors.Mask(torch.ones(4, 4))
    values = set()
    for _ in range(200):
        changed, same = PhotometricDistortion()(image, labels)
        assert same is labels
        assert changed.dtype == torch.uint8
        assert isinstance(changed, tv_tensors.Image)
        values.add(int(changed[0, 0, 0]))
    assert 34 <= min(values) < 60  # (100 - 32) * 0.5
    assert 150 < max(values) <= 198
    assert 100 in values  # nothing happens in a quarter of the cases or more


def test_the_same_seed_draws_the_same():
    item = pair(60, 80)

    def drawn():
        torch.manual_seed(3)
        return train_transform(32)(*item)

    for first, second in zip(drawn(), drawn(), strict=True):
        assert torch.equal(first, second)


def test_evaluation_resizes_the_image_alone():
    image, labels = pair(300, 400)
    resized, same = evaluation_transform()(image, labels)
    assert resized.shape == (3, 512, 683)
    assert same is labels
    assert evaluation_transform(None)(image, labels)[0] is image


def test_small_frames_keep_their_scale():
    transform = train_transform((240, 320), base=None, scale=(1.0, 1.0), flip=False, distortion=False)
    image, labels = pair(360, 480)
    assert transform(image, labels)[0].shape == (3, 240, 320)
    whole = train_transform((360, 480), base=None, scale=(1.0, 1.0), flip=False, distortion=False)
    assert torch.equal(whole(image, labels)[0], image)


def test_settings_show_in_the_text():
    assert "512" in repr(ResizeImage())
    assert repr(train_transform(64)) != repr(train_transform(64, flip=False))
