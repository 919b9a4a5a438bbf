import numpy as np
import pytest
from PIL import Image

from equigrad.analysis.pictures.side_by_side import side_by_side


def test_pictures_stay_as_they_are_beside_each_other():
    joined = np.array(
        side_by_side(["a", "b"], [Image.new("RGB", (300, 80), "red"), Image.new("RGB", (200, 50), "blue")])
    )
    assert (joined == (255, 0, 0)).all(-1).sum() == 300 * 80
    assert (joined == (0, 0, 255)).all(-1).sum() == 200 * 50
    assert 500 < joined.shape[1] < 540
    top_of = [np.flatnonzero((joined == colour).all(-1).any(1))[0] for colour in ((255, 0, 0), (0, 0, 255))]
    assert top_of[0] == top_of[1]


@pytest.mark.parametrize("heading", ["efl", "a long name of a run " * 30, "line\nbreak"])
def test_a_heading_is_above_its_own_picture(heading):
    white = [Image.new("RGB", (width, 60), "white") for width in (120, 160)]
    empty, with_heading = (np.array(side_by_side([text, ""], white)) for text in ("", heading))
    assert (empty == 255).all()
    rows, columns = np.nonzero((with_heading != 255).any(-1))
    assert rows.max() < with_heading.shape[0] - 60
    assert columns.max() <= 120
