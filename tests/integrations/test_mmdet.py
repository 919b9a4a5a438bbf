import pytest
import torch
from torch.testing import assert_close

pytest.importorskip("mmdet", reason="needs mmdet and mmcv or mmcv-lite")

from tests.integrations.mmdet_run import NUM_CLASSES, FasterRun, MmdetRun, build, faster_rcnn, retinanet, samples

import equigrad
from equigrad.integrations import check
from equigrad.integrations.mmdet import BoxLoss, DenseLoss

pytestmark = pytest.mark.integrations

EFL = {"type": "EqualizedFocalLoss", "num_classes": NUM_CLASSES}


@pytest.mark.parametrize("make", [MmdetRun, FasterRun])
def test_all_five_checks_pass(make):
    report = check(make)
    assert [result.state for result in report.results] == ["pass"] * 5, report


def test_levels_without_a_batch_around_them_are_refused():
    model = build(MmdetRun.config).train()
    data = model.data_preprocessor(_batch(), training=True)
    with pytest.raises(RuntimeError, match="EquigradBatchPerStep"):
        model(**data, mode="loss")
    with equigrad.one_batch(model):
        model(**data, mode="loss")
    assert model.bbox_head.loss_cls.loss.statistics.positive.any()


def _batch():
    found = samples()
    return {name: [sample[name] for sample in found] for name in ("inputs", "data_samples")}


def test_background_is_num_classes_and_a_weight_of_0_leaves_a_sample_out():
    loss = DenseLoss(use_sigmoid=True, loss=equigrad.FocalLoss(), num_classes=NUM_CLASSES, loss_weight=2.0)
    logits, labels = torch.randn(4, NUM_CLASSES), torch.tensor([0, NUM_CLASSES, 3, 1])
    found = loss(logits, labels, torch.tensor([1.0, 1.0, 0.0, 1.0]), avg_factor=3.0)
    ours = torch.tensor([0, equigrad.BACKGROUND, equigrad.IGNORE, 1])
    assert_close(found, 2 * equigrad.FocalLoss()(logits, ours, normalizer=3.0))


def test_heads_with_a_quality_give_it_to_the_loss():
    loss = DenseLoss(use_sigmoid=True, loss=equigrad.QualityFocalLoss(), num_classes=NUM_CLASSES)
    logits, labels, quality = torch.randn(2, NUM_CLASSES), torch.tensor([0, NUM_CLASSES]), torch.tensor([0.7, 0.0])
    found = loss(logits, (labels, quality), weight=torch.ones(2), avg_factor=1.0)
    assert_close(found, equigrad.QualityFocalLoss()(logits, torch.tensor([0, -1]), quality, normalizer=1.0))


def test_a_box_head_has_the_columns_and_scores_of_its_loss():
    model = build(FasterRun.config)
    head = model.roi_head.bbox_head
    assert head.fc_cls.out_features == NUM_CLASSES + 1
    logits = torch.randn(3, NUM_CLASSES + 1)
    scores = head.loss_cls.get_activation(logits)
    assert_close(scores[:, :-1], logits[:, :-1].sigmoid() * logits[:, -1:].sigmoid())
    assert scores.shape == (3, NUM_CLASSES + 1)


def test_a_softmax_with_objectness_trains_a_box_head():
    softmax = {"type": "SoftmaxEqualizationLoss", "num_classes": NUM_CLASSES}
    model = build(faster_rcnn({"type": "EquigradBoxLoss", "loss": softmax})).train()
    losses = model(**model.data_preprocessor(_batch(), training=True), mode="loss")
    assert losses["loss_cls"] > 0
    assert "acc_classes" in losses


@pytest.mark.parametrize(
    ("build_loss", "message"),
    [
        (lambda: DenseLoss(use_sigmoid=False, loss=EFL), "use_sigmoid=True"),
        (lambda: DenseLoss(use_sigmoid=True, loss=equigrad.CrossEntropyLoss(), num_classes=4), "sigmoid loss"),
        (lambda: DenseLoss(use_sigmoid=True, loss={"type": "FocalLoss"}), "give num_classes"),
        (lambda: DenseLoss(use_sigmoid=True, loss=EFL, num_classes=5), "num_classes is 5"),
        (lambda: DenseLoss(use_sigmoid=True, loss={"type": "GradientStatistics"}), "must be a loss of equigrad"),
        (lambda: BoxLoss(equigrad.CrossEntropyLoss(), objectness=False, num_classes=4), "needs objectness=True"),
        (lambda: BoxLoss(EFL).get_cls_channels(7), "7 categories"),
        (lambda: BoxLoss(EFL)(torch.zeros(1, 5), torch.tensor([0]), torch.tensor([0.5])), "other than 0 and 1"),
        (lambda: BoxLoss(EFL)(torch.zeros(1, 5), torch.tensor([0]), reduction_override="none"), "OHEM"),
    ],
)
def test_what_does_not_fit_is_refused(build_loss, message):
    with pytest.raises(ValueError, match=message):
        build_loss()


def test_a_configuration_without_use_sigmoid_is_refused():
    with pytest.raises(TypeError, match="use_sigmoid"):
        build(retinanet({"type": "EquigradDenseLoss", "loss": EFL}))
