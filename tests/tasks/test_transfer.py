import pytest
import torch
from torch import nn
from torch.testing import assert_close

import equigrad
from equigrad.models import SigmoidScores, SmallConvNet, SoftmaxScores, build_classifier, faster_rcnn, retinanet
from equigrad.models.detection.pyramids.lite_fpn import LiteFPN
from equigrad.models.detection.two_stage.roi_scores import SoftmaxBackgroundScores
from equigrad.tasks.transfer import Source, matched_categories, transfer
from models.small_detectors import TinyPyramid

THERE, HERE = ("cat", "dog", "bird"), ("dog", "fox", "cat", "owl")


def classifier(num_classes, scores=None, width=4):
    scores = scores or SoftmaxScores()
    return build_classifier(
        SmallConvNet(width=width), num_classes, equigrad.SoftmaxEqualizationLoss(num_classes), scores
    )


def detector(num_classes, **settings):
    pyramid = TinyPyramid(strides=(8, 16, 32))
    return retinanet(pyramid, num_classes, equigrad.EqualizedFocalLoss(num_classes), SigmoidScores(), **settings)


def rcnn(num_classes, **settings):
    loss, scores = equigrad.CrossEntropyLoss(), SoftmaxBackgroundScores()
    small = {"num_features": 8, "num_mask_channels": 8, "with_masks": True}
    pyramid = TinyPyramid(strides=(8, 16, 32))
    return faster_rcnn(pyramid, num_classes, loss, scores, background_column=num_classes, **small, **settings)


def randomised(model):
    """The model as a training would leave it."""
    torch.manual_seed(1)
    with torch.no_grad():
        for value in model.state_dict().values():
            if value.is_floating_point():
                value.copy_(torch.rand_like(value))
    return model


def copied(there, here, names_there=THERE, names_here=HERE, scores=("a", "a")):
    """What a transfer says, and the weights before and after it."""
    before = {name: value.clone() for name, value in here.state_dict().items()}
    result = transfer(here, Source(there.state_dict(), names_there, scores[0]), names_here, scores[1])
    return result, before, here.state_dict()


def test_categories_are_matched_by_name_and_by_order_only_where_names_are_not_known():
    assert matched_categories(THERE, HERE) == [(1, 0), (0, 2)]
    assert matched_categories(4, HERE) == [(0, 0), (1, 1), (2, 2), (3, 3)]
    assert matched_categories(3, HERE) == []


def test_a_classifier_keeps_the_rows_of_known_categories_and_new_ones_start_anew():
    there = randomised(classifier(3))
    result, before, after = copied(there, classifier(4))
    for name in ("classifier.weight", "classifier.bias"):
        old = there.state_dict()[name]
        assert_close(after[name][[0, 2]], old[[1, 0]])
        assert_close(after[name][[1, 3]], before[name][[1, 3]])
    for name, value in there.backbone.state_dict().items():
        assert_close(after[f"backbone.{name}"], value)
    assert result.num_categories == 2
    assert result.new_parts == ("classifier (2 of 4 categories)",)
    assert result.num_taken == result.num_weights


def test_the_statistics_of_a_loss_are_never_taken():
    there = randomised(classifier(4))
    result, before, after = copied(there, classifier(4), HERE)
    assert result.new_parts == ()
    for name in before:
        if "statistics" in name:
            assert torch.equal(after[name], before[name])


def test_a_classifier_whose_logits_are_read_otherwise_starts_anew():
    result, before, after = copied(randomised(classifier(4)), classifier(4), HERE, scores=("Softmax", "Sigmoid"))
    assert result.new_parts == ("classifier",)
    assert torch.equal(after["classifier.weight"], before["classifier.weight"])


def test_every_anchor_of_a_dense_head_keeps_its_rows_and_the_prior_of_new_categories():
    there = randomised(detector(3))
    result, before, after = copied(there, detector(4))
    old = there.state_dict()["head.logits.bias"].view(9, 3)
    new, start = after["head.logits.bias"].view(9, 4), before["head.logits.bias"].view(9, 4)
    assert_close(new[:, [0, 2]], old[:, [1, 0]])
    assert_close(new[:, [1, 3]], start[:, [1, 3]])
    assert_close(after["head.class_tower.0.weight"], there.state_dict()["head.class_tower.0.weight"])
    assert result.new_parts == ("head.logits (2 of 4 categories)",)


def test_boxes_masks_and_background_of_a_two_stage_detector_go_with_their_categories():
    there = randomised(rcnn(3))
    result, before, after = copied(there, rcnn(4))
    old, head = there.state_dict(), "roi_heads.box_predictor"
    assert_close(after[f"{head}.cls_score.bias"][[0, 2, 4]], old[f"{head}.cls_score.bias"][[1, 0, 3]])
    assert_close(after[f"{head}.bbox_pred.bias"].view(4, 4)[[0, 2]], old[f"{head}.bbox_pred.bias"].view(3, 4)[[1, 0]])
    masks = "roi_heads.mask_branch.predictor.mask_fcn_logits.weight"
    assert_close(after[masks][[0, 2]], old[masks][[1, 0]])
    assert_close(after[masks][[1, 3]], before[masks][[1, 3]])
    assert_close(after["rpn.head.bbox_pred.weight"], old["rpn.head.bbox_pred.weight"])
    assert {part.split(" (")[0].rpartition(".")[2] for part in result.new_parts} == {
        *("cls_score", "bbox_pred", "mask_fcn_logits")
    }


def test_boxes_and_masks_that_all_categories_share_are_taken_as_they_are():
    there = randomised(rcnn(3, class_agnostic=True))
    result, _, after = copied(there, rcnn(4, class_agnostic=True))
    bias = "roi_heads.box_predictor.bbox_pred.bias"
    assert_close(after[bias], there.state_dict()[bias])
    assert result.new_parts == ("roi_heads.box_predictor.cls_score (2 of 4 categories)",)


def test_a_tower_is_taken_as_a_whole_or_not_at_all():
    result, before, after = copied(randomised(detector(4, group_norm=True)), detector(4), HERE)
    assert {"head.class_tower", "head.box_tower"} <= set(result.new_parts)
    for name in before:
        if "_tower" in name:
            assert torch.equal(after[name], before[name])


def test_a_network_of_another_task_is_taken_under_another_name():
    there = randomised(classifier(3))
    here = nn.Module()
    here.pyramid = nn.Module()
    here.pyramid.body = SmallConvNet(width=4)
    result, _, after = copied(there, here)
    assert result.num_taken == result.num_weights > 0
    for name, value in there.backbone.state_dict().items():
        assert_close(after[f"pyramid.body.{name}"], value)


def test_the_end_of_a_network_starts_anew_where_the_other_model_has_none():
    there, here = nn.Module(), nn.Module()
    there.pyramid = randomised(LiteFPN(num_channels=16))
    here.backbone = LiteFPN(num_channels=16, imagenet_features=True)
    result, before, after = copied(there, here)
    assert result.new_parts == ("features.head",)
    for name, value in after.items():
        if not name.endswith("num_batches_tracked"):
            is_new = name.startswith("backbone.head.")
            assert torch.equal(
                value, before[name] if is_new else there.state_dict()[name.replace("backbone", "pyramid")]
            )


def test_a_network_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match=r"must be \(8, .* got \(4, "):
        copied(classifier(3), classifier(4, width=8))
    with pytest.raises(ValueError, match="it has no weight"):
        copied(classifier(3), detector(4))
