import pytest
import timm
import torch

from equigrad.models.detection.pyramids.timm_fpn import timm_pyramid
from models.pyramid_checks import check_bytes_and_fractions, check_levels, moved_in_a_step


@pytest.mark.parametrize(
    ("extra", "strides"), [("p5", (8, 16, 32, 64, 128)), ("pool", (4, 8, 16, 32, 64)), (None, (8, 16, 32))]
)
def test_every_level_is_the_image_over_its_stride_rounded_up(extra, strides):
    pyramid = timm_pyramid("test_resnet", num_channels=32, extra=extra)
    assert pyramid.strides == strides
    check_bytes_and_fractions(pyramid)
    check_levels(pyramid, 91, 130)


def statistics(pyramid):
    return {name for name, _ in pyramid.body.named_buffers(prefix="body") if name in pyramid.state_dict()}


def test_from_scratch_the_statistics_of_the_norms_are_trained():
    pyramid = timm_pyramid("test_resnet", num_channels=32)
    moved = moved_in_a_step(pyramid)
    assert statistics(pyramid) <= moved
    assert {"body.network.conv1.0.weight", "fpn.inner_blocks.0.0.weight"} <= moved


def test_those_of_weights_from_a_file_are_kept(tmp_path):
    torch.save(timm.create_model("test_resnet").state_dict(), tmp_path / "weights.pth")
    pyramid = timm_pyramid("test_resnet", tmp_path / "weights.pth", num_channels=32)
    moved = moved_in_a_step(pyramid)
    assert not statistics(pyramid) & moved
    assert {"body.network.conv1.0.weight", "fpn.inner_blocks.0.0.weight"} <= moved


def test_a_network_without_a_pyramid_of_maps_is_refused():
    with pytest.raises(ValueError, match="test_vit has no map of stride 8"):
        timm_pyramid("test_vit")
