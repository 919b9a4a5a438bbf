import sys

import pytest
import timm
import torch
from torch.testing import assert_close

from equigrad.models.backbones.timm_networks import TimmMaps, dilated_timm, timm_backbone

IMAGES = torch.randint(0, 256, (2, 3, 96, 128), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A network of timm as its authors would share it, and its file."""
    torch.manual_seed(0)
    network = timm.create_model("test_resnet").eval()
    file = tmp_path_factory.mktemp("weights") / "test_resnet.pth"
    torch.save(network.state_dict(), file)
    return network, file


def normalised(network, images):
    mean, std = (torch.tensor(network.default_cfg[name]).view(3, 1, 1) for name in ("mean", "std"))
    return (images / 255 - mean) / std


@torch.no_grad()
def test_the_features_of_a_file_are_those_that_timm_computes(trained):
    network, file = trained
    expected = network.forward_head(network.forward_features(normalised(network, IMAGES)), pre_logits=True)
    backbone = timm_backbone("test_resnet", file).eval()
    assert_close(backbone(IMAGES), expected)
    assert backbone.num_features == expected.shape[1]


@torch.no_grad()
@pytest.mark.parametrize("name", ["test_resnet", "test_convnext", "test_efficientnet"])
def test_the_maps_are_those_of_the_file_and_have_the_strides_that_are_said(name, tmp_path):
    torch.manual_seed(0)
    network = timm.create_model(name).eval()
    torch.save(network.state_dict(), tmp_path / "weights.pth")
    maps = TimmMaps(name, tmp_path / "weights.pth").eval()
    found = maps(IMAGES)
    assert [each.shape[1:] for each in found] == [
        (channels, 96 // stride, 128 // stride) for channels, stride in zip(maps.channels, maps.strides, strict=True)
    ]
    expected = network.forward_intermediates(normalised(network, IMAGES), intermediates_only=True)
    assert_close(found[-1], expected[-1])


@pytest.mark.parametrize("stride", [8, 16, 32])
def test_a_dilated_network_keeps_the_resolution_it_was_asked_for(stride):
    encoder = dilated_timm("test_resnet", output_stride=stride).eval()
    maps = encoder(IMAGES)
    assert maps.low.shape[2:] == (24, 32)
    assert maps.last.shape[2:] == (96 // stride, 128 // stride)
    assert tuple(each.shape[1] for each in maps) == encoder.channels


@torch.no_grad()
def test_maps_in_the_order_of_a_transformer_come_out_as_those_of_a_convolution():
    maps = TimmMaps("swin_tiny_patch4_window7_224").eval()
    assert [each.shape[1] for each in maps(IMAGES)] == [96, 192, 384, 768]


def test_a_transformer_classifies_images_of_any_size():
    assert timm_backbone("test_vit").eval()(IMAGES).shape == (2, 64)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: timm_backbone("resnet5O"), r"timm has no network 'resnet5O'; near are .*resnet50"),
        (lambda: timm_backbone("hf-hub:someone/network"), "timm has no network 'hf-hub:someone/network'"),
        (lambda: timm_backbone("resnet18.nobody_in1k"), "timm cannot build resnet18.nobody_in1k"),
        (lambda: dilated_timm("swin_tiny_patch4_window7_224"), "cannot dilate .* such as resnet50"),
        (lambda: dilated_timm("test_vit", output_stride=32), "test_vit has no map of stride 4; its strides are 16, 16"),
        (lambda: dilated_timm("test_resnet", output_stride=4), "output_stride must be 8, 16 or 32, got 4"),
        (lambda: TimmMaps("maxvit_tiny_rw_224"), "takes images of some sizes only"),
    ],
)
def test_a_wrong_name_or_an_unfit_network_is_refused_in_one_line(build, message):
    with pytest.raises(ValueError, match=message) as raised:
        build()
    assert "\n" not in str(raised.value)


def test_a_file_of_another_network_is_refused(trained):
    _, file = trained
    with pytest.raises(ValueError, match=r"test_resnet\.pth: .* weights of the model are missing"):
        TimmMaps("test_convnext", file)


def test_without_timm_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)  # what `import` finds where it is not installed
    with pytest.raises(ValueError, match=r"networks of timm need it installed: pip install 'equigrad\[timm\]'"):
        timm_backbone("resnet18")
