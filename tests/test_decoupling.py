import copy
import io
import json
import pickle
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings, strategies as st
from torch import nn
from torch.testing import assert_close

from equigrad import CrossEntropyLoss
from equigrad.decoupling import (
    AlignedClassifier,
    ScaledClassifier,
    align,
    alignment_weights,
    learn_scales,
    normalize_weights,
    retrain_classifier,
)
from equigrad.models.classification.cosine_classifier import CosineClassifier

few_examples = settings(max_examples=50)  # a busy machine is no failure
SECOND_STAGES = [retrain_classifier, learn_scales, align]


def golden(case):
    return json.loads((Path(__file__).parent / "golden" / f"{case}.json").read_text())


def float64(values):
    return torch.tensor(values, dtype=torch.float64)


class Classifier(nn.Module):
    """A network with BatchNorm, a nested classifier and gradients left over from its first stage."""

    def __init__(self, classifier=None):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6), nn.ReLU())
        self.head = nn.ModuleDict({"fc": classifier or nn.Linear(6, 4)})

    def forward(self, inputs):
        return self.head["fc"](self.features(inputs))


class MapClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Conv2d(3, 6, 3)
        self.fc = nn.Conv2d(6, 4, 1)

    def forward(self, inputs):
        return self.fc(self.features(inputs))


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


@pytest.fixture
def inputs():
    return torch.randn(8, 5)


@pytest.fixture
def model(inputs):
    return trained(Classifier(), inputs)


def trained(model, inputs):
    """After one step of a first stage, its gradients still there."""
    model(inputs).square().sum().backward()
    return model.train()


def golden_layer(case):
    layer = nn.Linear(6, 7, bias="bias" in case).double()
    with torch.no_grad():
        layer.weight.copy_(float64(case["weights"]))
        if "bias" in case:
            layer.bias.copy_(float64(case["bias"]))
    return nn.Sequential(layer)


def randomize(*parameters):
    with torch.no_grad():
        for parameter in parameters:
            parameter.copy_(torch.randn_like(parameter))


# --- what all trained stages share ----------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", SECOND_STAGES)
@pytest.mark.parametrize("layer", [nn.Linear(6, 4), CosineClassifier(6, 4, bias=True)])
def test_a_step_changes_only_what_the_stage_trains(stage, layer, inputs):
    model = trained(Classifier(copy.deepcopy(layer)), inputs)
    classifier = stage(model, "head.fc")
    assert model.head["fc"] is classifier
    # All parameters, with decay and with gradients of the first stage around: the harshest optimiser a user may bring.
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.1)
    before = copy.deepcopy(model.state_dict())
    F.cross_entropy(model.train()(inputs), torch.arange(8) % 4).backward()
    optimizer.step()
    trainable = {
        retrain_classifier: {"weight", "bias"},
        learn_scales: {"scale"},
        align: {"scale", "shift", "confidence.weight", "confidence.bias"},
    }[stage]
    changed = {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])}
    assert changed == {f"head.fc.{name}" for name in trainable}
    assert {name for name, p in model.named_parameters() if p.requires_grad} == changed


@pytest.mark.parametrize("stage", SECOND_STAGES)
def test_batch_norm_stays_in_evaluation_mode_when_the_model_is_set_to_train(stage, model, inputs):
    stage(model, "head.fc")
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    alone = model.eval()(inputs[:1])
    together = model.train()(inputs)
    assert_close(together[:1], alone)  # no statistics of the batch
    for name, buffer in model.named_buffers():
        assert torch.equal(buffer, buffers[name])
    assert model.training


@pytest.mark.parametrize("stage", SECOND_STAGES)
def test_batch_norm_moves_on_request_even_after_it_was_frozen(stage, model, inputs):
    retrain_classifier(model, "head.fc")
    stage(model, "head.fc", batch_norm="moving")
    before = model.features[1].running_mean.clone()
    model.train()(inputs)
    assert not torch.equal(model.features[1].running_mean, before)


@pytest.mark.parametrize(
    "duplicate", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))], ids=["deepcopy", "pickle"]
)
def test_frozen_batch_norm_survives_copies(duplicate, model, inputs):
    retrain_classifier(model, "head.fc")
    twin = duplicate(model)
    before = twin.features[1].running_mean.clone()
    twin.train()(inputs)
    assert torch.equal(twin.features[1].running_mean, before)
    assert model.features[1].running_mean is not twin.features[1].running_mean


def test_a_retrained_model_saves_and_loads_as_before(model, inputs):
    keys = list(model.state_dict())
    retrain_classifier(model, "head.fc")
    assert list(model.state_dict()) == keys
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    fresh = Classifier()
    fresh.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(fresh.eval()(inputs), model.eval()(inputs))


@pytest.mark.parametrize("stage", [learn_scales, align])
def test_a_second_stage_resumes_from_its_state(stage, model, inputs):
    classifier = stage(model, "head.fc")
    randomize(classifier.scale)
    resumed = Classifier()
    stage(resumed, "head.fc")
    resumed.load_state_dict(model.state_dict())
    assert torch.equal(resumed.eval()(inputs), model.eval()(inputs))


@pytest.mark.parametrize("stage", [ScaledClassifier, AlignedClassifier])
def test_a_stage_built_by_hand_freezes_its_classifier(stage):
    classifier = stage(nn.Linear(6, 4)).classifier
    assert not any(parameter.requires_grad for parameter in classifier.parameters())


@pytest.mark.parametrize("stage", [learn_scales, align])
def test_a_classifier_with_two_paths_is_replaced_at_both(stage):
    model = Classifier()
    model.shortcut = model.head["fc"]
    assert stage(model, "shortcut") is model.head["fc"] is model.shortcut


@pytest.mark.parametrize("stage", SECOND_STAGES)
def test_a_wrong_path_is_refused_with_the_nearest_names(stage, model):
    with pytest.raises(ValueError, match=r"no module 'head\.cls'; nearest names:.*head\.fc"):
        stage(model, "head.cls")
    with pytest.raises(ValueError, match="no module ''"):
        stage(model, "")
    with pytest.raises(ValueError, match="nearest names: none"):
        stage(nn.Linear(2, 2), "fc")


@pytest.mark.parametrize("stage", SECOND_STAGES)
@pytest.mark.parametrize("other", [nn.BatchNorm1d(6), nn.Conv2d(6, 4, 3), nn.Sequential(nn.Linear(6, 4))])
def test_a_module_that_is_no_classifier_is_refused(stage, other):
    with pytest.raises(TypeError, match=r"head\.fc must be an nn\.Linear"):
        stage(Classifier(other), "head.fc")


@pytest.mark.parametrize("stage", SECOND_STAGES)
def test_a_refused_call_leaves_the_model_trainable(stage, model):
    with pytest.raises(ValueError, match="batch_norm must be"):
        stage(model, "head.fc", batch_norm="eval")
    assert all(parameter.requires_grad for parameter in model.parameters())


@pytest.mark.parametrize("stage", [learn_scales, align])
@pytest.mark.parametrize("num_classes", [0, 5])
def test_more_categories_than_columns_are_refused(stage, model, num_classes):
    with pytest.raises(ValueError, match=r"num_classes must be in 1 \.\.\. 4"):
        stage(model, "head.fc", num_classes=num_classes)
    assert all(parameter.requires_grad for parameter in model.parameters())


@pytest.mark.parametrize("stage", SECOND_STAGES)
def test_a_convolution_classifies_each_position_as_a_linear_layer_would(stage):
    model = MapClassifier()
    classifier = stage(model, "fc")
    linear = stage(nn.Sequential(nn.Linear(6, 4)), "0")
    randomize(*(p for p in classifier.parameters() if p.requires_grad))
    shapes = {name: value.shape for name, value in linear.state_dict().items()}
    linear.load_state_dict({name: value.reshape(shapes[name]) for name, value in classifier.state_dict().items()})
    features = torch.randn(2, 6, 3, 5)
    assert_close(classifier(features).permute(0, 2, 3, 1), linear(features.permute(0, 2, 3, 1)))


# --- cRT ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layer", [nn.Linear(6, 4), CosineClassifier(6, 4), nn.Conv2d(6, 4, 1)])
def test_retraining_starts_from_the_initialisation_of_the_layer(layer):
    model = nn.Sequential(nn.Identity(), copy.deepcopy(layer))
    with torch.no_grad():
        model[1].weight.fill_(100.0)
    torch.manual_seed(5)
    retrain_classifier(model, "1")
    torch.manual_seed(5)
    layer.reset_parameters()
    assert torch.equal(model[1].weight, layer.weight)


# --- LWS ------------------------------------------------------------------------------------------------------------


def test_scales_multiply_logits_with_or_without_their_bias():
    layer = nn.Linear(6, 4).double()
    features = torch.randn(3, 6, dtype=torch.float64)
    scale = float64([2.0, -1.0, 0.5, 0.0])
    for scale_bias in (True, False):
        scaled = ScaledClassifier(layer, scale_bias=scale_bias).double()
        scaled.scale.data.copy_(scale)
        bias = scale * layer.bias if scale_bias else layer.bias
        assert_close(scaled(features), scale * (features @ layer.weight.T) + bias)


@pytest.mark.parametrize("scale_bias", [True, False])
def test_learning_scales_starts_from_the_logits_of_the_model(scale_bias, model, inputs):
    expected = model.eval()(inputs)
    learn_scales(model, "head.fc", scale_bias=scale_bias)
    assert torch.equal(model(inputs), expected)


@few_examples
@given(
    st.sampled_from([nn.Linear(6, 4), nn.Linear(6, 4, bias=False), nn.Conv2d(6, 4, 1)]),
    st.booleans(),
    st.sampled_from([None, 1, 3, 4]),
)
def test_folded_scales_give_the_same_logits_from_a_plain_layer(layer, scale_bias, num_classes):
    scaled = ScaledClassifier(copy.deepcopy(layer).double(), scale_bias=scale_bias, num_classes=num_classes)
    randomize(scaled.scale)
    original = copy.deepcopy(scaled.classifier.state_dict())
    features = torch.randn(2, 6, *[3] * (layer.weight.dim() - 2), dtype=torch.float64)
    folded = scaled.folded()
    assert type(folded) is type(layer)
    assert_close(folded(features), scaled(features))
    assert all(torch.equal(value, original[name]) for name, value in scaled.classifier.state_dict().items())


def test_scales_of_a_cosine_classifier_work_but_cannot_be_folded():
    classifier = CosineClassifier(6, 4)
    scaled = ScaledClassifier(classifier)
    randomize(scaled.scale)
    features = torch.randn(3, 6)
    assert_close(scaled(features), scaled.scale * classifier(features))
    with pytest.raises(TypeError, match="cannot be folded"):
        scaled.folded()


# --- DisAlign -------------------------------------------------------------------------------------------------------


def golden_alignment(form):
    case = golden("disalign")
    aligned = align(golden_layer(case), "0", form=form)
    with torch.no_grad():
        aligned.scale.copy_(float64(case["logit_scale"]))
        aligned.shift.copy_(float64(case["logit_bias"]))
        aligned.confidence.weight.copy_(float64([case["confidence_weight"]]))
        aligned.confidence.bias.fill_(case["confidence_bias"])
    return aligned, case


def test_residual_alignment_gives_the_published_logits_and_loss():
    aligned, case = golden_alignment("residual")
    logits = aligned(float64(case["features"]))
    assert_close(logits, float64(case["logits"]), rtol=1e-9, atol=1e-12)
    weights = alignment_weights(float64(case["class_counts"]), case["hyper"]["grw_scale"])
    assert_close(weights, float64(case["grw_weights"]), rtol=1e-9, atol=0)
    loss = CrossEntropyLoss(weight=weights, weighted_mean=True)(logits, torch.tensor(case["labels"]))
    assert_close(loss, float64(case["loss_value"]), rtol=1e-9, atol=0)


def test_interpolated_alignment_mixes_old_and_corrected_logits():
    aligned, case = golden_alignment("interpolated")
    features = float64(case["features"])
    logits = features @ float64(case["weights"]).T + float64(case["bias"])
    confidence = (features @ float64(case["confidence_weight"]) + case["confidence_bias"]).sigmoid()[:, None]
    corrected = float64(case["logit_scale"]) * logits + float64(case["logit_bias"])
    assert_close(aligned(features), torch.lerp(logits, corrected, confidence), rtol=1e-9, atol=1e-12)


def test_alignment_starts_from_the_published_values(model, inputs):
    expected = model.eval()(inputs)
    aligned = align(model, "head.fc")
    confidence = (0.1 * model.features(inputs).sum(dim=1, keepdim=True)).sigmoid()
    assert_close(model(inputs), (1 + confidence) * expected)
    aligned.form = "interpolated"
    assert_close(model(inputs), expected)


def test_alignment_keeps_precision_and_mode_of_the_classifier():
    layer = nn.Linear(6, 4).double().eval()
    aligned = AlignedClassifier(layer)
    assert {parameter.dtype for parameter in aligned.parameters()} == {torch.float64}
    assert not aligned.training


def test_an_unknown_form_of_alignment_is_refused(model):
    with pytest.raises(ValueError, match="form must be"):
        align(model, "head.fc", form="mixed")
    assert all(parameter.requires_grad for parameter in model.parameters())


@few_examples
@given(st.lists(st.integers(0, 10**7), min_size=1, max_size=30).filter(any), st.floats(0, 3))
def test_alignment_weights_have_mean_one_and_favour_rare_categories(counts, power):
    weights = alignment_weights(torch.tensor(counts, dtype=torch.float64), power)
    assert_close(weights.mean(), float64(1.0))
    # Equal counts may differ in the last bit: a vectorised power rounds its last entries in another way.
    assert (weights[torch.tensor(counts).argsort(descending=True)].diff() >= -1e-12).all()


def test_alignment_weights_of_a_category_without_samples_are_those_of_the_rarest():
    assert_close(alignment_weights([4, 0, 1], 1.0), torch.tensor([1.0, 4.0, 4.0]) / 3)
    assert_close(alignment_weights(torch.tensor([4, 1]), 0.5), torch.tensor([2.0, 4.0]) / 3)


@pytest.mark.parametrize("counts", [[0, 0], [1, -1], [1.0, float("nan")], [[1, 2]], []])
def test_alignment_weights_refuse_counts_that_are_none(counts):
    with pytest.raises(ValueError, match="category_counts must be"):
        alignment_weights(counts, 1.0)


@pytest.mark.parametrize("power", [-1.0, float("inf")])
def test_a_power_that_is_negative_or_infinite_is_refused(power, model):
    with pytest.raises(ValueError, match="power must be"):
        alignment_weights([1, 2], power)
    with pytest.raises(ValueError, match="power must be"):
        normalize_weights(model, "head.fc", power=power)


# --- tau-normalisation ----------------------------------------------------------------------------------------------


def test_tau_normalisation_gives_the_published_weights_and_logits():
    case = golden("tau_norm")
    model = golden_layer({**case, "bias": [1.0] * 7})
    layer = normalize_weights(model, "0", power=case["hyper"]["tau"])
    assert layer is model[0]
    assert_close(layer.weight.data, float64(case["weights_normalised"]), rtol=1e-9, atol=1e-12)
    assert_close(model(float64(case["features"])).data, float64(case["logits"]), rtol=1e-9, atol=1e-12)
    assert layer.bias is None
    assert list(model.state_dict()) == ["0.weight"]


@few_examples
@given(st.floats(0, 2), st.sampled_from([nn.Linear(6, 4), nn.Conv2d(6, 4, 1)]))
def test_tau_normalisation_raises_norms_to_the_power_one_minus_tau(power, layer):
    layer = copy.deepcopy(layer).double()
    model = nn.Sequential(layer)
    norms = layer.weight.detach().flatten(1).norm(dim=1)
    normalize_weights(model, "0", power=power)
    assert_close(layer.weight.detach().flatten(1).norm(dim=1), norms ** (1 - power))
    assert layer.weight.requires_grad


def test_tau_normalisation_leaves_a_zero_weight_at_zero(model):
    model.head["fc"].weight.data[1] = 0
    weight = normalize_weights(model, "head.fc", power=1.5).weight
    assert not weight[1].any()
    assert weight.isfinite().all()


def test_tau_normalisation_refuses_a_cosine_classifier():
    with pytest.raises(TypeError, match="normalises its weights already"):
        normalize_weights(Classifier(CosineClassifier(6, 4)), "head.fc", power=1.0)


# --- columns that are no categories ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "stage", [learn_scales, align, lambda *args, **kwargs: normalize_weights(*args, power=0.7, **kwargs)]
)
def test_further_columns_pass_unchanged(stage, model, inputs):
    plain = model.eval()(inputs)
    restricted, all_columns = copy.deepcopy(model), copy.deepcopy(model)
    for variant, num_classes in ((restricted, 3), (all_columns, None)):
        classifier = stage(variant, "head.fc", num_classes=num_classes)
        if hasattr(classifier, "scale"):
            classifier.scale.data.fill_(3.0)
    assert_close(restricted(inputs)[:, :3], all_columns(inputs)[:, :3])
    assert torch.equal(restricted(inputs)[:, 3], plain[:, 3])
    assert not torch.allclose(all_columns(inputs)[:, 3], plain[:, 3])


# --- a detector -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def detector():
    detection = pytest.importorskip("torchvision.models.detection")
    few_boxes = {"rpn_post_nms_top_n_train": 50, "rpn_post_nms_top_n_test": 10, "box_batch_size_per_image": 16}
    return detection.fasterrcnn_resnet50_fpn(
        weights=None, weights_backbone=None, num_classes=4, min_size=64, max_size=64, **few_boxes
    )


@pytest.mark.parametrize(
    ("stage", "trainable"),
    [
        (retrain_classifier, {"weight", "bias"}),
        (learn_scales, {"scale"}),
        (align, {"scale", "shift", "confidence.weight", "confidence.bias"}),
    ],
)
def test_only_the_classifier_of_a_detector_gets_gradients(stage, trainable, detector):
    model = copy.deepcopy(detector)
    path = "roi_heads.box_predictor.cls_score"
    stage(model, path)
    targets = [{"boxes": torch.tensor([[8.0, 8.0, 40.0, 40.0]]), "labels": torch.tensor([2])}]
    losses = model.train()([torch.rand(3, 64, 64)], targets)
    losses["loss_classifier"].backward()
    with_gradient = {name for name, parameter in model.named_parameters() if parameter.grad is not None}
    assert with_gradient == {f"{path}.{name}" for name in trainable}
    assert model.eval()([torch.rand(3, 64, 64)])[0].keys() == {"boxes", "labels", "scores"}


def test_the_weights_of_a_detector_are_normalised_by_path(detector):
    model = copy.deepcopy(detector)
    normalize_weights(model, "roi_heads.box_predictor.cls_score", power=1.0)
    assert_close(model.roi_heads.box_predictor.cls_score.weight.norm(dim=1).data, torch.ones(4))
    with pytest.raises(ValueError, match=r"nearest names:.*roi_heads\.box_predictor\.cls_score"):
        normalize_weights(model, "roi_heads.box_predictor.cls", power=1.0)
