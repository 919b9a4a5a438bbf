from collections import OrderedDict

import pytest
import torch
import torchvision
from hypothesis import given, settings, strategies as st
from torch import nn
from torch.testing import assert_close
from torchvision.models.detection import (
    fcos_resnet50_fpn,
    maskrcnn_resnet50_fpn,
    retinanet_resnet50_fpn,
    retinanet_resnet50_fpn_v2,
)
from torchvision.models.detection.backbone_utils import resnet_fpn_backbone
from torchvision.ops import FrozenBatchNorm2d

from equigrad.models.detection.pyramids.resnet_fpn import ResNetFPN, resnet50_fpn, resnet101_fpn
from models.pyramid_checks import check_bytes_and_fractions, check_channels_last, check_levels, moved_in_a_step

PUBLISHED = {
    "retinanet": (retinanet_resnet50_fpn, "p5"),
    "retinanet_v2": (retinanet_resnet50_fpn_v2, "c5"),
    "fcos": (fcos_resnet50_fpn, "p5"),
    "maskrcnn": (maskrcnn_resnet50_fpn, "pool"),
}


def live_statistics(module):
    """Norms that would show if they were left out or counted twice."""
    generator = torch.Generator().manual_seed(0)
    for norm in module.modules():
        if isinstance(norm, FrozenBatchNorm2d | nn.BatchNorm2d):
            for values in (norm.weight.data, norm.bias.data, norm.running_mean, norm.running_var):
                values.copy_(torch.rand(values.shape, generator=generator) * 0.4 + 0.3)
    return module


def num_weights(module):
    """Without buffers that count batches; frozen norms keep as buffers what others keep as parameters."""
    return sum(value.numel() for name, value in module.state_dict().items() if not name.endswith("tracked"))


@pytest.fixture
def small():
    torch.manual_seed(0)
    return live_statistics(ResNetFPN([1, 1, 1, 1]))


@settings(max_examples=8)
@given(st.integers(32, 400), st.integers(32, 400), st.sampled_from(["c5", "lateral", "p5", "pool"]))
def test_every_level_is_the_image_over_its_stride_rounded_up(height, width, extra):
    with torch.device("meta"):
        pyramid = ResNetFPN([1, 1, 1, 1], extra=extra)
    check_levels(pyramid, height, width)
    assert pyramid.strides == ((4, 8, 16, 32, 64) if extra == "pool" else (8, 16, 32, 64, 128))


@pytest.mark.parametrize("name", PUBLISHED)
def test_weights_have_the_names_and_shapes_of_torchvisions_detectors(name):
    build, extra = PUBLISHED[name]
    with torch.device("meta"):
        backbone = build(weights=None, weights_backbone=None).backbone
        pyramid = resnet50_fpn(extra=extra)
    expected = {n: v.shape for n, v in backbone.state_dict().items() if not n.endswith("tracked")}
    assert {n: v.shape for n, v in pyramid.state_dict().items()} == expected
    assert num_weights(pyramid) == num_weights(backbone)


def test_resnet101_has_the_weights_of_torchvisions():
    with torch.device("meta"):
        reference = resnet_fpn_backbone(backbone_name="resnet101", weights=None)
        assert resnet101_fpn(extra="pool").state_dict().keys() == reference.state_dict().keys()


@pytest.mark.parametrize("extra", ["p5", "c5", "pool"])
def test_a_detectors_file_gives_the_levels_of_torchvision(extra, tmp_path):
    build = next(build for build, of in PUBLISHED.values() if of == extra)
    detector = live_statistics(build(weights=None, weights_backbone=None, num_classes=2)).eval()
    torch.save(detector.state_dict(), tmp_path / "detector.pth")
    pyramid = resnet50_fpn(tmp_path / "detector.pth", extra=extra).eval()
    images = torch.rand(1, 3, 96, 65, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        expected = list(detector.backbone(pyramid.normalization(images)).values())
        levels = pyramid(images)
    assert len(levels) == len(expected)
    for level, of_torchvision in zip(levels, expected, strict=True):
        assert_close(level, of_torchvision, rtol=1e-4, atol=1e-5 * float(of_torchvision.abs().max()))


def test_a_file_of_2019_numbers_the_pyramid_differently(tmp_path):
    pyramid = resnet50_fpn(extra="pool")
    old = OrderedDict(
        ("backbone." + name.replace(".0.weight", ".weight").replace(".0.bias", ".bias"), value)
        if name.startswith("fpn.")
        else ("backbone." + name, value)
        for name, value in pyramid.state_dict().items()
    )
    assert "backbone.fpn.inner_blocks.2.weight" in old
    torch.save(old | {"rpn.head.conv.weight": torch.zeros(1)}, tmp_path / "maskrcnn.pth")
    for name, value in resnet50_fpn(tmp_path / "maskrcnn.pth", extra="pool").state_dict().items():
        assert torch.equal(value, pyramid.state_dict()[name]), name


def test_an_imagenet_file_fills_the_body_and_leaves_the_pyramid_new(tmp_path):
    reference = live_statistics(torchvision.models.resnet50()).eval()
    torch.save(reference.state_dict(), tmp_path / "resnet50.pth")
    pyramid = resnet50_fpn(tmp_path / "resnet50.pth")
    images = torch.rand(1, 3, 64, 64)
    with torch.inference_mode():
        features = pyramid.body(images)[-1].mean((2, 3))
        assert_close(reference.fc(features), reference(images), rtol=1e-4, atol=1e-4)


def test_weights_of_another_pyramid_are_refused(tmp_path):
    with torch.device("meta"):
        names = ResNetFPN([3, 4, 6, 3], extra="pool").state_dict()
    state = {f"backbone.{name}": torch.zeros(value.shape) for name, value in names.items()}
    torch.save(state, tmp_path / "maskrcnn.pth")
    with pytest.raises(
        ValueError, match=r"maskrcnn\.pth: 4 weights of the model are missing, .* fpn\.extra_blocks\.p6"
    ):
        resnet50_fpn(tmp_path / "maskrcnn.pth", extra="p5")


def test_a_step_moves_neither_stem_nor_first_stage_nor_any_norm(small):
    moved = moved_in_a_step(small)
    trained = [
        name
        for name, _ in small.named_parameters()
        if name.startswith(("body.layer2", "body.layer3", "body.layer4", "fpn."))
    ]
    assert moved == set(trained)
    assert not small.body.conv1.training
    assert not any(module.training for module in small.body.layer1.modules())
    assert small.body.layer2.training


@pytest.mark.parametrize("num_frozen", [0, 5])
def test_more_or_less_can_be_frozen(num_frozen):
    pyramid = ResNetFPN([1, 1, 1, 1], num_frozen=num_frozen)
    assert {parameter.requires_grad for parameter in pyramid.body.parameters()} == {num_frozen == 0}
    assert all(parameter.requires_grad for parameter in pyramid.fpn.parameters())


def test_gradients_are_those_of_torchvision():
    reference = resnet_fpn_backbone(backbone_name="resnet50", weights=None, trainable_layers=3)
    pyramid = live_statistics(resnet50_fpn(extra="pool")).double()
    reference.double().load_state_dict(pyramid.state_dict())
    images = torch.rand(1, 3, 64, 64, dtype=torch.float64)
    sum(level.square().mean() for level in pyramid(images)).backward()
    pixels = pyramid.normalization(images)
    sum(level.square().mean() for level in reference(pixels).values()).backward()
    for (name, parameter), expected in zip(pyramid.named_parameters(), reference.parameters(), strict=True):
        assert parameter.requires_grad == expected.requires_grad, name
        assert_close(parameter.grad, expected.grad)


def test_the_eps_of_the_norms_can_be_0():
    assert {
        norm.eps for norm in ResNetFPN([1, 1, 1, 1], norm_eps=0.0).modules() if isinstance(norm, FrozenBatchNorm2d)
    } == {0.0}


def test_bytes_and_fractions_are_the_same_image(small):
    check_bytes_and_fractions(small)


def test_channels_last_gives_the_same_levels_and_gradients(small):
    check_channels_last(small)


def test_a_number_of_frozen_parts_out_of_range_is_refused():
    with pytest.raises(ValueError, match=r"num_frozen must be 0 .* got 6"):
        ResNetFPN([1, 1, 1, 1], num_frozen=6)
