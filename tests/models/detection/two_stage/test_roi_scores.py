"""What is trained and what is used must be the same probability; mmdet's port of Sigmoid-EQL tests with a softmax."""

import pytest
import torch
from tests.models.rcnn_cases import COUNTS, LOSSES, NUM_CLASSES
from torch.testing import assert_close

from equigrad import GroupedSoftmaxScores, SoftmaxObjectnessScores
from equigrad.models.detection.two_stage.roi_scores import SoftmaxBackgroundScores, TwoWayObjectnessScores

# What tells object from background beside the category: column whose probability is 1 on objects.
OBJECTNESS_COLUMN = {"Softmax-EQL": -1, "Sigmoid-EQL": -1, "seesaw": -2, "BAGS": -2}


def trained_probability(name, logits):
    """p_j by the definition of the loss: the slope of the loss at the true category's logit is p_j - 1.

    That holds for cross-entropy and for binary cross-entropy, without any of the code that computes scores.
    """
    case = LOSSES[name]
    columns = GroupedSoftmaxScores(COUNTS).layout.column.tolist() if name == "BAGS" else range(NUM_CLASSES)
    probabilities = []
    for row in logits:
        for label, column in enumerate(columns):
            z = row[None].clone().requires_grad_()
            case.loss().double()(z, torch.tensor([label])).backward()
            probability = 1 + z.grad[0, column]
            if name in OBJECTNESS_COLUMN:
                probability = probability * (1 + z.grad[0, OBJECTNESS_COLUMN[name]])
            probabilities.append(probability)
    return torch.stack(probabilities).reshape(len(logits), NUM_CLASSES)


@pytest.mark.parametrize("name", LOSSES)
def test_the_score_is_the_probability_the_loss_trains(name):
    torch.manual_seed(0)
    scores = LOSSES[name].scores
    logits = torch.randn(3, scores.num_logits(NUM_CLASSES), dtype=torch.float64) * 3
    assert_close(scores(logits), trained_probability(name, logits))


@pytest.mark.parametrize("name", LOSSES)
def test_background_lowers_the_scores_of_its_roi(name):
    torch.manual_seed(0)
    case = LOSSES[name]
    logits = torch.randn(4, case.scores.num_logits(NUM_CLASSES), dtype=torch.float64).requires_grad_()
    background = case.settings.get("background_column", -1)
    case.loss().double()(logits, torch.full((4,), background)).backward()
    after = case.scores(logits.detach() - 0.1 * logits.grad)
    assert (after.sum(1) < case.scores(logits).sum(1)).all()


def test_background_is_the_last_column_of_the_softmax():
    logits = torch.tensor([[0.0, 0.0, 1.0e4], [5.0, 0.0, -1.0e4]])
    assert_close(SoftmaxBackgroundScores()(logits)[0], torch.zeros(2))
    assert_close(SoftmaxBackgroundScores()(logits)[1], torch.tensor([5.0, 0.0]).softmax(0))


def test_two_way_objectness_is_a_softmax_of_object_and_background():
    logits = torch.tensor([[1.0, 2.0, 0.5, -0.7]])
    expected = logits[:, :2].softmax(1) * logits[:, 2:].softmax(1)[:, :1]
    scores = TwoWayObjectnessScores(SoftmaxObjectnessScores())
    assert scores.num_logits(2) == 4
    assert_close(scores(logits), expected)
