import json
import pickle
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import nn
from torch.testing import assert_close

from equigrad.models.classification.cosine_classifier import CosineClassifier

few_examples = settings(max_examples=50)  # a busy machine is no failure
GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "cosine_classifier.json").read_text())


def golden_tensor(name):
    return torch.tensor(GOLDEN[name], dtype=torch.float64)


def with_golden_weights(classifier):
    state = {"weight": golden_tensor("weights"), "bias": golden_tensor("bias")}
    classifier.double().load_state_dict({name: state[name] for name in classifier.state_dict()})
    return classifier


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, "official_temperature_30"),
        ({"temperature": 20.0, "bias": True, "norm_offset": 1e-6}, "mmdet_temperature_20_with_bias"),
    ],
)
def test_gives_the_logits_of_both_published_layers(settings, expected):
    classifier = with_golden_weights(CosineClassifier(6, 7, **settings))
    result = torch.tensor(GOLDEN["results"][expected], dtype=torch.float64)
    assert_close(classifier(golden_tensor("features")), result, rtol=1e-9, atol=1e-12)


def test_takes_the_place_of_a_linear_layer():
    classifier, linear = CosineClassifier(5, 3), nn.Linear(5, 3)
    assert (classifier.in_features, classifier.out_features) == (linear.in_features, linear.out_features)
    assert classifier.weight.shape == linear.weight.shape
    assert classifier.bias is None
    features = torch.randn(2, 4, 5)
    assert classifier(features).shape == linear(features).shape
    assert list(classifier.state_dict()) == ["weight"]


@few_examples
@given(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3), st.integers(0, 2**16))
def test_logits_ignore_the_norms_of_features_and_weights(feature_factor, weight_factor, seed):
    generator = torch.Generator().manual_seed(seed)
    classifier = CosineClassifier(6, 4, temperature=7.0).double()
    features = torch.randn(3, 6, generator=generator, dtype=torch.float64)
    logits = classifier(features)
    with torch.no_grad():
        classifier.weight.mul_(weight_factor)
    assert_close(classifier(features * feature_factor), logits)
    assert logits.abs().max() <= 7.0


def test_the_logit_of_a_feature_along_a_weight_is_the_temperature():
    classifier = CosineClassifier(6, 4, temperature=12.0)
    assert_close(classifier(5 * classifier.weight).diagonal(), torch.full((4,), 12.0))


def test_weights_start_at_length_one_in_all_directions():
    torch.manual_seed(0)
    weight = CosineClassifier(16, 500).weight
    assert_close(weight.norm(dim=1), torch.ones(500))
    assert_close(weight.mean(dim=0), torch.zeros(16), rtol=0, atol=0.05)


def test_resetting_draws_new_unit_weights_and_clears_the_bias():
    classifier = CosineClassifier(6, 4, bias=True)
    before = classifier.weight.clone()
    with torch.no_grad():
        classifier.bias.fill_(3.0)
    classifier.reset_parameters()
    assert not torch.equal(classifier.weight, before)
    assert_close(classifier.weight.norm(dim=1), torch.ones(4))
    assert not classifier.bias.any()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_a_zero_feature_gives_zero_logits_in_every_precision(dtype):
    logits = CosineClassifier(6, 4).to(dtype)(torch.zeros(2, 6, dtype=dtype))
    assert_close(logits, torch.zeros(2, 4, dtype=dtype))


def test_gradients_agree_with_finite_differences():
    classifier = CosineClassifier(5, 3, temperature=2.0, bias=True, norm_offset=1e-6).double()
    features = torch.randn(4, 5, dtype=torch.float64, requires_grad=True)

    def logits(features, weight, bias):
        return torch.func.functional_call(classifier, {"weight": weight, "bias": bias}, (features,))

    assert torch.autograd.gradcheck(logits, (features, classifier.weight, classifier.bias))


def test_survives_pickling():
    classifier = CosineClassifier(6, 4, bias=True, temperature=3.0)
    features = torch.randn(2, 6)
    assert torch.equal(pickle.loads(pickle.dumps(classifier))(features), classifier(features))


@pytest.mark.parametrize(
    ("sizes", "settings", "message"),
    [
        ((6, 4), {"temperature": 0.0}, "temperature must be"),
        ((6, 4), {"temperature": float("nan")}, "temperature must be"),
        ((6, 4), {"norm_offset": -1e-6}, "norm_offset must be"),
        ((0, 4), {}, "in_features"),
        ((6, 0), {}, "num_classes"),
    ],
)
def test_refuses_settings_without_meaning(sizes, settings, message):
    with pytest.raises(ValueError, match=message):
        CosineClassifier(*sizes, **settings)
