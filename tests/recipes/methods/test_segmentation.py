from typing import get_args

import numpy as np
import pytest

from equigrad.recipes.methods.classification import METHODS
from equigrad.recipes.methods.segmentation import PAPER_METHODS, PixelMethodName, pixel_method, row_of
from equigrad.recipes.tables import TABLES
from equigrad.tasks.losses import SigmoidEql
from equigrad.tasks.segmentation.run import build_model
from running import load


def test_sigmoid_losses_start_from_a_small_probability():
    method = pixel_method("sigmoid_eql")
    assert (row_of("sigmoid_eql"), method.loss, method.bias_prior) == ("Sigmoid-EQL", SigmoidEql(), 0.01)
    assert pixel_method("softmax_eql").bias_prior is None


def test_a_second_stage_is_no_method_of_pixels():
    with pytest.raises(ValueError, match="--set method=crt: expected one of ce, softmax_eql"):
        load("tiny:segmentation", ["method=crt"])


@pytest.mark.parametrize("name", get_args(PixelMethodName))
def test_a_method_of_pixels_looks_at_one_pixel_at_a_time_and_differs_in_the_prior_alone(name):
    method, of_images = pixel_method(name), METHODS[name][1]
    assert (method.loss, method.scores) == (of_images.loss, of_images.scores)
    assert not method.needs_init
    assert method.cosine_temperature is None
    assert (method.bias_prior is None) == (of_images.bias_prior is None)


def test_the_papers_methods_are_the_rows_of_its_tables():
    assert set(PAPER_METHODS) <= set(get_args(PixelMethodName))
    assert {row_of(name) for name in PAPER_METHODS} == set(TABLES["ade20k_results (PSPNet, R50)"])


def test_a_segmenter_starts_at_the_prior_of_its_method():
    model = build_model(load("tiny:segmentation", ["method=sigmoid_eql"]), np.array([5, 4, 3]))
    assert model.head.classifier.conv.bias.sigmoid().tolist() == pytest.approx([0.01] * 3)
