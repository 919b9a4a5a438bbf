from dataclasses import replace

import pytest
import torch

from equigrad.data.feature_cache import FeatureDataset
from equigrad.recipes.own_data import classification
from equigrad.tasks.comparison.last_layer import LastLayer, train_last_layer
from running import load


@pytest.fixture
def clouds():
    """Three clouds that overlap: 80, 20 and 4 samples."""
    labels = torch.arange(3).repeat_interleave(torch.tensor([80, 20, 4]))
    centres = 1.5 * torch.eye(3, 8)
    return FeatureDataset(centres[labels] + torch.randn(104, 8), labels, class_names=["a", "b", "c"])


def with_seed(recipe, seed):
    return replace(recipe, training=replace(recipe.training, seed=seed))


def test_the_seed_decides_the_layer(clouds):
    recipe, settings = classification("ce"), LastLayer(epochs=2)
    first, again, other = (train_last_layer(with_seed(recipe, seed), clouds, settings) for seed in (0, 0, 1))
    assert torch.equal(first.classifier.weight, again.classifier.weight)
    assert not torch.equal(first.classifier.weight, other.classifier.weight)


def test_a_method_is_trained_with_its_own_loss(clouds):
    plain, balanced = (
        train_last_layer(classification(name), clouds, LastLayer(epochs=20)).eval()
        for name in ("ce", "balanced_softmax")
    )
    predicted = [
        torch.stack([found["scores"] for found in model(clouds.features)]).argmax(1) for model in (plain, balanced)
    ]
    assert (predicted[1] == 2).sum() > (predicted[0] == 2).sum()


def test_a_second_stage_keeps_what_it_does_not_train(clouds):
    first = train_last_layer(classification("ce"), clouds, LastLayer(epochs=2))
    before = first.classifier.weight.clone()
    scaled = train_last_layer(classification("lws"), clouds, LastLayer(epochs=2), first)
    assert any(torch.equal(value, before) for value in scaled.state_dict().values() if value.shape == before.shape)


def test_a_student_learns_from_its_teacher(clouds):
    first = train_last_layer(classification("balanced_softmax"), clouds, LastLayer(epochs=2))
    student = train_last_layer(classification("dive"), clouds, LastLayer(epochs=2), first)
    assert student.teacher is not None
    assert not torch.equal(student.classifier.weight, first.classifier.weight)


def test_settings_of_the_loss_are_those_of_the_recipe(clouds):
    strong = load("own_data:classification", ["method.loss.prior_power=2"])
    assert train_last_layer(strong, clouds, LastLayer(epochs=1)).classification_loss.prior_power == 2


@pytest.mark.parametrize("name", ["epochs", "batch_size", "lr"])
def test_settings_must_be_positive(name):
    with pytest.raises(ValueError, match=f"{name} must be above 0, got 0"):
        LastLayer(**{name: 0})
