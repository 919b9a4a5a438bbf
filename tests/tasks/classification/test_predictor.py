import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from equigrad.data.images.sources import ImageSource
from equigrad.data.images.transforms import small_evaluation_transform
from equigrad.tasks.classification.predictor import LabelPredictor

NAMES = ["oak", "elm", "ash", "fir", "yew", "box"]
COUNTS = np.array([500, 101, 100, 20, 19, 0])
IMAGE = Image.new("RGB", (50, 40), (10, 20, 30))


class Known(nn.Module):
    """The same scores for every image; keeps what it saw."""

    def __init__(self, scores):
        super().__init__()
        self.scores = nn.Parameter(torch.tensor(scores))

    def forward(self, images):
        self.seen = images
        return [{"scores": self.scores} for _ in images]


def predicted(scores, num_classes=6, **options):
    model = Known(scores)
    transform = small_evaluation_transform(8)
    predictor = LabelPredictor(model, transform, NAMES[:num_classes], COUNTS[:num_classes])
    (prediction,) = predictor([ImageSource(pixels=IMAGE)], **options)
    return model, prediction


def test_the_line_names_the_five_best_categories_with_their_groups():
    _, prediction = predicted([0.05, 0.1, 0.15, 0.2, 0.48, 0.02])
    assert prediction.summary == (
        "yew 48.0 % (few), fir 20.0 % (medium), ash 15.0 % (medium), elm 10.0 % (many), oak 5.0 % (many)"
    )


def test_all_categories_are_named_where_there_are_fewer_than_five():
    _, prediction = predicted([0.25, 0.75], num_classes=2)
    assert prediction.summary == "elm 75.0 % (many), oak 25.0 % (many)"


def test_a_category_without_training_images_is_a_few_shot_category():
    _, prediction = predicted([0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
    assert prediction.summary.startswith("box 100.0 % (few), ")


def test_the_model_sees_the_image_as_in_the_test():
    model, _ = predicted([0.5] * 6)
    assert (tuple(model.seen.shape), model.seen.dtype) == ((1, 3, 8, 8), torch.uint8)
    assert model.seen[0, :, 0, 0].tolist() == [10, 20, 30]


def test_the_picture_shows_the_image_and_changes_with_the_categories():
    pictures = [np.array(predicted(scores)[1].draw()) for scores in ([0.5] + [0.1] * 5, [0.1] * 5 + [0.5])]
    assert (pictures[0] == (10, 20, 30)).all(-1).sum() >= 50 * 40
    assert pictures[0].shape != pictures[1].shape or (pictures[0] != pictures[1]).any()


def test_all_categories_are_there_best_first():
    _, prediction = predicted([0.05, 0.1, 0.15, 0.2, 0.48, 0.02])
    assert prediction.labels.tolist() == [4, 3, 2, 1, 0, 5]
    assert prediction.names == ("yew", "fir", "ash", "elm", "oak", "box")
    assert prediction.scores.tolist() == pytest.approx([0.48, 0.2, 0.15, 0.1, 0.05, 0.02])


def test_a_threshold_leaves_out_what_does_not_reach_it_and_may_leave_nothing():
    scores = [0.05, 0.1, 0.125, 0.25, 0.48, 0.02]
    assert predicted(scores, threshold=0.25)[1].names == ("yew", "fir")
    _, nothing = predicted(scores, threshold=0.9)
    assert (nothing.summary, nothing.rows(), len(nothing.labels)) == ("no category", [], 0)
    assert nothing.draw().width > 384


@pytest.mark.parametrize("threshold", [-0.1, 1.5, float("nan")])
def test_a_threshold_that_is_no_score_is_refused(threshold):
    with pytest.raises(ValueError, match=r"threshold must be in \[0, 1\]"):
        predicted([0.5] * 6, threshold=threshold)
