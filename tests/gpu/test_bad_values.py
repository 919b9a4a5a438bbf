"""A value out of range stops the program. A device assert spoils the device for its process, so each has its own."""

import pytest
import torch

from losses.all_losses import CASES
from quick_processes import quick_context

pytestmark = pytest.mark.gpu


def error_of_a_step(answer, device, kernels, name, change):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EQUIGRAD_KERNELS", kernels)
        logits, labels, *extra = (value.detach().to(device) for value in CASES[name].batch(dtype=torch.float32))
        loss = CASES[name].build().to(device)
        options = {}
        if change == "label":
            labels[3] = 4
        elif change == "quality":
            labels[2], extra[0][2] = 0, 1.5
        elif change == "normalizer":
            options["normalizer"] = torch.zeros((), device=device)
        try:
            loss(logits.requires_grad_(), labels, *extra, **options)
            if device.type == "cuda":
                torch.cuda.synchronize(device)
        except (ValueError, RuntimeError) as error:
            answer.send(str(error))
        else:
            answer.send("")


@pytest.mark.parametrize(
    ("name", "change"),
    [("Sigmoid-EQL", "label"), ("Softmax-EQL", "label"), ("EQFL", "quality"), ("Sigmoid-EQL", "normalizer")],
)
def test_a_value_out_of_range_raises(device, kernels, name, change):
    context = quick_context()
    receiver, answer = context.Pipe(duplex=False)
    process = context.Process(target=error_of_a_step, args=(answer, device, kernels, name, change))
    process.start()
    assert receiver.poll(120), "the step did not end"
    message = receiver.recv()
    process.join()
    assert ("assert" if device.type == "cuda" else "must be") in message


def test_a_good_batch_raises_nothing(device, kernels):
    context = quick_context()
    receiver, answer = context.Pipe(duplex=False)
    process = context.Process(target=error_of_a_step, args=(answer, device, kernels, "EQFL", "nothing"))
    process.start()
    assert receiver.poll(120), "the step did not end"
    assert receiver.recv() == ""
    process.join()
