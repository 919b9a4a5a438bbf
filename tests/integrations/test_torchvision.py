import copy
import pickle

import pytest
import torch
import torchvision
from torch.testing import assert_close
from torchvision.models.detection.faster_rcnn import FastRCNNPredictor

import equigrad
from equigrad.integrations import check
from equigrad.integrations.torchvision import equalize
from integrations import torchvision_runs as runs
from integrations.torchvision_runs import NUM_CLASSES, batch

pytestmark = pytest.mark.integrations

DENSE = {"retinanet": runs.retinanet, "fcos": runs.fcos}
SIGMOID = equigrad.SigmoidScores()


def losses_of(model, first_label=1):
    torch.manual_seed(3)
    return model.train()(*batch(first_label=first_label))


@pytest.mark.parametrize("make", [runs.faster_rcnn_run, runs.mask_rcnn_run, runs.retinanet_run, runs.fcos_run])
def test_the_five_checks(make):
    report = check(make)
    assert all(result.state == "pass" for result in report.results), report


@pytest.mark.parametrize("name", DENSE)
def test_focal_loss_without_statistics_is_the_loss_of_torchvision(name):
    torch.manual_seed(0)
    theirs = DENSE[name](NUM_CLASSES)
    ours = copy.deepcopy(theirs)
    equalize(ours, equigrad.FocalLoss(), SIGMOID, first_label=0)
    assert_close(losses_of(ours, first_label=0), losses_of(theirs, first_label=0))


@pytest.mark.parametrize("build", [runs.faster_rcnn, runs.mask_rcnn])
def test_boxes_and_masks_of_an_rcnn_are_trained_as_before(build):
    torch.manual_seed(0)
    theirs = build()
    ours = copy.deepcopy(theirs)
    equalize(ours, equigrad.BinaryCrossEntropyLoss(), SIGMOID)
    expected, found = losses_of(theirs), losses_of(ours)
    assert expected.keys() == found.keys()
    for name in expected.keys() - {"loss_classifier"}:
        assert_close(found[name], expected[name])


def test_the_loss_of_an_rcnn_sees_categories_from_0_and_background():
    torch.manual_seed(0)
    model = runs.faster_rcnn()
    equalize(model, equigrad.BinaryCrossEntropyLoss(), SIGMOID)
    seen = {}
    model.roi_heads.classification_loss.register_forward_pre_hook(
        lambda module, inputs: seen.update(logits=inputs[0], labels=inputs[1])
    )
    losses_of(model)
    assert seen["logits"].shape[1] == NUM_CLASSES
    assert set(seen["labels"].tolist()) <= {-1, 0, 1, 2}
    assert {-1, 0} <= set(seen["labels"].tolist())


@pytest.mark.parametrize("scores", [SIGMOID, equigrad.SigmoidObjectnessScores(), equigrad.SoftmaxObjectnessScores()])
def test_detections_of_an_rcnn_have_the_scores_that_were_handed_in(scores):
    torch.manual_seed(0)
    model = runs.faster_rcnn().eval()
    loss = equigrad.SigmoidEqualizationLoss(NUM_CLASSES)
    equalize(model, loss if scores is SIGMOID else equigrad.WithObjectness(loss), scores)
    heads = model.roi_heads
    heads.score_thresh, heads.nms_thresh = 0.0, 1.0
    logits = torch.randn(5, scores.num_logits(NUM_CLASSES))
    proposals = [torch.tensor([[8.0, 8.0, 40.0, 40.0]]).repeat(5, 1)]
    values = torch.zeros(5, 4 * (NUM_CLASSES + 1))
    (boxes,), (found,), (labels,) = heads.postprocess_detections(logits, values, proposals, [(64, 64)])
    assert_close(found, scores(logits).flatten().sort(descending=True).values)
    assert sorted(labels.unique().tolist()) == [1, 2, 3]
    assert_close(boxes, torch.tensor([[8.0, 8.0, 40.0, 40.0]]).expand_as(boxes))


def test_an_rcnn_with_one_clear_object_finds_it_under_its_label():
    torch.manual_seed(0)
    model = runs.faster_rcnn()
    equalize(model, equigrad.SigmoidEqualizationLoss(NUM_CLASSES), SIGMOID)
    with torch.no_grad():
        model.roi_heads.box_predictor.cls_score.bias.copy_(torch.tensor([-9.0, 9.0, -9.0]))
    (found, *_) = model.eval()(batch()[0])
    assert set(found["labels"].tolist()) == {2}


@pytest.mark.parametrize("name", DENSE)
def test_labels_from_1_leave_column_0_unused(name):
    torch.manual_seed(0)
    model = DENSE[name](NUM_CLASSES + 1)
    loss = equigrad.EqualizedFocalLoss(NUM_CLASSES)
    equalize(model, loss, SIGMOID)
    sum(losses_of(model).values()).backward()
    gradient = model.head.classification_head.cls_logits.weight.grad
    of_column = gradient.unflatten(0, (-1, NUM_CLASSES + 1)).abs().sum((0, 2, 3, 4))
    assert of_column[0] == 0
    assert (of_column[1:] > 0).all()
    assert loss.statistics.positive[0] > loss.statistics.positive[2] > 0
    model.score_thresh = 0.0
    (found, *_) = model.eval()(batch()[0])
    assert set(found["labels"].tolist()) == {1, 2, 3}


@pytest.mark.parametrize("name", DENSE)
@pytest.mark.parametrize("first_label", [0, 1])
def test_dense_detectors_take_objectness_too(name, first_label):
    torch.manual_seed(0)
    model = DENSE[name](NUM_CLASSES)
    loss = equigrad.WithObjectness(equigrad.SigmoidEqualizationLoss(NUM_CLASSES))
    scores = equigrad.SigmoidObjectnessScores()
    equalize(model, loss, scores, num_classes=NUM_CLASSES, first_label=first_label)
    sum(losses_of(model, first_label).values()).backward()
    assert loss.loss.statistics.positive.all()
    head = model.head.classification_head
    features = [torch.randn(1, 32, 4, 4)]
    expected = scores(head.train()(features)[0])
    assert_close(head.eval()(features)[0].sigmoid()[:, first_label:], expected)


def test_published_weights_are_loaded_and_the_layers_of_the_categories_replaced():
    published = torchvision.models.detection.maskrcnn_resnet50_fpn(weights=None, weights_backbone=None).state_dict()
    model = torchvision.models.detection.maskrcnn_resnet50_fpn(weights=None, weights_backbone=None)
    model.load_state_dict(published)
    loss = equigrad.WithObjectness(equigrad.SigmoidEqualizationLoss(5))
    equalize(model, loss, equigrad.SigmoidObjectnessScores(), num_classes=5)
    state = model.state_dict()
    changed = {name.rpartition(".")[0] for name, values in published.items() if not torch.equal(values, state[name])}
    assert changed == {
        "roi_heads.box_predictor.cls_score",
        "roi_heads.box_predictor.bbox_pred",
        "roi_heads.mask_predictor.conv5_mask",
        "roi_heads.mask_predictor.mask_fcn_logits",
    }
    assert state["roi_heads.classification_loss.loss.statistics.positive"].shape == (5,)
    assert_close(model.roi_heads.box_predictor.cls_score.bias, torch.full((6,), equigrad.bias_for_prior(0.001)))


def test_published_weights_of_retinanet_keep_their_sigmoids():
    published = torchvision.models.detection.retinanet_resnet50_fpn(weights=None, weights_backbone=None)
    before = copy.deepcopy(published.state_dict())
    equalize(published, equigrad.EqualizedFocalLoss(90), SIGMOID)
    after = published.state_dict()
    assert all(torch.equal(values, after[name]) for name, values in before.items())


def test_a_copy_by_pickle_detects_the_same():
    torch.manual_seed(0)
    model = runs.retinanet_run().module
    model.score_thresh = 0.0
    copied = pickle.loads(pickle.dumps(model))
    images = batch()[0]
    assert_close(copied.eval()(images), model.eval()(images))


def test_what_does_not_fit_is_refused():
    loss = equigrad.EqualizedFocalLoss(NUM_CLASSES)
    with pytest.raises(TypeError, match="FasterRCNN, RetinaNet or FCOS of torchvision, got Linear"):
        equalize(torch.nn.Linear(2, 2), loss, SIGMOID)
    with pytest.raises(TypeError, match="category loss of equigrad, got CrossEntropyLoss"):
        equalize(runs.retinanet(), torch.nn.CrossEntropyLoss(), SIGMOID)
    with pytest.raises(ValueError, match=r"background: use WithObjectness\(SoftmaxEqualizationLoss"):
        equalize(runs.faster_rcnn(), equigrad.SoftmaxEqualizationLoss(NUM_CLASSES), equigrad.SoftmaxScores())
    with pytest.raises(ValueError, match="the loss is for 7 categories, the model for 3 besides background"):
        equalize(runs.faster_rcnn(), equigrad.SigmoidEqualizationLoss(7), SIGMOID)
    with pytest.raises(ValueError, match="for 3 categories, the model for 2 besides background; labels start at first"):
        equalize(runs.retinanet(NUM_CLASSES), loss, SIGMOID)
    with pytest.raises(ValueError, match="start at 1, 0 is its background"):
        equalize(runs.faster_rcnn(), loss, SIGMOID, first_label=0)
    with pytest.raises(ValueError, match="first_label must be 0 or 1, got 2"):
        equalize(runs.retinanet(), loss, SIGMOID, first_label=2)
    for model in (runs.faster_rcnn_run().module, runs.retinanet_run().module, runs.fcos_run().module):
        with pytest.raises(ValueError, match="has a loss of equigrad already"):
            equalize(model, loss, SIGMOID)
    model = runs.faster_rcnn()
    model.roi_heads.box_predictor = torch.nn.Linear(16, 4)
    with pytest.raises(TypeError, match="must be torchvision's FastRCNNPredictor, got Linear"):
        equalize(model, loss, SIGMOID)


def test_labels_from_0_in_a_model_that_counts_from_1_are_refused():
    model = runs.retinanet()
    equalize(model, equigrad.EqualizedFocalLoss(NUM_CLASSES), SIGMOID)
    with pytest.raises(ValueError, match="labels start at 1, got 0; see first_label of equalize"):
        losses_of(model, first_label=0)


def test_images_without_objects_have_only_background():
    for name, build in {**DENSE, "faster_rcnn": runs.faster_rcnn}.items():
        torch.manual_seed(0)
        model = build()
        loss = equigrad.SigmoidEqualizationLoss(NUM_CLASSES)
        equalize(model, loss, SIGMOID)
        targets = [{"boxes": torch.zeros(0, 4), "labels": torch.zeros(0, dtype=torch.int64)}] * 2
        sum(model.train()(batch(2)[0], targets).values()).backward()
        assert not loss.statistics.positive.any(), name
        assert loss.statistics.negative.all(), name


def test_a_predictor_of_your_own_number_of_classes_needs_no_num_classes():
    model = runs.faster_rcnn()
    model.roi_heads.box_predictor = FastRCNNPredictor(16, 6)
    equalize(model, equigrad.WithObjectness(equigrad.SigmoidEqualizationLoss(5)), equigrad.SigmoidObjectnessScores())
    assert model.roi_heads.box_predictor.cls_score.out_features == 6
