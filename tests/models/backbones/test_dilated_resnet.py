import pytest
import torch
import torchvision
from torch import nn
from torch.testing import assert_close

from equigrad.models.backbones.dilated_resnet import DilatedResNet, dilated_resnet50, dilated_resnet101


def test_the_output_stride_is_8():
    with torch.device("meta"):
        backbone = DilatedResNet([1, 1, 1, 1])
        maps = backbone(torch.zeros(2, 3, 64, 96))
    assert [tuple(each.shape) for each in maps] == [(2, 256, 16, 24), (2, 1024, 8, 12), (2, 2048, 8, 12)]
    assert tuple(backbone.channels) == (256, 1024, 2048)


def test_stages_dilate_by_1_1_2_4_and_their_first_block_by_what_came_before():
    with torch.device("meta"):
        backbone = dilated_resnet50()
    stages = [backbone.layer1, backbone.layer2, backbone.layer3, backbone.layer4]
    dilations = [[block.conv2.dilation[0] for block in stage] for stage in stages]
    assert dilations == [[1] * 3, [1] * 4, [1, 2, 2, 2, 2, 2], [2, 4, 4]]
    assert [stage[0].conv2.stride[0] for stage in stages] == [1, 2, 1, 1]
    assert [stage[0].downsample[0].stride[0] for stage in stages] == [1, 2, 1, 1]


def test_the_deep_stem_has_three_convolutions():
    with torch.device("meta"):
        stem = dilated_resnet101().stem
    convs = [layer for layer in stem if isinstance(layer, nn.Conv2d)]
    assert [(conv.out_channels, conv.kernel_size[0], conv.stride[0]) for conv in convs] == [
        (32, 3, 2),
        (32, 3, 1),
        (64, 3, 1),
    ]


def test_it_computes_what_the_strided_network_computes_at_more_places(tmp_path):
    """A file in torchvision's layout; the strided network is at every second (stage 3) and fourth (stage 4) place."""
    torch.manual_seed(0)
    strided = torchvision.models.resnet50().eval()
    torch.save(strided.state_dict(), tmp_path / "resnet50.pth")
    strided.double()
    backbone = dilated_resnet50(tmp_path / "resnet50.pth", deep_stem=False).double().eval()
    images = torch.rand(1, 3, 64, 64, dtype=torch.float64)
    with torch.inference_mode():
        maps = backbone(images)
        pixels = backbone.normalization(images)
        low = strided.layer1(strided.maxpool(strided.relu(strided.bn1(strided.conv1(pixels)))))
        middle = strided.layer3(strided.layer2(low))
        last = strided.layer4(middle)
    assert_close(maps.low, low)
    assert_close(maps.middle[..., ::2, ::2], middle)
    assert_close(maps.last[..., ::4, ::4], last)


def test_weights_of_a_deep_stem_fit_no_plain_one(tmp_path):
    torch.save(DilatedResNet([3, 4, 6, 3]).state_dict(), tmp_path / "deep.pth")
    dilated_resnet50(tmp_path / "deep.pth")
    with pytest.raises(ValueError, match=r"deep\.pth: 5 weights of the model are missing, the first is conv1\.weight"):
        dilated_resnet50(tmp_path / "deep.pth", deep_stem=False)


def test_torchvisions_weights_fit_no_deep_stem():
    with pytest.raises(ValueError, match=r"--set backbone\.deep_stem=false"):
        dilated_resnet50("torchvision")
