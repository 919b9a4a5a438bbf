import copy

import torch
from torch import nn

import equigrad
from equigrad.meter.watched_losses import WatchedLosses, outermost_losses


def test_losses_are_found_wherever_they_are_but_not_inside_each_other():
    balanced = equigrad.BalancedSoftmaxLoss([3, 2, 1])
    model = nn.ModuleDict(
        {
            "objectness": equigrad.WithObjectness(equigrad.SigmoidEqualizationLoss(3)),
            "distilled": equigrad.DistillationLoss(balanced),
            "grouped": equigrad.GroupedSoftmaxLoss([3, 2, 1]),
            "layer": nn.Linear(2, 2),
        }
    )
    assert list(outermost_losses(model)) == ["objectness.loss", "distilled.base"]


def test_a_plain_loss_is_watched_in_training_only_and_the_model_stays_as_it_is():
    model = nn.ModuleDict({"loss": equigrad.CrossEntropyLoss()})
    names = list(model.state_dict())
    watched = WatchedLosses(model, 2)
    logits = torch.tensor([[1.0, 0.0, 9.0], [1.0, 0.0, 0.0]], requires_grad=True)  # the last column is background
    model["loss"](logits, torch.tensor([0, 2]))
    model.eval()
    model["loss"](logits, torch.tensor([1, 1]))
    (recognition,) = watched.recognitions().values()
    assert recognition.seen.tolist() == [1, 0]
    assert recognition.share[0].item() == 1.0
    assert list(model.state_dict()) == names


def test_its_state_can_be_saved_and_loaded():
    model = nn.ModuleDict({"loss": equigrad.FocalLoss()})
    watched, other = WatchedLosses(model, 2), WatchedLosses(copy.deepcopy(model), 2)
    model["loss"](torch.zeros(3, 2, requires_grad=True), torch.tensor([0, 1, 1]))
    other.load_state_dict(watched.state_dict())
    assert other.recognitions()["loss"].seen.tolist() == [1, 2]
