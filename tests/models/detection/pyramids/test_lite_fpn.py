import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch.testing import assert_close

from equigrad.models.backbones.dilated_efficientnet_lite import DilatedEfficientNetLite0
from equigrad.models.backbones.efficientnet_lite import PACKAGE, EfficientNetLite0
from equigrad.models.detection.pyramids.lite_fpn import LiteFPN
from models.pyramid_checks import check_bytes_and_fractions, check_channels_last, check_levels, moved_in_a_step


@settings(max_examples=5)
@given(st.integers(32, 400), st.integers(32, 400), st.sampled_from(["p5", None]))
def test_every_level_is_the_image_over_its_stride_rounded_up(height, width, extra):
    with torch.device("meta"):
        pyramid = LiteFPN(num_channels=64, extra=extra)
    check_levels(pyramid, height, width)
    assert pyramid.strides == ((8, 16, 32) if extra is None else (8, 16, 32, 64, 128))


def test_the_pyramid_stands_on_the_last_maps_of_imagenets_network():
    pyramid = LiteFPN(PACKAGE, extra=None).eval()
    encoder = DilatedEfficientNetLite0(PACKAGE, output_stride=32).eval()
    images = torch.rand(1, 3, 64, 96)
    with torch.inference_mode():
        maps = encoder(images)
        stride_8 = encoder.blocks[:5](encoder.stem(encoder.normalization(images)))
        expected = pyramid.fpn([stride_8, maps.middle, maps.last])
        assert_close(pyramid(images), expected)


def test_imagenet_features_follow_the_levels_and_average_to_those_of_the_classifier():
    pyramid = LiteFPN(PACKAGE, imagenet_features=True).eval()
    images = torch.rand(2, 3, 64, 96)
    with torch.inference_mode():
        *levels, features = pyramid(images)
        assert_close(features.mean((2, 3)), EfficientNetLite0(PACKAGE).eval()(images))
    assert features.shape == (2, pyramid.imagenet_channels, 2, 3)
    assert len(levels) == len(pyramid.strides)


def test_their_statistics_stay_as_they_are_and_their_weights_are_trained():
    moved = moved_in_a_step(LiteFPN(PACKAGE, imagenet_features=True))
    assert {name for name in moved if name.startswith("head.")} == {
        "head.conv.weight",
        "head.norm.weight",
        "head.norm.bias",
    }


def test_a_step_moves_neither_the_first_blocks_nor_any_statistics():
    pyramid = LiteFPN(PACKAGE)
    moved = moved_in_a_step(pyramid)
    frozen = ("stem.", "blocks.0.", "blocks.1.", "blocks.2.")
    assert moved == {name for name, _ in pyramid.named_parameters() if not name.startswith(frozen)}


def test_statistics_are_trained_where_that_is_asked_for():
    torch.manual_seed(0)
    pyramid = LiteFPN(num_frozen=0, frozen_statistics=False)
    assert moved_in_a_step(pyramid) == pyramid.state_dict().keys()


def test_frozen_blocks_keep_their_statistics_even_then():
    moved = moved_in_a_step(LiteFPN(PACKAGE, num_frozen=5, frozen_statistics=False))
    assert not any(name.startswith(("stem.", *(f"blocks.{index}." for index in range(5)))) for name in moved)
    assert {"blocks.5.expand.norm.running_mean", "blocks.5.expand.norm.weight"} <= moved


def test_a_new_pyramid_is_ready_to_train():
    with torch.device("meta"):
        pyramid = LiteFPN()
    assert pyramid.fpn.training
    assert not any(module.training for module in pyramid.blocks.modules())


def test_bytes_and_fractions_are_the_same_image():
    check_bytes_and_fractions(LiteFPN(PACKAGE))


def test_channels_last_gives_the_same_levels_and_gradients():
    check_channels_last(LiteFPN(PACKAGE))


def test_a_number_of_frozen_blocks_out_of_range_is_refused():
    with pytest.raises(ValueError, match="num_frozen must be 0 to 16 blocks, got 17"):
        LiteFPN(num_frozen=17)
