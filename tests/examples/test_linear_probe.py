import pytest
import torch
from feature_cache import FeatureDataset, Features
from hypothesis import given, strategies as st
from linear_probe import fit, hold_out, predict

import equigrad
from equigrad.models.classification.classifier import build_classifier
from equigrad.sampling import ClassBalancedSampler


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


@given(st.lists(st.integers(0, 12), min_size=1, max_size=6), st.floats(0.05, 0.95), st.integers(0, 5))
def test_every_category_with_two_samples_is_held_out_in_part(counts, share, seed):
    labels = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    whole = FeatureDataset(torch.arange(float(len(labels)))[:, None], labels, class_names=[str(c) for c in counts])
    kept, held_out = hold_out(whole, share=share, seed=seed)
    assert sorted(torch.cat([kept.features, held_out.features]).flatten().tolist()) == list(range(len(labels)))
    for part in (kept, held_out):
        assert torch.equal(part.labels, labels[part.features.flatten().long()])
    for count, rest, out in zip(counts, kept.category_counts.tolist(), held_out.category_counts.tolist(), strict=True):
        assert rest >= min(count, 1)
        assert (out >= 1) == (count >= 2)
        assert abs(out - share * count) <= 1


def test_parts_are_held_out_by_seed(data):
    first, second, other = (hold_out(data, seed=seed)[1].features for seed in (0, 0, 1))
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_a_share_must_leave_something_on_both_sides(data, share):
    with pytest.raises(ValueError, match="share must be between 0 and 1"):
        hold_out(data, share=share)
