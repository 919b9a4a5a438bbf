import pytest
import torch
from torch import nn

from equigrad.engine import launch
from equigrad.engine.autocast import precision_plugin

HALF = {"bf16": torch.bfloat16, "fp16": torch.float16}


class Observing(nn.Linear):
    """Keeps what reaches it."""

    def forward(self, images, boxes):
        self.seen = images, boxes
        return super().forward(images)


@pytest.mark.parametrize("precision", HALF)
def test_inputs_keep_their_precision_while_the_arithmetic_is_in_half(precision):
    fabric = launch(precision=precision, accelerator="cpu")
    model = Observing(3, 2)
    images, boxes = torch.rand(4, 3), torch.tensor([1001.0, 999.5])  # bf16 would round them to 1000
    layer_dtypes = []
    model.register_forward_hook(lambda module, inputs, output: layer_dtypes.append(output.dtype))
    fabric.setup_module(model)(images, boxes)
    assert layer_dtypes == [HALF[precision]]
    assert all(torch.equal(seen, given) for seen, given in zip(model.seen, (images, boxes), strict=True))
    assert {tensor.dtype for tensor in model.seen} == {torch.float32}
    assert model.weight.dtype == torch.float32


def test_only_fp16_scales_the_loss():
    assert precision_plugin("bf16", "cpu").scaler is None
    assert precision_plugin("fp16", "cpu").scaler is not None


def test_full_precision_needs_no_plugin():
    assert precision_plugin("32", "cpu") is None


@pytest.mark.parametrize("precision", ["16", "64", "half"])
def test_another_precision_is_refused(precision):
    with pytest.raises(ValueError, match=f'^precision must be "32", "bf16" or "fp16", got {precision!r}$'):
        precision_plugin(precision, "cpu")
