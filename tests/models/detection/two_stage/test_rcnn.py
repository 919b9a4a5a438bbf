import pytest
import torch
from tests.models.rcnn_cases import LOSSES, NUM_CLASSES, make_batch, make_detector, make_target
from torch.testing import assert_close

import equigrad
from equigrad.models.detection.two_stage.rcnn import faster_rcnn, mask_rcnn, roi_levels
from equigrad.models.detection.two_stage.roi_inference import RoIInference
from equigrad.models.detection.two_stage.roi_sampling import RoISampler


@pytest.mark.parametrize("class_agnostic", [False, True], ids=["class-specific", "class-agnostic"])
@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_trains_and_detects(name, class_agnostic):
    settings = {"class_agnostic": class_agnostic, "inference": RoIInference(score_threshold=1e-30)}
    model = make_detector(mask_rcnn, name, num_mask_channels=8, **settings)
    images, targets = make_batch()
    losses = model(images, targets)
    assert losses.keys() == {"classification", "box", "mask", "rpn_objectness", "rpn_box"}
    sum(losses.values()).backward()
    assert all(weight.grad is not None and weight.grad.isfinite().all() for weight in model.parameters())
    for detections, (height, width) in zip(model.eval()(images, targets), ((64, 96), (50, 70)), strict=True):
        count = len(detections["scores"])
        assert 0 < count <= 300
        assert detections["boxes"].shape == (count, 4)
        assert detections["masks"].shape == (count, 28, 28)
        assert (detections["boxes"] >= 0).all()
        assert (detections["boxes"] <= torch.tensor([width, height, width, height])).all()
        assert (detections["scores"][1:] <= detections["scores"][:-1]).all()
        assert (detections["labels"] < NUM_CLASSES).all()


@pytest.mark.parametrize("name", LOSSES)
def test_images_without_objects_train_background(name):
    model = make_detector(mask_rcnn, name, num_mask_channels=8)
    images, targets = make_batch(num_objects=(0, 0))
    losses = model(images, targets)
    sum(losses.values()).backward()
    assert losses["box"].item() == losses["mask"].item() == 0
    assert losses["classification"].item() > 0 or name == "BAGS"
    assert all(weight.grad is not None and weight.grad.isfinite().all() for weight in model.parameters())


@pytest.mark.parametrize("name", LOSSES)
def test_the_loss_is_called_without_a_single_roi(name):
    head = make_detector(mask_rcnn, name, num_mask_channels=8).roi_heads
    calls = []
    head.classification_loss.register_forward_hook(lambda *_: calls.append(1))
    features = {str(level): torch.randn(1, 8, 8 >> level, 8 >> level) for level in range(3)}
    losses = head.losses(features, [torch.zeros(0, 4)], [make_target((64, 64), 0)], [(64, 64)])
    sum(losses.values()).backward()
    assert calls == [1]
    assert all(loss.item() == 0 for loss in losses.values())
    assert all(weight.grad is not None and not weight.grad.any() for weight in head.parameters())


def test_an_image_without_proposals_has_no_detections():
    head = make_detector(mask_rcnn, "cross-entropy", num_mask_channels=8).roi_heads.eval()
    features = {str(level): torch.randn(1, 8, 8 >> level, 8 >> level) for level in range(3)}
    (detections,) = head.detections(features, [torch.zeros(0, 4)], [(64, 64)], [(64, 64)])
    assert {name: tuple(value.shape) for name, value in detections.items()} == {
        "boxes": (0, 4),
        "scores": (0,),
        "labels": (0,),
        "masks": (0, 28, 28),
    }


def test_the_defaults_are_the_settings_of_lvis():
    model = make_detector(mask_rcnn, "cross-entropy")
    rpn, head = model.rpn, model.roi_heads
    assert (rpn.fg_bg_sampler.batch_size_per_image, rpn.fg_bg_sampler.positive_fraction) == (256, 0.5)
    assert (rpn.proposal_matcher.high_threshold, rpn.proposal_matcher.low_threshold) == (0.7, 0.3)
    assert (rpn.train().post_nms_top_n(), rpn.eval().post_nms_top_n()) == (1000, 1000)
    assert head.sampler == RoISampler(num_rois=512, positive_fraction=0.25, threshold=0.5)
    assert head.inference == RoIInference(score_threshold=1e-4, nms_threshold=0.5, num_boxes=300)


def test_sigmoids_start_at_the_prior():
    model = make_detector(faster_rcnn, "binary cross-entropy").eval()
    images, _ = make_batch()
    logits = []
    model.roi_heads.box_predictor.cls_score.register_forward_hook(lambda _m, _i, output: logits.append(output))
    model(images)
    assert_close(torch.cat(logits).sigmoid().mean(), torch.tensor(0.001), rtol=0.1, atol=0)


def test_what_is_in_the_padding_of_other_images_does_not_move_boxes_out_of_an_image():
    model = make_detector(faster_rcnn, "binary cross-entropy").eval()
    images, targets = make_batch()
    (_, detections) = model(images, targets)
    assert float(detections["boxes"][:, 2].max()) <= 70
    assert float(detections["boxes"][:, 3].max()) <= 50


def test_box_values_of_some_pairs_are_those_of_all():
    predictor = make_detector(faster_rcnn, "cross-entropy").roi_heads.box_predictor.double()
    torch.nn.init.normal_(predictor.bbox_pred.bias)
    features = torch.randn(6, 16, dtype=torch.float64)
    rows, labels = torch.arange(6).repeat_interleave(NUM_CLASSES), torch.arange(NUM_CLASSES).repeat(6)
    expected = predictor.bbox_pred(features).view(-1, 4)
    few = torch.tensor([0, 7, 7, 29])  # of the 30 pairs; more than two a RoI are not taken one by one
    assert_close(predictor.box_values(features, rows[few], labels[few]), expected[few])
    assert_close(predictor.box_values(features, rows, labels), expected)


def test_a_softmax_with_objectness_is_divided_by_all_rois_as_published():
    model = make_detector(faster_rcnn, "Softmax-EQL")
    calls = []
    model.roi_heads.classification_loss.register_forward_pre_hook(lambda _, inputs: calls.append(inputs))
    loss = model(*make_batch())["classification"]
    ((logits, labels),) = calls
    assert 0 < (labels >= 0).sum() < len(labels)
    new_loss = LOSSES["Softmax-EQL"].loss
    assert_close(loss, new_loss()(logits, labels, normalizer=len(labels)))
    assert not torch.isclose(loss, new_loss()(logits, labels))


def test_half_precision_trains_with_boxes_in_float32():
    model = make_detector(mask_rcnn, "Sigmoid-EQL", num_mask_channels=8)
    images, targets = make_batch()
    with torch.autocast("cpu", torch.bfloat16):
        losses = model(images, targets)
        model.eval()
        proposals = []
        model.rpn.register_forward_hook(lambda _m, _i, output: proposals.extend(output[0]))
        detections = model(images, targets)
    assert all(loss.isfinite() for loss in losses.values())
    assert proposals[0].dtype == detections[0]["boxes"].dtype == detections[0]["scores"].dtype == torch.float32
    sum(losses.values()).backward()


def test_statistics_of_the_loss_are_saved_with_the_model():
    model = make_detector(faster_rcnn, "Sigmoid-EQL")
    model(*make_batch())
    assert model.state_dict()["roi_heads.classification_loss.loss.statistics.negative"].min() > 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": torch.tensor([0, NUM_CLASSES])}, "labels must be in 0 ... 4, got 5"),
        ({"labels": torch.tensor([0, -1])}, "labels must be in 0 ... 4, got -1"),
        ({"boxes": torch.tensor([[0.0, 0, 5, 5], [3, 3, 3, 9]])}, r"x1 < x2 and y1 < y2, got \[3.0, 3.0, 3.0, 9.0\]"),
    ],
)
def test_targets_that_cannot_be_learned_are_refused(change, message):
    model = make_detector(faster_rcnn, "cross-entropy")
    images, targets = make_batch()
    with pytest.raises(ValueError, match=message):
        model(images, [targets[0], targets[1] | change])


def test_masks_are_trained_with_masks():
    model = make_detector(mask_rcnn, "cross-entropy")
    images, targets = make_batch()
    del targets[1]["masks"]
    with pytest.raises(ValueError, match="targets must have masks"):
        model(images, targets)


def test_training_needs_targets_of_every_image():
    model = make_detector(faster_rcnn, "cross-entropy")
    images, targets = make_batch()
    with pytest.raises(ValueError, match="training needs targets"):
        model(images)
    with pytest.raises(ValueError, match="expected targets of 2 images, got 1"):
        model(images, targets[:1])


@pytest.mark.parametrize("column", [0, NUM_CLASSES - 1, NUM_CLASSES + 1])
def test_a_background_column_must_come_after_the_categories(column):
    with pytest.raises(ValueError, match=f"background_column must be in 5 ... 5, .* got {column}"):
        make_detector(faster_rcnn, "cross-entropy", background_column=column)


def test_a_softmax_that_was_not_told_its_background_says_so():
    model = make_detector(faster_rcnn, "cross-entropy", background_column=None)
    with pytest.raises(ValueError, match="-1"):
        model(*make_batch())


def test_rois_are_pooled_from_levels_up_to_stride_32():
    assert roi_levels((4, 8, 16, 32, 64)) == ["0", "1", "2", "3"]
    assert roi_levels((8, 16, 32)) == ["0", "1", "2"]
    with pytest.raises(ValueError, match="stride 32 or less"):
        roi_levels((64,))


def test_a_pyramid_must_tell_its_shape():
    with pytest.raises(ValueError, match="num_channels"):
        faster_rcnn(torch.nn.Identity(), 5, equigrad.BinaryCrossEntropyLoss(), equigrad.SigmoidScores())
