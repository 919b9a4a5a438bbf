"""Random calls of every loss; `python -m tests.fuzz --only losses` runs more of them."""

import math
from dataclasses import replace

import pytest
from tests.fuzz import losses, losses_cases
from tests.fuzz.losses import LossCase, Outcome, check

import equigrad


def test_every_loss_equals_its_plain_formula_and_refuses_what_is_illegal():
    summary = losses.run(2500, seed=0)
    assert not summary.failures, str(summary)
    assert summary.right + summary.refused == 2500
    assert summary.refused > 150


def test_a_batch_that_is_not_finite_leaves_no_trace_in_the_statistics():
    summary = losses.run_poisoned(300, seed=0)
    assert not summary.failures, str(summary)


def test_every_exported_loss_is_fuzzed():
    bases = {equigrad.CategoryLoss, equigrad.EqualizationLoss}
    exported = [getattr(equigrad, name) for name in equigrad.__all__]
    losses_of_it = {part for part in exported if isinstance(part, type) and issubclass(part, equigrad.CategoryLoss)}
    assert losses_of_it - bases == {tested.loss_class for tested in losses_cases.TESTED.values()}


class WrongLoss(equigrad.BinaryCrossEntropyLoss):
    """A thousandth too large for more than three categories."""

    def forward(self, logits, labels, quality=None, *, normalizer=None):
        loss = super().forward(logits, labels, quality, normalizer=normalizer)
        return loss * 1.001 if logits.shape[1] > 3 else loss


@pytest.fixture
def wrong_loss(monkeypatch):
    """A loss with a fault takes the place of BCE."""
    tested = losses_cases.TESTED["BinaryCrossEntropyLoss"]
    monkeypatch.setitem(losses_cases.TESTED, "BinaryCrossEntropyLoss", replace(tested, loss_class=WrongLoss))


@pytest.mark.usefixtures("wrong_loss")
def test_a_wrong_loss_is_found_and_shrunk_to_what_makes_it_wrong():
    case = LossCase(
        "BinaryCrossEntropyLoss",
        shape=(13, 20, 3, 4),
        options={"weight": [1.0] * 20},
        reduction="sum",
        dtype="float32",
        layout="channels last",
        scale=5.0,
        steps=3,
        seed=5,
    )
    smallest, outcome = losses.shrink(case, check(case))
    assert outcome.verdict == "value"
    assert smallest == LossCase("BinaryCrossEntropyLoss", shape=(1, 4))


def test_a_case_is_printed_as_the_call_that_builds_it():
    case = LossCase("FocalLoss", (0, 1), {"focus": 0.5}, ignored_content=math.inf, dtype="float16", poison=math.nan)
    assert repr(eval(repr(case))) == repr(case)
    assert repr(LossCase("FocalLoss")) == "LossCase(loss='FocalLoss')"


def test_the_outcome_of_a_case_does_not_depend_on_those_before_it():
    case = LossCase("EqualizedFocalLoss", (5, 4), dtype="float32", steps=3, seed=3)
    assert [check(case), check(case)] == [Outcome("right")] * 2
