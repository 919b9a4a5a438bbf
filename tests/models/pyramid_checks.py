"""What every pyramid promises to the detectors, asked of each by its own tests."""

import torch
from torch import nn
from torch.testing import assert_close


def check_levels(pyramid: nn.Module, height: int, width: int) -> None:
    """Sizes rounded up, as many channels as said; on the meta device, hence for any size at once."""
    levels = pyramid.to("meta")(torch.zeros(2, 3, height, width, dtype=torch.uint8, device="meta"))
    expected = [(2, pyramid.num_channels, -(-height // s), -(-width // s)) for s in pyramid.strides]
    assert [tuple(level.shape) for level in levels] == expected


def check_bytes_and_fractions(pyramid: nn.Module) -> None:
    """An image of bytes is the image of their fractions."""
    images = torch.randint(0, 256, (1, 3, 64, 96), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        assert_close(pyramid.eval()(images), pyramid(images / 255))


def check_channels_last(pyramid: nn.Module) -> None:
    """The memory format changes nothing but the order of additions, forwards and backwards."""
    images = torch.rand(2, 3, 64, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    pyramid.double().train()
    state = {name: value.clone() for name, value in pyramid.state_dict().items()}
    expected, gradients = _levels_and_gradients(pyramid, images)
    pyramid.load_state_dict(state)
    pyramid.to(memory_format=torch.channels_last)
    levels, others = _levels_and_gradients(pyramid, images.contiguous(memory_format=torch.channels_last))
    assert_close(levels, expected)
    assert_close(others, gradients)


def _levels_and_gradients(pyramid: nn.Module, images: torch.Tensor) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    levels = pyramid(images)
    trained = [parameter for parameter in pyramid.parameters() if parameter.requires_grad]
    return levels, list(torch.autograd.grad(sum(level.square().mean() for level in levels), trained))


def moved_in_a_step(pyramid: nn.Module) -> set[str]:
    """Names of the weights and buffers that one step of training changes; every trained weight gets a gradient."""
    before = {name: value.clone() for name, value in pyramid.state_dict().items()}
    optimizer = torch.optim.SGD(pyramid.parameters(), lr=0.1, weight_decay=0.1)
    images = torch.rand(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    sum(level.square().mean() for level in pyramid.train()(images)).backward()
    for name, parameter in pyramid.named_parameters():
        assert (parameter.grad is not None) == parameter.requires_grad, name
    nn.utils.clip_grad_norm_(pyramid.parameters(), 1.0)
    optimizer.step()
    return {name for name, value in pyramid.state_dict().items() if not torch.equal(value, before[name])}
