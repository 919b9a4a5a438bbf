"""Objects drawn on images of one colour, so that every other pixel is theirs."""

import numpy as np
import pytest
from PIL import Image, ImageColor, ImageDraw

from equigrad.analysis.pictures.objects import GROUPS, DetectedObject, draw_objects
from equigrad.analysis.pictures.predictions import GROUP_COLOURS

GREY = (90, 90, 90)
SIZE = (1000, 800)  # is drawn as it is


def drawn(*objects, size=SIZE):
    return np.array(draw_objects(Image.new("RGB", size, GREY), objects))


def is_colour(picture, group):
    return (picture == ImageColor.getrgb(GROUP_COLOURS[group])).all(-1)


@pytest.mark.parametrize("group", GROUPS)
def test_a_box_has_the_colour_of_its_group_where_the_object_is(group):
    found = is_colour(drawn(DetectedObject("cup", 0.9, group, (200, 300, 600, 500))), group)
    assert found[300:500, 200].all()
    assert found[300:500, 599].all()
    assert found[300, 200:600].all()
    assert found[499, 200:600].all()
    assert not found[310:490, 210:590].any()
    assert not found[520:800].any()


def test_small_and_large_images_have_their_boxes_in_the_same_place():
    for size in ((100, 80), (4000, 3200)):
        scale = size[0] / 100
        picture = drawn(DetectedObject("cup", 0.9, "rare", (50 * scale, 40 * scale, 75 * scale, 60 * scale)), size=size)
        height, width = picture.shape[1] * 80 // 100, picture.shape[1]
        assert 1000 <= width <= 1536
        rows, columns = np.nonzero(is_colour(picture, "rare")[height * 55 // 100 : height])
        assert columns.min() / width == pytest.approx(0.5, abs=0.01)
        assert columns.max() / width == pytest.approx(0.75, abs=0.01)
        assert rows.max() / height == pytest.approx(0.75 - 0.55, abs=0.01)


def test_rare_boxes_are_above_the_others_whatever_their_order():
    objects = [
        DetectedObject("cup", 0.3 + 0.1 * index, group, (200, 300, 600, 500)) for index, group in enumerate(GROUPS)
    ]
    for given in (objects, objects[::-1]):
        picture = drawn(*given)
        assert is_colour(picture, "rare")[450:500, 200].all()
        assert not is_colour(picture, "frequent")[450:500, 200].any()


def test_a_mask_tints_its_own_pixels_only():
    mask = np.zeros(SIZE[::-1], bool)
    mask[400:450, 300:400] = True
    picture = drawn(DetectedObject("cup", 0.9, "common", (250, 350, 500, 480), mask))
    inside = picture[360:470, 260:490]
    is_tinted = (inside != GREY).any(-1)
    np.testing.assert_array_equal(is_tinted, mask[360:470, 260:490])
    colour = np.array(ImageColor.getrgb(GROUP_COLOURS["common"]))
    np.testing.assert_allclose(picture[425, 350], 0.65 * np.array(GREY) + 0.35 * colour, atol=2)
    np.testing.assert_array_equal(picture[400, 350], colour)  # the border


def test_an_empty_mask_draws_the_box_alone():
    box = DetectedObject("cup", 0.9, "common", (250, 350, 500, 480))
    np.testing.assert_array_equal(drawn(box._replace(mask=np.zeros(SIZE[::-1], bool))), drawn(box))


def test_the_legend_tells_the_colours_whatever_was_found():
    picture = drawn()
    assert (picture[:800] == GREY).all()
    assert all(is_colour(picture[800:], group).any() for group in GROUPS)


@pytest.fixture
def texts(monkeypatch):
    """Texts that are drawn, with their positions and colours."""
    found = []
    draw_text = ImageDraw.ImageDraw.text

    def text(draw, xy, text, fill=None, **options):
        found.append((text, xy, fill))
        draw_text(draw, xy, text, fill=fill, **options)

    monkeypatch.setattr(ImageDraw.ImageDraw, "text", text)
    return found


def test_the_legend_counts_the_objects_of_each_group(texts):
    drawn(*[DetectedObject("cup", 0.5, group, (0, 0, 9, 9)) for group in ("rare", "rare", "frequent")])
    legend = [(text, left) for text, (left, top), _ in texts if top >= SIZE[1]]
    assert [text for text, _ in legend] == ["frequent 1", "common 0", "rare 2"]
    assert [left for _, left in legend] == sorted(left for _, left in legend)


def test_a_label_has_name_and_score_in_white_on_the_colour_of_the_group(texts):
    picture = drawn(DetectedObject("tea cup", 0.876, "common", (200, 300, 600, 500)))
    text, (left, middle), fill = texts[0]
    assert (text, fill) == ("tea cup 0.88", "white")
    assert left > 200
    assert 276 < middle < 300
    on_label = picture[280:298, 201:300]
    assert is_colour(on_label, "common").mean() > 0.5
    assert (on_label == 255).all(-1).any()


def test_labels_are_drawn_even_without_room():
    objects = [DetectedObject("cup", 0.5, "rare", (0, 0, 9, 9)) for _ in range(30)]
    one, many = (is_colour(drawn(*found, size=(20, 20)), "rare").sum() for found in (objects[:1], objects))
    assert many > 2 * one


def test_hundreds_of_labels_are_smaller_and_leave_most_of_the_image_visible():
    rng = np.random.default_rng(0)
    corners = rng.uniform(0, (SIZE[0] - 50, SIZE[1] - 50), (300, 2)).tolist()
    objects = [DetectedObject("a usual name", 0.5, "common", (x, y, x + 10, y + 10)) for x, y in corners]
    picture = drawn(*objects)
    assert (picture[: SIZE[1]] == GREY).all(-1).mean() > 0.5


@pytest.mark.parametrize("size", [(1, 1), (4000, 3), (3, 4000), (640, 480)])
@pytest.mark.parametrize("box", [(0, 0, 0, 0), (-50, -50, 9000, 9000), (0.2, 0.2, 0.4, 0.4), (5000, 5000, 6000, 6000)])
def test_any_size_name_and_box_can_be_drawn(size, box):
    names = ["", "a very long name\nof a category " * 200, "tab\tand \x1b[31m red \x00", "\u202eright to left", "杯"]
    picture = drawn(*(DetectedObject(name, 1.0, "rare", box) for name in names), size=size)
    assert max(picture.shape) < 1700
    assert is_colour(picture, "rare").any()


@pytest.mark.parametrize("size", [(1, 1), (3, 4000), (640, 480)])
def test_the_legend_is_whole_on_narrow_images(size):
    many = [DetectedObject("cup", 0.5, group, (0, 0, 1, 1)) for group in GROUPS for _ in range(10)]
    picture = drawn(*many, size=size)
    legend = picture[-20:]
    assert (legend[:, -4:] == 255).all()
    assert is_colour(legend, "rare").any()
