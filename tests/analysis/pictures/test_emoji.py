import numpy as np
import pytest

from equigrad.analysis.pictures.emoji import emoji_font, emoji_picture
from equigrad.analysis.pictures.text import _system_fonts


def test_files_that_are_no_fonts_of_coloured_letters_are_passed_over(tmp_path):
    (tmp_path / "broken.ttf").write_bytes(b"no font")
    (tmp_path / "cut.ttc").write_bytes(b"ttcf\0\1\0\0")
    assert emoji_font([tmp_path / "broken.ttf", tmp_path / "cut.ttc", tmp_path / "absent.ttf"]) is None


@pytest.mark.parametrize("height", [9, 18, 64])
def test_a_picture_has_the_height_that_is_asked_for_and_a_transparent_ground(height):
    found = emoji_font(_system_fonts())
    if found is None:
        pytest.skip("no font of this system has coloured emoji (Debian: fonts-noto-color-emoji)")
    picture = emoji_picture(found.font, chr(min(found.letters & set(range(0x1F600, 0x1F640)))), height)
    opacity = np.asarray(picture)[..., 3]
    assert picture.height == height
    assert opacity.max() > 200
    assert opacity.min() == 0
