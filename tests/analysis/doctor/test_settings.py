import pytest

from analysis.doctor.classifier_runs import SIGMOID_EQL, SOFTMAX_EQL, classifier
from equigrad.analysis.doctor.settings import compensates, loss_of, settings_findings, task_of
from equigrad.recipes.methods import classification, one_stage, two_stage
from equigrad.recipes.own_data import detection, instance_segmentation, semantic_segmentation
from equigrad.settings import to_json

METHODS = {
    **{name: method for name, (_, method) in classification.METHODS.items()},
    **{f"one-stage {name}": method for name, method in one_stage.METHODS.items()},
    **{f"two-stage {name}": method for name, method in two_stage.METHODS.items()},
}


@pytest.mark.parametrize("name", METHODS)
def test_no_method_of_the_package_looks_wrong(name):
    assert settings_findings({"method": to_json(METHODS[name])}) == []


@pytest.mark.parametrize("recipe", [detection, instance_segmentation, semantic_segmentation])
def test_no_recipe_for_own_data_looks_wrong(recipe):
    settings = to_json(recipe())
    assert settings_findings(settings) == []
    assert task_of(settings) == recipe.__name__


def test_softmax_loss_with_sigmoid_scores_is_a_mismatch():
    (finding,) = settings_findings(classifier(SOFTMAX_EQL, "Sigmoid"))
    assert (finding.name, finding.evidence) == ("scores_mismatch", "loss SoftmaxEql, scores Sigmoid")
    assert finding.remedy == "equigrad train … --set method.scores=Softmax"


def test_a_prior_of_one_half_is_none():
    settings = to_json(detection())
    settings["detector"]["prior"] = 0.5
    (finding,) = settings_findings(settings)
    assert finding.name == "bias_prior_missing"
    assert finding.remedy == "equigrad train … --set detector.prior=0.001"


def test_an_equalization_loss_at_zero_strength_compensates_nothing():
    assert compensates(SOFTMAX_EQL)
    assert not compensates({**SOFTMAX_EQL, "prior_power": 0.0})
    assert not compensates({**SIGMOID_EQL, "reweight_positive": False, "reweight_negative": False})
    assert compensates({"type": "Evfl", "focus_scale": 8.0})
    assert compensates({"type": "BalancedSoftmax"})
    assert not compensates({})


def test_the_loss_is_looked_for_inside_objectness():
    settings = {"method": {"loss": {"type": "WithObjectness", "loss": SIGMOID_EQL}}}
    assert loss_of(settings) == SIGMOID_EQL


def test_settings_of_own_parts_say_nothing():
    assert settings_findings({"type": "Mine", "method": "theirs"}) == []
    assert task_of({"type": "Mine"}) is None
