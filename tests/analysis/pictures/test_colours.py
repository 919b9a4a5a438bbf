import numpy as np

from equigrad.analysis.pictures.colours import _to_lab, distinct_colours


def test_150_colours_are_apart_and_the_first_stay_the_first():
    lab = _to_lab(distinct_colours(150).astype(float))
    distances = np.linalg.norm(lab[:, None] - lab[None], axis=-1) + 1e9 * np.eye(150)
    assert distances.min() > 9
    assert distances[:20, :20].min() > 30
    assert np.array_equal(distinct_colours(150)[:31], distinct_colours(31))
    assert len(distinct_colours(5000)) == 5000
