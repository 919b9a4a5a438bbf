"""The words for samplers mean the same in the runs of classification and of detection."""

from dataclasses import replace
from typing import get_args

import pytest

from equigrad.sampling import ClassBalancedSampler, RepeatFactorSampler, ShuffledSampler
from equigrad.tasks.classification import run as classification
from equigrad.tasks.classification.data import GlyphImages
from equigrad.tasks.detection import run as detection
from equigrad.tasks.samplers import Sampler, SamplerKind
from running import load
from small_detection_data import data_settings, write_small_data

KINDS = {
    "random": ShuffledSampler,
    "repeat_factor": RepeatFactorSampler,
    "class_balanced": ClassBalancedSampler,
}


@pytest.fixture(scope="module")
def images():
    train_set, _ = GlyphImages(num_classes=3, max_count=8, imbalance_factor=4, test_count=1).load()
    return train_set


@pytest.fixture(scope="module")
def objects(tmp_path_factory):
    """A recipe and its training set."""
    root = write_small_data(tmp_path_factory.mktemp("objects"))
    recipe = load("small_detection_data:small", data_settings(root))
    return recipe, recipe.data.load(with_masks=False).train


def test_there_is_a_sampler_for_every_word_and_a_word_for_every_sampler():
    assert set(get_args(SamplerKind)) == set(KINDS)
    assert set(get_args(Sampler)) == set(KINDS.values())


@pytest.mark.parametrize("kind", get_args(SamplerKind))
def test_a_word_chooses_the_order_of_images_to_classify(kind, images):
    recipe = load("tiny:ce", ["training.seed=7"])
    sampler = classification.build_sampler(replace(recipe, method=replace(recipe.method, sampler=kind)), images)
    assert type(sampler) is KINDS[kind]
    assert sampler.seed == 7


@pytest.mark.parametrize("kind", get_args(SamplerKind))
def test_a_word_chooses_the_order_of_images_to_detect_in(kind, objects):
    recipe, train_set = objects
    seeded = replace(recipe, sampler=kind, training=replace(recipe.training, seed=7))
    sampler = detection.build_sampler(seeded, train_set)
    assert type(sampler) is KINDS[kind]
    assert sampler.seed == 7


def test_a_word_that_nobody_knows_is_refused_with_those_that_are():
    with pytest.raises(ValueError, match="expected one of random, repeat_factor, class_balanced"):
        load("one_stage:lvis_r50", ["sampler=balanced"])
