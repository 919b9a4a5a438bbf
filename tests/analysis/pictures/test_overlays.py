import numpy as np
import pytest
from PIL import Image

from equigrad.analysis.pictures.colours import distinct_colours
from equigrad.analysis.pictures.overlays import background, draw_label_map, draw_overlays, legend_entries, overlay

NAMES = ["road", "building;edifice", "$x_1$ <b>sky</b>", "tram"]


def grey_image(height=20, width=30, value=100):
    return np.full((height, width, 3), value, dtype=np.uint8)


def test_colours_are_mixed_with_the_image():
    colours = np.array([[200, 0, 0], [0, 200, 0]], dtype=np.uint8)
    drawn = overlay(grey_image(1, 3), np.array([[0, 1, -100]]), colours, opacity=0.5)
    assert drawn.tolist() == [[[150, 50, 50], [50, 150, 50], [35, 35, 35]]]


def test_rare_regions_have_a_white_border_around_and_keep_their_pixels():
    labels = np.zeros((5, 5), dtype=np.int16)
    labels[2, 2] = 1
    colours = np.array([[200, 0, 0], [0, 200, 0]], dtype=np.uint8)
    drawn = overlay(grey_image(5, 5), labels, colours, opacity=1.0, outlined={1})
    assert drawn[2, 2].tolist() == [0, 200, 0]
    assert {tuple(place) for place in np.argwhere((drawn == 255).all(-1))} == {(1, 2), (3, 2), (2, 1), (2, 3)}


@pytest.mark.parametrize(("labels", "problem"), [(np.zeros((2, 2), int), "like the image"), ([[9]], "below 4")])
def test_labels_that_do_not_fit_are_refused(labels, problem):
    with pytest.raises(ValueError, match=problem):
        overlay(grey_image(1, 1), np.asarray(labels), distinct_colours(4))


def test_the_legend_lists_what_is_there_by_pixels_of_the_truth():
    truth, predicted = np.array([[0, 0, 1, -100]]), np.array([[0, 3, 1, 1]])
    assert legend_entries([truth, predicted], NAMES, rare={3}) == [
        (0, "road, 66.7 %"),
        (1, "building, 33.3 %"),
        (3, "tram, not there (rare)"),
        (-1, "ignored"),
    ]


def test_a_long_legend_is_cut_but_keeps_the_rare():
    labels = np.repeat(np.arange(100), np.arange(100, 0, -1))[None]
    entries = legend_entries([labels], [f"name {index}" for index in range(100)], rare={99})
    assert len(entries) == 37
    assert entries[-1] == (100, "and 64 more")
    assert entries[-2] == (99, "name 99, < 0.1 % (rare)")


def test_a_picture_shows_image_truth_and_two_runs(tmp_path):
    labels = np.zeros((20, 30), dtype=np.int16)
    labels[:, 15:] = 2
    labels[0] = -100
    maps = {"ground truth": labels, "CE": np.zeros((20, 30), dtype=np.int64), "$Softmax_{EQL}$": labels.clip(0)}
    draw_overlays(tmp_path / "picture.png", grey_image(), maps, NAMES, rare={2})
    with Image.open(tmp_path / "picture.png") as picture:
        assert picture.format == "PNG"
        pixels = np.asarray(picture.convert("RGB")).astype(int)
    assert 1200 < pixels.shape[1] < 1300  # two columns
    for label, num_panels in ((0, 3), (2, 2)):
        mixed = (0.4 * 100 + 0.6 * distinct_colours(4)[label]).round()
        columns = (np.abs(pixels - mixed).max(-1) < 3).sum()
        panel = 600 * 400  # pixels of a panel, about
        assert columns > 0.3 * panel * (num_panels - 1)
    assert [file.name for file in tmp_path.iterdir()] == ["picture.png"]


def test_background_is_known_by_its_name():
    assert background(["sky", "Background", "__background__", "void", "back door", "unlabelled"]) == {1, 2, 3, 5}


def test_a_label_map_tints_the_photograph_and_leaves_background_and_no_category_clear():
    photo = Image.new("RGB", (1280, 400), (100, 100, 100))
    labels = np.repeat([[0, 1, 2, -1]], 320, axis=1).repeat(400, axis=0)
    pixels = np.array(draw_label_map(photo, labels, ["background", "road", "tram"], rare={2}))
    for column in (100, 1200):
        assert (pixels[:400, column] == 100).all()
    for column, label in ((500, 1), (800, 2)):
        expected = 0.5 * 100 + 0.5 * distinct_colours(3)[label]
        assert (np.abs(pixels[:400, column] - expected) <= 1).all()
    assert (pixels[:400, 639] == 255).all()  # the border of the rare one
    assert not (pixels[400:] == 255).all()  # the legend


@pytest.mark.parametrize("size", [(1, 1), (32, 32), (3000, 3), (3, 3000)])
def test_label_maps_of_any_size_can_be_drawn(size):
    picture = draw_label_map(Image.new("RGB", size, "red"), np.zeros(size[::-1], np.int64), ["猫" * 50])
    assert max(picture.size) < 1700
