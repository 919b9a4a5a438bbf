import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

import equigrad
from equigrad.models.detection.two_stage.roi_head import RoIClassifier, RoIHead
from equigrad.models.detection.two_stage.roi_sampling import RoISample
from equigrad.models.detection.two_stage.roi_scores import SoftmaxBackgroundScores

NUM_CLASSES = 3
SIZES = [(32, 32)]
BOXES = torch.tensor([[4.0, 4, 20, 20], [0, 0, 8, 8], [10, 2, 30, 18]])
OBJECTS = torch.tensor([[4.0, 4, 20, 20], [12, 2, 32, 18]])
SAMPLE = RoISample(BOXES, torch.tensor([1, equigrad.BACKGROUND, 2]), torch.tensor([0, -1, 1]))


def make_head(loss=None, scores=None, **settings):
    loss, scores = loss or equigrad.CrossEntropyLoss(), scores or SoftmaxBackgroundScores()
    settings = {"background_column": NUM_CLASSES, "num_features": 16, "sampler": lambda *_: SAMPLE} | settings
    return RoIHead(8, ["0"], NUM_CLASSES, loss, scores, **settings)


@pytest.fixture
def features():
    return {"0": torch.randn(1, 8, 8, 8)}


@pytest.fixture
def targets():
    return [{"boxes": OBJECTS, "labels": torch.tensor([1, 2])}]


def test_a_classifier_starts_at_its_prior_and_comes_back_to_it():
    layer = RoIClassifier(400, 50, prior=0.001)
    for _ in range(2):
        assert_close(layer.bias.sigmoid(), torch.full((50,), 0.001))
        assert float(layer.weight.detach().std()) == pytest.approx(0.01, rel=0.05)
        torch.nn.init.ones_(layer.bias)
        layer.reset_parameters()
    assert not RoIClassifier(4, 2).bias.any()


def test_losses_are_those_of_the_sampled_rois(features, targets):
    head = make_head()
    losses = head.losses(features, [BOXES], targets, SIZES)
    vectors = head.box_head(head.box_roi_pool(features, [BOXES], SIZES))
    logits = head.box_predictor.cls_score(vectors)
    assert_close(losses["classification"], F.cross_entropy(logits, torch.tensor([1, 3, 2])))

    values = head.box_predictor.bbox_pred(vectors).view(3, NUM_CLASSES, 4)
    # The first object is its RoI; the second one is shifted by 2 of 20 pixels, in units of 0.1.
    wanted = torch.tensor([[0.0, 0, 0, 0], [1.0, 0, 0, 0]])
    box_loss = F.smooth_l1_loss(values[[0, 2], [1, 2]], wanted, beta=1 / 9, reduction="sum") / 3
    assert_close(losses["box"], box_loss)
    assert losses.keys() == {"classification", "box"}


def test_imagenet_features_of_a_roi_join_those_of_the_box_head(features, targets):
    head = make_head(imagenet_channels=5)
    features["imagenet"] = torch.zeros(1, 5, 1, 2)
    features["imagenet"][..., 1] = torch.arange(1.0, 6)[:, None]  # of the right half of an image of 32 x 64
    seen = []
    head.box_predictor.cls_score.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    rois = torch.tensor([[0.0, 8, 16, 24], [48, 8, 64, 24], [24, 8, 40, 24]])
    head.sampler = lambda *_: SAMPLE._replace(boxes=rois)
    head.losses(features, [rois], targets, [(32, 64)])
    vectors = head.box_head(head.box_roi_pool(features, [rois], [(32, 64)]))
    assert_close(seen[0][:, :16], vectors)
    # Left, right, and the middle between the centres of the two pixels.
    assert_close(seen[0][:, 16:], torch.tensor([[0.0], [1.0], [0.5]]) * torch.arange(1.0, 6))


def test_background_has_no_box_loss(features):
    background = RoISample(BOXES, torch.full((3,), equigrad.BACKGROUND), torch.full((3,), -1))
    head = make_head(sampler=lambda *_: background)
    nothing = [{"boxes": torch.empty(0, 4), "labels": torch.empty(0, dtype=torch.int64)}]
    losses = head.losses(features, [BOXES], nothing, SIZES)
    assert losses["box"] == 0
    assert losses["classification"] > 0
    sum(losses.values()).backward()
    assert not head.box_predictor.bbox_pred.weight.grad.any()


def test_one_box_for_all_categories(features, targets):
    head = make_head(class_agnostic=True)
    assert head.box_predictor.bbox_pred.out_features == 4
    values = head.box_predictor.box_values(torch.randn(3, 16), torch.tensor([0, 0]), torch.tensor([1, 2]))
    assert torch.equal(values[0], values[1])
    assert head.losses(features, [BOXES], targets, SIZES)["box"] > 0


def test_a_sigmoid_loss_is_told_background_by_its_label(features, targets):
    head = make_head(equigrad.BinaryCrossEntropyLoss(), equigrad.SigmoidScores(), background_column=None)
    loss = head.losses(features, [BOXES], targets, SIZES)["classification"]
    logits = head.box_predictor.cls_score(head.box_head(head.box_roi_pool(features, [BOXES], SIZES)))
    one_hot = torch.tensor([[0.0, 1, 0], [0, 0, 0], [0, 0, 1]])
    assert_close(loss, F.binary_cross_entropy_with_logits(logits, one_hot, reduction="sum") / 3)


def test_detections_are_cut_at_the_image_without_padding(features):
    head = make_head().eval()
    (detections,) = head.detections(features, [BOXES], [(16, 24)], SIZES)
    assert detections.keys() == {"boxes", "scores", "labels"}
    assert len(detections["boxes"]) == 3 * NUM_CLASSES
    assert_close(detections["boxes"].amax(0)[2:], torch.tensor([24.0, 16.0]))
    assert (detections["scores"].diff() <= 0).all()


@pytest.mark.parametrize("column", [NUM_CLASSES - 1, NUM_CLASSES + 1])
def test_a_background_column_that_is_a_category_or_does_not_exist_is_refused(column):
    with pytest.raises(ValueError, match=rf"background_column must be in 3 \.\.\. 3, .* got {column}"):
        make_head(background_column=column)
