import pytest
import torch

import equigrad
from equigrad.data.feature_cache import FeatureDataset, Features
from equigrad.models.classification.classifier import build_classifier
from equigrad.sampling import ClassBalancedSampler
from equigrad.tasks.classification.linear_probe import fit, predict


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


def test_a_sampler_gives_the_order(data):
    seen = []

    class Watched(equigrad.CrossEntropyLoss):
        def forward(self, logits, labels):
            seen.append(labels)
            return super().forward(logits, labels)

    only_first = torch.utils.data.SubsetRandomSampler(range(0, 60, 3))  # category 0
    model = build_classifier(Features(4), 3, Watched(), equigrad.SoftmaxScores())
    fit(model, data, epochs=2, batch_size=16, sampler=only_first)
    assert torch.cat(seen).tolist() == [0] * 40


def test_a_class_balanced_sampler_makes_the_tail_heard():
    data = FeatureDataset(torch.randn(101, 4), torch.tensor([0] * 99 + [1, 2]), class_names=["a", "b", "c"])
    model = build_classifier(
        Features(4), 3, equigrad.SoftmaxEqualizationLoss(3, prior_power=0.0), equigrad.SoftmaxScores()
    )
    fit(model, data, epochs=1, lr=0.0, sampler=ClassBalancedSampler(data.labels, seed=0))
    positive = model.classification_loss.statistics.positive
    assert positive.max() < 3 * positive.min()


def test_epochs_are_announced(data):
    epochs = []
    model = build_classifier(Features(4), 3, equigrad.CrossEntropyLoss(), equigrad.SoftmaxScores())
    fit(model, data, epochs=3, after_epoch=epochs.append)
    assert epochs == [1, 2, 3]
