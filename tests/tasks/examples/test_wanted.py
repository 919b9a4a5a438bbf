import numpy as np

from equigrad.tasks.examples.wanted import Wanted

SCORES = np.array([[0.1, 0.9, 0.5, 0.5, 0.2], [0.9, 0.1, 0.5, 0.9, 0.1]])  # of the first run and of another


def test_images_come_first_in_which_the_runs_differ_most():
    assert list(Wanted(0, run=1, is_gain=True).best(SCORES)) == [0, 3, 2]
    assert list(Wanted(0, run=1, is_gain=False).best(SCORES)) == [1, 4, 2]
