from dataclasses import replace

import pytest
import torch
from torch import nn

from equigrad.engine import SGD, AdamW, EngineError, ParameterRule
from equigrad.engine.optimizers import (
    build_optimizer,
    freeze,
    load_optimizer_state,
    matches,
    parameter_groups,
    set_learning_rate,
)


@pytest.fixture
def model():
    backbone = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.GroupNorm(2, 4))
    return nn.ModuleDict({"backbone": backbone, "backbone2": nn.Linear(4, 4), "head": nn.Linear(4, 2)})


def rates(model, settings):
    """Learning rate and weight decay of every parameter, by name."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    groups = parameter_groups(model, settings)
    return {names[id(p)]: (group["lr"], group["weight_decay"]) for group in groups for p in group["params"]}


def test_norms_and_biases_can_be_spared_from_weight_decay(model):
    spared = {
        name
        for name, (_, decay) in rates(model, SGD(0.1, weight_decay=1, decay_norm_and_bias=False)).items()
        if decay == 0
    }
    assert spared == {
        *("backbone.0.bias", "backbone.1.weight", "backbone.1.bias", "backbone.2.weight", "backbone.2.bias"),
        *("backbone2.bias", "head.bias"),
    }
    assert all(decay == 1 for _, decay in rates(model, SGD(0.1, weight_decay=1)).values())


def test_rules_scale_rates_by_path_and_the_last_match_decides(model):
    rules = (
        ParameterRule("backbone", lr=0.1),
        ParameterRule("backbone.0", lr=0.5),
        ParameterRule("head.bias", weight_decay=2),
    )
    found = rates(model, AdamW(1.0, weight_decay=0.5, decay_norm_and_bias=False, rules=rules))
    assert found["backbone.1.weight"] == (0.1, 0)
    assert found["backbone.0.weight"] == (0.5, 0.5)
    assert found["backbone2.weight"] == (1, 0.5)
    assert found["head.bias"] == (1, 1)  # a rule may bring back the decay of a bias


def test_a_pattern_matches_whole_components():
    assert matches("head.cls.0.bias", "head.*.0")
    assert matches("backbone.layer1.0", "backbone.layer1")
    assert not matches("backbone.layer10.0", "backbone.layer1")
    assert not matches("head", "head.cls")


@pytest.mark.parametrize(
    "use", [lambda m: freeze(m, ["backbon"]), lambda m: rates(m, SGD(1, rules=(ParameterRule("neck"),)))]
)
def test_a_pattern_that_matches_nothing_is_refused(model, use):
    with pytest.raises(EngineError, match="its parts are: backbone, backbone2, head"):
        use(model)


def test_frozen_parts_get_no_gradient_and_are_not_optimised(model):
    modules = freeze(model, ["backbone"])
    assert model["backbone"][1] in modules
    assert model["backbone2"] not in modules
    assert set(rates(model, SGD(1))) == {"backbone2.weight", "backbone2.bias", "head.weight", "head.bias"}


def test_freezing_everything_is_refused(model):
    freeze(model, ["*"])
    with pytest.raises(EngineError, match="everything is frozen"):
        build_optimizer(model, SGD(1))


def test_the_schedule_scales_every_group(model):
    optimizer = build_optimizer(model, SGD(1.0, nesterov=True, rules=(ParameterRule("head", lr=10),)))
    set_learning_rate(optimizer, 0.5)
    set_learning_rate(optimizer, 0.25)  # of the base, not of what was there
    assert sorted(group["lr"] for group in optimizer.param_groups) == [0.25, 2.5]
    assert optimizer.defaults["nesterov"]


def test_a_resumed_optimizer_keeps_momenta_but_obeys_the_new_settings(model):
    old = build_optimizer(model, SGD(1.0, weight_decay=0.1))
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    old.step()
    new = build_optimizer(model, SGD(0.5, weight_decay=0.2))
    load_optimizer_state(new, old.state_dict())
    weight = model["head"].weight
    assert torch.equal(new.state[weight]["momentum_buffer"], old.state[weight]["momentum_buffer"])
    assert (new.param_groups[0]["base_lr"], new.param_groups[0]["weight_decay"]) == (0.5, 0.2)


@pytest.mark.parametrize("settings", [SGD(0.1, weight_decay=0.01), AdamW(0.1)])
def test_a_fused_optimiser_takes_the_steps_of_a_plain_one_to_rounding(settings):
    models = [nn.Linear(8, 8), nn.Linear(8, 8)]
    models[1].load_state_dict(models[0].state_dict())
    optimizers = [build_optimizer(models[0], settings), build_optimizer(models[1], replace(settings, fused=True))]
    assert [bool(optimizer.param_groups[0]["fused"]) for optimizer in optimizers] == [False, True]
    for _ in range(3):
        inputs = torch.randn(4, 8)
        for model, optimizer in zip(models, optimizers, strict=True):
            optimizer.zero_grad()
            model(inputs).square().mean().backward()
            optimizer.step()
    torch.testing.assert_close(models[1].state_dict(), models[0].state_dict())
