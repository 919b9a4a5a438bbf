import itertools

import numpy as np
import torch

from equigrad.tasks.progress import data_summary, tail_summary, with_progress

BATCHES = [(torch.zeros(2, 3), "targets")] * 3


def test_batches_pass_and_a_short_test_says_nothing(capsys):
    assert list(with_progress(BATCHES, 6)) == BATCHES
    assert capsys.readouterr() == ("", "")


def test_a_long_test_says_how_far_it_is_and_how_fast(capsys):
    passed = list(itertools.islice(with_progress(BATCHES, 6_000, first=0.0, seconds=0.0), 3))
    assert len(passed) == 3
    shown = capsys.readouterr()
    first, second = shown.err.splitlines()
    assert first.startswith("test: 2 of 6,000 images, ")
    assert second.startswith("test: 4 of 6,000 images, ")
    assert " images/s, " in second
    assert second.endswith(" left")
    assert shown.out == ""


def test_what_has_no_end_says_how_many_are_done_under_its_own_name(capsys):
    list(itertools.islice(with_progress(BATCHES, None, name="camera\n", first=0.0, seconds=0.0), 2))
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("camera\\n: 2 images, ")
    assert line.endswith(" images/s")


def test_the_summary_of_the_data_says_how_long_the_tail_is():
    assert data_summary(1_330, np.array([1_200, 99, 9, 3, 0])) == (
        "1,330 images, 5 categories; from 1,200 to 3 images each, imbalance factor 400; 1 category has none; "
        "3 have fewer than 10, 4 have fewer than 100 images"
    )


def test_pixels_have_no_few_and_data_without_any_has_no_factor():
    assert tail_summary(np.array([5_000, 20]), unit="pixels") == "from 5,000 to 20 pixels each, imbalance factor 250"
    assert (
        tail_summary(np.array([0, 0])) == "2 categories have none; 2 have fewer than 10, 2 have fewer than 100 images"
    )
