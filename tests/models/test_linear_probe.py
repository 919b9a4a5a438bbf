import pytest
import torch
from torch.testing import assert_close

import equigrad
from equigrad.models.classification import build_classifier
from equigrad.models.feature_cache import FeatureDataset, Features
from equigrad.models.linear_probe import fit, predict, standardized


@pytest.fixture
def data():
    labels = torch.arange(60) % 3
    centres = torch.eye(3, 4) * 6
    return FeatureDataset(centres[labels] + torch.randn(60, 4), labels, class_names=["a", "b", "c"])


def trained(data, loss, seed=0):
    torch.manual_seed(0)
    model = build_classifier(Features(4), 3, loss, equigrad.SoftmaxScores())
    fit(model, data, epochs=5, batch_size=16, seed=seed)
    return model


def test_it_learns(data):
    model = trained(data, equigrad.SoftmaxEqualizationLoss(3))
    scores = torch.stack([prediction["scores"] for prediction in predict(model, data)])
    assert (scores.argmax(1) == data.labels).float().mean() > 0.95
    assert model.training


def test_the_seed_alone_decides_the_run(data):
    first, second, other = (trained(data, equigrad.CrossEntropyLoss(), seed=seed) for seed in (0, 0, 1))
    assert torch.equal(first.classifier.weight, second.classifier.weight)
    assert not torch.equal(first.classifier.weight, other.classifier.weight)


def test_standardizing_uses_the_training_set(data):
    shifted = FeatureDataset(data.features + 1, data.labels, class_names=data.class_names)
    train, test = standardized(data, shifted)
    assert_close(train.features.std(0), torch.ones(4))
    assert_close(test.features - train.features, (1 / data.features.std(0)).expand(60, 4))
