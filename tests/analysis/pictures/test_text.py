import pytest

from equigrad.analysis.pictures.text import fitted, font, one_line


def test_what_steers_a_terminal_or_breaks_a_line_is_no_part_of_a_name():
    assert one_line("red\x1b[31m \n\tcup\u202e\x00") == "red [31m cup"


def test_a_very_long_name_is_cut():
    assert len(one_line("long " * 10_000)) <= 60
    assert one_line("x" * 60) == "x" * 60
    assert one_line("x" * 61) == "x" * 59 + "…"


@pytest.mark.parametrize("width", [0, 5, 40, 200])
def test_a_text_is_shortened_until_it_fits(width):
    shown = fitted("a name that is rather long", width, 18)
    assert font(18).getlength(shown) <= width


def test_a_text_that_fits_stays_whole():
    assert fitted("cup", 200, 18) == "cup"
