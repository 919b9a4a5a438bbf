"""A training step on a GPU, with fake tensors: few launches, and nothing that waits for the device."""

import pytest
import torch
from benchmarks.launches import OURS, count
from torch._subclasses.fake_tensor import FakeTensorMode

from equigrad.losses.kernels import launch
from host_copies import HostCopies
from losses.all_losses import CASES


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(0, 5), (1, 1), (256, 1000), (100_000, 1203), (512, 100_000), (4, 150, 512, 512)])
@pytest.mark.parametrize("name", OURS)
def test_a_step_launches_at_most_six_kernels_forward_and_two_backward(name, shape, dtype):
    counts = count(name, shape, dtype)
    assert counts.forward <= 6
    assert counts.backward <= 2


@pytest.mark.parametrize("name", OURS)
def test_the_plain_device_path_launches_a_bounded_number(monkeypatch, name):
    monkeypatch.setenv("EQUIGRAD_KERNELS", "torch")
    bound = 600 if "objectness" in name else 400
    assert count(name, (4, 150, 512, 512)).forward < bound
    assert count(name, (4, 150, 2048, 2048)).forward < bound


# Fake tensors can neither be drawn with a generator of the host nor be handed to `torch.autograd.grad`.
FAKEABLE = [name for name in CASES if name not in ("federated", "federated of qualities", "BAGS", "DIVE")]


@pytest.mark.parametrize("options", [{}, {"normalizer": 3.0}])
@pytest.mark.parametrize("kernels", ["auto", "torch"])
@pytest.mark.parametrize("name", FAKEABLE)
def test_a_loss_copies_nothing_between_host_and_device(monkeypatch, name, kernels, options):
    monkeypatch.setenv("EQUIGRAD_KERNELS", kernels)
    loss, batch = CASES[name].build(), CASES[name].batch(dtype=torch.float32)
    with FakeTensorMode(), launch.collected():
        for module in loss.modules():
            for buffer_name, buffer in module.named_buffers(recurse=False):
                setattr(module, buffer_name, torch.empty(buffer.shape, dtype=buffer.dtype, device="cuda"))
        logits, *others = (torch.empty(value.shape, dtype=value.dtype, device="cuda") for value in batch)
        with HostCopies() as copies:
            loss(logits.requires_grad_(), *others, **options)
    assert copies.found == []


@pytest.mark.parametrize(
    ("normalizer", "error"), [(torch.ones(2), "got a Tensor of shape"), (True, "got bool"), ("3", "got str")]
)
def test_a_normalizer_that_is_not_one_number_is_refused_before_a_launch(normalizer, error):
    with FakeTensorMode(), torch.device("cuda"), launch.collected() as launches:
        loss, logits = OURS["SigmoidEqualizationLoss"](5), torch.empty(3, 5, requires_grad=True)
        with pytest.raises((TypeError, ValueError), match=error):
            loss(logits, torch.zeros(3, dtype=torch.int64), normalizer=normalizer)
    assert not any("normalizer" in one.arguments for one in launches)


def test_a_normalizer_on_the_host_is_moved_to_the_device():
    with FakeTensorMode(), launch.collected() as launches:
        loss, logits = OURS["SigmoidEqualizationLoss"](5).to("cuda"), torch.empty(3, 5, device="cuda")
        loss(logits.requires_grad_(), torch.zeros(3, dtype=torch.int64, device="cuda"), normalizer=torch.ones(()))
    (normalizer,) = (one.arguments["normalizer"] for one in launches if "normalizer" in one.arguments)
    assert normalizer.device.type == "cuda"
