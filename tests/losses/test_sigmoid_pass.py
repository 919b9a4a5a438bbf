"""Focal terms against autograd, also where they are steep or vanish. The passes: test_functional.py."""

import pytest
import torch
from torch.testing import assert_close

from equigrad.losses import reference
from equigrad.losses.sigmoid_pass import Modulation, focal_terms, quality_terms

LOGITS = torch.tensor([-90.0, -30.0, -2.0, -0.1, 0.0, 0.1, 2.0, 30.0, 90.0], dtype=torch.float64)


@pytest.mark.parametrize("focus", [0.0, 0.5, 2.0, 10.0])
def test_the_slope_is_the_derivative_of_the_focal_loss(focus):
    error = LOGITS.clone().requires_grad_()
    expected = reference.focal_costs(error, torch.zeros_like(error), focus)
    (slope,) = torch.autograd.grad(expected.sum(), error)
    assert_close(focal_terms(LOGITS, torch.tensor(focus)), (expected.detach(), slope), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("quality", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("focus", [1.0, 2.0, 10.0])
def test_the_gradient_is_the_derivative_of_the_quality_focal_loss(focus, quality):
    logits = LOGITS.clone().requires_grad_()
    target = torch.full_like(LOGITS, quality)
    expected = reference.quality_focal_costs(logits, target, focus)
    (gradient,) = torch.autograd.grad(expected.sum(), logits)
    terms = quality_terms(LOGITS, torch.tensor(focus), target, Modulation())
    assert_close(terms, (expected.detach(), gradient), rtol=1e-9, atol=1e-12)


def test_a_positive_that_meets_its_quality_has_no_gradient():
    loss, gradient = quality_terms(torch.zeros(1), torch.tensor(0.5), torch.tensor([0.5]), Modulation())
    assert loss.item() == gradient.item() == 0


def test_no_factor_is_a_denormal_number():
    error = torch.tensor([-40.0], dtype=torch.float32)
    loss, slope = focal_terms(error, torch.tensor(10.0))
    assert loss.item() == 0 or loss.item() > torch.finfo(torch.float32).tiny
    assert slope.item() == 0 or slope.item() > torch.finfo(torch.float32).tiny
