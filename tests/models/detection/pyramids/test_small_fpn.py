import pytest
import torch
from hypothesis import given, settings, strategies as st

from equigrad.models.detection.pyramids.small_fpn import SmallFPN
from models.pyramid_checks import check_bytes_and_fractions, check_channels_last, check_levels, moved_in_a_step


@settings(max_examples=15)
@given(st.integers(16, 300), st.integers(16, 300), st.sampled_from([(8, 16), (8, 16, 32), (4, 8, 16), (16,)]))
def test_every_level_is_the_image_over_its_stride_rounded_up(height, width, strides):
    with torch.device("meta"):
        pyramid = SmallFPN(8, num_channels=24, strides=strides)
    check_levels(pyramid, height, width)
    assert (pyramid.strides, pyramid.num_channels) == (strides, 24)


def test_nothing_beyond_the_last_stride_is_built():
    with torch.device("meta"):
        assert [len(SmallFPN(strides=strides).stages) for strides in ((4,), (4, 8), (8, 16, 32))] == [1, 2, 4]


def test_a_step_of_training_reaches_everything():
    torch.manual_seed(0)
    pyramid = SmallFPN(8)
    assert moved_in_a_step(pyramid) == pyramid.state_dict().keys()


def test_bytes_and_fractions_are_the_same_image():
    check_bytes_and_fractions(SmallFPN(8))


def test_channels_last_gives_the_same_levels_and_gradients():
    check_channels_last(SmallFPN(8))


@pytest.mark.parametrize("strides", [(), (8, 32), (2, 4), (6, 12), (16, 8)])
def test_strides_that_do_not_double_from_4_on_are_refused(strides):
    with pytest.raises(ValueError, match="strides must be powers of 2 from 4 on"):
        SmallFPN(strides=strides)


@pytest.mark.parametrize(("width", "num_channels"), [(0, 64), (16, 0)])
def test_pyramids_without_channels_are_refused(width, num_channels):
    with pytest.raises(ValueError, match=f"at least 1, got {width} and {num_channels}"):
        SmallFPN(width, num_channels=num_channels)
