import pytest
from PIL import Image, ImageColor

from equigrad.analysis.pictures.predictions import GROUP_COLOURS, RankedLabel, draw_labels


def colours(picture):
    return {colour for _, colour in picture.getcolors(picture.width * picture.height)}


@pytest.mark.parametrize("group", ["many", "medium", "few", "rare", "common", "frequent"])
def test_a_bar_has_the_colour_of_its_group(group):
    picture = draw_labels(Image.new("RGB", (40, 30), "white"), [RankedLabel("cat", 0.5, group)])
    found = colours(picture) & {ImageColor.getrgb(colour) for colour in GROUP_COLOURS.values()}
    assert found == {ImageColor.getrgb(GROUP_COLOURS[group])}


@pytest.mark.parametrize("size", [(1, 1), (32, 32), (4000, 3), (3, 4000), (800, 600)])
@pytest.mark.parametrize("score", [0.0, 1e-9, 1.0])
def test_any_size_score_and_name_can_be_drawn(size, score):
    labels = [RankedLabel("a very long name\nof a category " * 20, score, "few"), RankedLabel("", score, "many")]
    picture = draw_labels(Image.new("RGB", size, "red"), labels)
    assert picture.width <= 384 + 400 + 48
    assert (255, 0, 0) in colours(picture)
