import pytest
import torch
from tests.models.rcnn_cases import COUNTS, NUM_CLASSES, make_batch, make_detector
from torch.testing import assert_close

import equigrad
from equigrad.decoupling import learn_scales, normalize_weights, retrain_classifier
from equigrad.models.detection.two_stage.rcnn import faster_rcnn, mask_rcnn
from equigrad.models.detection.two_stage.second_stages import CLASSIFIER, load_representation


def first_stage(builder=faster_rcnn, name="cross-entropy"):
    """A detector some steps into its training."""
    model = make_detector(builder, name)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(3):
        train_step(model, optimizer)
    return model


def train_step(model, optimizer):
    optimizer.zero_grad()
    sum(model(*make_batch()).values()).backward()
    optimizer.step()


def check_only_changes(model, prefix):
    """Train and see what moved."""
    before = {name: value.clone() for name, value in model.state_dict().items()}
    optimizer = torch.optim.SGD([weight for weight in model.parameters() if weight.requires_grad], lr=0.5)
    train_step(model.train(), optimizer)
    after = model.state_dict()
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert moved
    assert all(name.startswith((prefix, "roi_heads.classification_loss.")) for name in moved), moved


def test_crt_trains_a_new_classifier_alone():
    model = first_stage()
    old = model.get_submodule(CLASSIFIER).weight.clone()
    classifier = retrain_classifier(model, CLASSIFIER)
    assert not torch.equal(classifier.weight, old)
    assert float(classifier.weight.detach().std()) < 0.02  # starts as published
    check_only_changes(model, CLASSIFIER)


def test_crt_of_a_sigmoid_head_starts_at_the_prior_again():
    model = first_stage(name="binary cross-entropy")
    classifier = retrain_classifier(model, CLASSIFIER)
    assert_close(classifier.bias.sigmoid(), torch.full((NUM_CLASSES,), 0.001))


def test_lws_trains_the_scales_of_the_categories_alone_and_starts_where_the_first_stage_ended():
    model = first_stage()
    images, targets = make_batch()
    before = model.eval()(images, targets)
    scaled = learn_scales(model, CLASSIFIER, scale_bias=False, num_classes=NUM_CLASSES)
    after = model.eval()(images, targets)
    assert_close(after[0]["scores"], before[0]["scores"])
    check_only_changes(model, f"{CLASSIFIER}.scale")
    assert scaled.scale.shape == (NUM_CLASSES,)
    model.roi_heads.box_predictor.cls_score = scaled.folded()
    assert len(model.eval()(images, targets)) == 2


def test_bags_trains_a_classifier_with_its_own_columns_on_the_representation_of_the_first_stage():
    model = make_detector(mask_rcnn, "BAGS")
    load_representation(model, first_stage(mask_rcnn).state_dict())
    classifier = retrain_classifier(model, CLASSIFIER)
    assert classifier.out_features == equigrad.GroupedSoftmaxScores(COUNTS).num_logits(NUM_CLASSES)
    check_only_changes(model, CLASSIFIER)
    assert model.eval()(*make_batch())[0]["labels"].max() < NUM_CLASSES


def test_tau_normalisation_leaves_the_background_alone():
    model = first_stage()
    background = model.get_submodule(CLASSIFIER).weight[-1].clone()
    layer = normalize_weights(model, CLASSIFIER, power=1.0, num_classes=NUM_CLASSES)
    assert_close(layer.weight[:-1].norm(dim=1), torch.ones(NUM_CLASSES))
    assert torch.equal(layer.weight[-1], background)


def test_the_representation_of_another_loss_carries_a_new_classifier():
    trained = first_stage(name="Sigmoid-EQL")
    model = make_detector(faster_rcnn, "BAGS")
    own = model.get_submodule(CLASSIFIER).weight.clone()
    load_representation(model, trained.state_dict())
    assert torch.equal(model.get_submodule(CLASSIFIER).weight, own)
    assert torch.equal(model.roi_heads.box_head.fc6.weight, trained.roi_heads.box_head.fc6.weight)
    assert torch.equal(model.roi_heads.box_predictor.bbox_pred.weight, trained.roi_heads.box_predictor.bbox_pred.weight)


def test_norcal_takes_the_place_of_the_scores():
    model = first_stage().eval()
    images, targets = make_batch()
    plain = model(images, targets)[0]
    model.roi_heads.scores = equigrad.calibration.NorCalScores(COUNTS, power=0.0)
    assert_close(model(images, targets)[0]["scores"], plain["scores"])
    model.roi_heads.scores = equigrad.calibration.NorCalScores(COUNTS, power=1.0)
    assert not torch.equal(model(images, targets)[0]["labels"][:50], plain["labels"][:50])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda state: state.pop("rpn.head.cls_logits.bias"), "has no weight rpn.head.cls_logits.bias"),
        (lambda state: state.update({"roi_heads.mask": torch.ones(1)}), "has an unknown weight roi_heads.mask"),
        (
            lambda state: state.update({"rpn.head.cls_logits.bias": torch.ones(9)}),
            r"rpn.head.cls_logits.bias of the first stage must be \(3,\), got \(9,\)",
        ),
    ],
)
def test_a_first_stage_that_does_not_fit_is_refused(change, message):
    model = make_detector(faster_rcnn, "cross-entropy")
    state = model.state_dict()
    change(state)
    with pytest.raises(ValueError, match=message):
        load_representation(model, state)
