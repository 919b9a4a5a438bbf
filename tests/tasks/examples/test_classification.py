import io

import numpy as np
import pytest
from PIL import Image

from equigrad.tasks.examples.classification import find
from equigrad.tasks.examples.wanted import Wanted
from tasks.examples.glyph_runs import RECIPE, TAIL, TEST_SET, write_glyph_run


@pytest.fixture
def folders(tmp_path):
    return [write_glyph_run(tmp_path / "a", [0, 0, 0, 3, 3]), write_glyph_run(tmp_path / "b", [3, 3, 0, 3, 0])]


def test_gains_are_images_that_only_the_second_run_knows(folders):
    (examples,) = find(folders, [RECIPE, RECIPE], [Wanted(TAIL, run=1, is_gain=True)])
    assert len(examples) == 3
    first, second = examples[0].answers
    assert (first.text, first.is_right) == (f"{TEST_SET.class_names[0]}, 75\u00a0%", False)
    assert (second.text, second.is_right) == ("right, 75\u00a0%", True)
    assert Image.open(io.BytesIO(examples[0].picture)).size == (128, 128)


def test_losses_are_images_that_only_the_first_run_knows(folders):
    (examples,) = find(folders, [RECIPE, RECIPE], [Wanted(TAIL, run=1, is_gain=False)])
    assert [answer.is_right for answer in examples[0].answers] == [True, False]


def test_predictions_of_other_images_are_refused(folders):
    file = folders[1] / "predictions" / "test.npz"
    with np.load(file) as stored:
        arrays = dict(stored)
    np.savez(file, **{**arrays, "paths": arrays["paths"][::-1]})
    with pytest.raises(ValueError, match=r"test\.npz is of other images than the test set of its recipe now"):
        find(folders, [RECIPE, RECIPE], [Wanted(TAIL, run=1, is_gain=True)])


def test_missing_predictions_are_named(folders):
    (folders[0] / "predictions" / "test.npz").unlink()
    with pytest.raises(FileNotFoundError, match=r"test\.npz is missing; `equigrad evaluate"):
        find(folders, [RECIPE, RECIPE], [Wanted(TAIL, run=1, is_gain=True)])
