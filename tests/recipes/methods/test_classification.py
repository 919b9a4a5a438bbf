from typing import get_args

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

import equigrad
from equigrad.recipes.methods.classification import BCE, CE, LADE_INATURALIST, METHODS, MethodName
from equigrad.tasks.losses import CategoryCounts, Distillation, SoftmaxEql
from equigrad.tasks.methods import Align, LearnScales, RetrainClassifier

COUNTS = CategoryCounts(np.array([40, 12, 3]), np.array([40, 12, 3]))
LOGITS, LABELS = torch.randn(12, 3, generator=torch.Generator().manual_seed(0)), torch.arange(12) % 3


def test_every_name_has_a_method():
    assert list(METHODS) == list(get_args(MethodName))


def test_cross_entropy_is_that_of_torch_and_watches_its_gradients():
    loss = CE.loss.build(COUNTS)
    for _ in range(2):  # the second time with statistics
        assert_close(loss(LOGITS, LABELS), F.cross_entropy(LOGITS, LABELS))
    assert (loss.statistics.positive > 0).all()


def test_binary_cross_entropy_is_plain_and_watches_its_gradients():
    loss, plain = BCE.loss.build(COUNTS), equigrad.BinaryCrossEntropyLoss()
    for _ in range(2):
        assert_close(loss(LOGITS, LABELS), plain(LOGITS, LABELS))
    assert (loss.statistics.positive > 0).all()


@pytest.mark.parametrize("name", METHODS)
def test_sigmoid_methods_start_at_the_papers_prior_and_softmax_methods_at_none(name):
    _, method = METHODS[name]
    is_sigmoid = name in ("bce", "sigmoid_eql")
    assert method.bias_prior == (0.001 if is_sigmoid else None)
    scores = method.scores.build(COUNTS)(LOGITS)
    sums_to_one = torch.allclose(scores.sum(1), torch.ones(12))
    assert sums_to_one != is_sigmoid


def test_post_hoc_adjustment_is_another_reading_of_cross_entropy():
    _, method = METHODS["logit_adjustment_post_hoc"]
    assert method.loss == CE.loss
    expected = (LOGITS - torch.tensor([40.0, 12.0, 3.0]).log()).softmax(1)
    assert_close(method.scores.build(COUNTS)(LOGITS), expected)


@pytest.mark.parametrize(
    ("name", "stage", "sampler"),
    [
        ("crt", RetrainClassifier(), "class_balanced"),
        ("lws", LearnScales(), "class_balanced"),
        ("disalign", Align(), "random"),
    ],
)
def test_second_stages_have_their_published_samplers(name, stage, sampler):
    _, method = METHODS[name]
    assert (method.second_stage, method.sampler, method.needs_init) == (stage, sampler, True)


def test_only_second_stages_and_distillations_need_a_finished_run():
    needing = {name for name, (_, method) in METHODS.items() if method.needs_init}
    assert needing == {"crt", "lws", "disalign", "dive", "dive_softmax_eql"}
    assert METHODS["dive_softmax_eql"][1].loss == Distillation(base=SoftmaxEql())


def test_the_cosine_classifier_of_the_published_code_shares_its_row():
    linear, cosine = METHODS["softmax_eql"], METHODS["softmax_eql_cosine"]
    assert linear[0] == cosine[0] == "Softmax-EQL"
    assert (linear[1].cosine_temperature, cosine[1].cosine_temperature) == (None, 30.0)
    assert linear[1].loss == cosine[1].loss


def test_names_of_rows_are_told_apart_but_for_variants_of_two_methods():
    labels = [label for label, _ in METHODS.values()]
    assert sorted(label for label in labels if labels.count(label) > 1) == ["Seesaw Loss"] * 2 + ["Softmax-EQL"] * 3


def test_lade_is_penalised_more_on_inaturalist():
    assert (LADE_INATURALIST.loss.weight, LADE_INATURALIST.loss.penalty) == (0.05, 0.5)
    assert METHODS["lade"][1] != LADE_INATURALIST
