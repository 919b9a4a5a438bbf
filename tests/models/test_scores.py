import pytest
import torch
from torch.testing import assert_close

from equigrad import (
    SigmoidObjectnessScores,
    SigmoidScores,
    SoftmaxObjectnessScores,
    SoftmaxScores,
    bias_for_prior,
)

SCORES = [SoftmaxScores(), SigmoidScores(), SigmoidObjectnessScores(), SoftmaxObjectnessScores()]


@pytest.mark.parametrize("scores", SCORES)
@pytest.mark.parametrize("places", [(), (2, 3)])
def test_a_head_with_the_asked_columns_gets_one_score_for_each_category(scores, places):
    logits = torch.randn(4, scores.num_logits(5), *places)
    result = scores(logits)
    assert result.shape == (4, 5, *places)
    assert ((result >= 0) & (result <= 1)).all()


def test_scores_worked_out_by_hand():
    logits = torch.tensor([[0.0, torch.log(torch.tensor(3.0)), 0.0]])
    assert_close(SoftmaxScores()(logits), torch.tensor([[0.2, 0.6, 0.2]]))
    assert_close(SigmoidScores()(logits), torch.tensor([[0.5, 0.75, 0.5]]))
    assert_close(SigmoidObjectnessScores()(logits), torch.tensor([[0.25, 0.375]]))
    assert_close(SoftmaxObjectnessScores()(logits), torch.tensor([[0.125, 0.375]]))


def test_the_prior_of_the_paper_is_a_bias_of_minus_six_point_nine():
    assert bias_for_prior(0.001) == pytest.approx(-6.906754778648554)
    assert torch.tensor(bias_for_prior(0.01)).sigmoid().item() == pytest.approx(0.01)


@pytest.mark.parametrize("probability", [0.0, 1.0, -0.1, float("nan")])
def test_a_prior_that_is_no_probability_is_refused(probability):
    with pytest.raises(ValueError, match="probability must be between 0 and 1"):
        bias_for_prior(probability)
