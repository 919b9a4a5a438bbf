"""From the `forward` of a loss to its arithmetic there are few functions to step through."""

import sys
from pathlib import Path

import pytest
import torch

import equigrad.losses
from losses.all_losses import CASES

FOLDER = str(Path(equigrad.losses.__file__).parent)
BARE = [name for name, case in CASES.items() if case.wrapper is None]
# They sit inside `WithObjectness` in detectors.
SHORTEST = ["BCE", "Sigmoid-EQL"]


def deepest(call):
    """Names of the functions of the losses on the stack at its deepest, outermost first."""
    found = []

    def profile(frame, event, _):
        nonlocal found
        if event != "call" or not frame.f_code.co_filename.startswith(FOLDER):
            return
        stack = []
        while frame is not None:
            if frame.f_code.co_filename.startswith(FOLDER):
                stack.append(frame.f_code.co_name)
            frame = frame.f_back
        if len(stack) > len(found):
            found = stack[::-1]

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("name", BARE)
def test_a_loss_is_at_most_four_functions_deep(name, reduction):
    loss, batch = CASES[name].build(reduction=reduction), CASES[name].batch()
    frames = deepest(lambda: loss(*batch))
    assert frames[0] == "forward"
    assert len(frames) <= 4, frames


@pytest.mark.parametrize("options", [{}, {"normalizer": 3.0}, {"normalizer": torch.tensor(3.0)}])
@pytest.mark.parametrize("name", SHORTEST)
def test_binary_cross_entropy_is_at_most_three_functions_deep(name, options):
    loss, batch = CASES[name].build(), CASES[name].batch()
    frames = deepest(lambda: loss(*batch, **options))
    assert frames[0] == "forward"
    assert len(frames) <= 3, frames
    targets = torch.rand(batch.logits.shape) < 0.3
    assert len(deepest(lambda: loss(batch.logits, targets, **options))) <= 3


def test_an_objectness_branch_adds_one_function():
    loss, batch = CASES["Sigmoid-EQL + objectness"].build(), CASES["Sigmoid-EQL + objectness"].batch()
    assert len(deepest(lambda: loss(*batch, normalizer=3.0))) <= 4


def test_softmax_eql_with_soft_labels_is_at_most_four_functions_deep():
    loss, batch = CASES["Softmax-EQL"].build(label_smoothing=0.1), CASES["Softmax-EQL"].batch()
    assert len(deepest(lambda: loss(batch.logits, batch.logits.detach().softmax(1)))) <= 4
