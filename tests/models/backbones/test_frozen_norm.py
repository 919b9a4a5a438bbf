import torch
from torch import nn
from torch.testing import assert_close
from torchvision.ops import FrozenBatchNorm2d

from equigrad.models.backbones.frozen_norm import FrozenNorm


def pair(eps=1e-5):
    torch.manual_seed(0)
    reference = FrozenBatchNorm2d(4, eps=eps)
    for values in reference.buffers():
        values.copy_(torch.rand(4) + 0.1)
    norm = FrozenNorm(4, eps=eps)
    norm.load_state_dict(reference.state_dict())
    return norm, reference


def test_it_computes_what_torchvisions_computes():
    for eps in (1e-5, 0.5):
        norm, reference = pair(eps)
        maps = torch.randn(2, 4, 3, 5)
        assert_close(norm(maps.clone()), reference(maps))


def test_gradients_pass_to_the_convolution_before_it():
    norm, reference = pair()
    conv = nn.Conv2d(3, 4, 3)
    images = torch.randn(2, 3, 8, 8)
    (gradient,) = torch.autograd.grad(norm(conv(images)).square().sum(), conv.weight)
    (expected,) = torch.autograd.grad(reference(conv(images)).square().sum(), conv.weight)
    assert_close(gradient, expected)


def test_maps_are_overwritten_and_keep_their_precision():
    norm, _ = pair()
    maps = torch.randn(2, 4, 3, 5).bfloat16()
    assert norm(maps) is maps
    assert maps.dtype is torch.bfloat16


def test_nothing_in_it_is_trained():
    assert not list(FrozenNorm(4).parameters())
