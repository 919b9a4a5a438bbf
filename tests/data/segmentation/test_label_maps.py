import io

import numpy as np
import pytest
from hypothesis import given, strategies as st
from PIL import Image

import equigrad
from equigrad.data.images.stores import open_store
from equigrad.data.segmentation.label_maps import LabelValues, check_sizes, read_values
from equigrad.labels import IGNORE


def saved(folder, image, name="map.png"):
    image.save(folder / name)
    return open_store(folder), name


def test_ignored_pixels_have_the_label_that_losses_ignore():
    assert IGNORE == equigrad.IGNORE


def test_values_become_categories_in_the_order_given():
    values = LabelValues((10, 7, 30), ignored=(0, 255))
    categories = values.to_categories(np.array([[10, 30, 0], [7, 255, 10]], dtype=np.uint8), "map")
    assert categories.tolist() == [[0, 2, IGNORE], [1, IGNORE, 0]]
    assert categories.dtype == np.int16


@given(st.sets(st.integers(0, 65535), min_size=1, max_size=40), st.randoms())
def test_every_value_finds_its_category(values, random):
    order = random.sample(sorted(values), len(values))
    stored = np.array([order], dtype=np.uint16)
    assert LabelValues(tuple(order), ()).to_categories(stored, "map").tolist() == [list(range(len(order)))]


def test_a_value_without_category_is_named_with_file_and_count():
    values = LabelValues((0, 1, 2, 31), ignored=(255,))
    with pytest.raises(
        ValueError, match=r"map.png: 2 pixels have values like 9; expected 0\.\.2, 31 or 255 \(ignored\)"
    ):
        values.to_categories(np.array([[0, 9], [9, 255]], dtype=np.uint8), "map.png")


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "LA"])
def test_an_index_that_is_stored_in_several_channels_is_read(tmp_path, mode):
    index = Image.fromarray(np.array([[0, 1], [2, 255]], np.uint8))
    assert read_values(*saved(tmp_path, index.convert(mode))).tolist() == [[0, 1], [2, 255]]


def test_colours_and_jpeg_are_answered_with_what_to_write(tmp_path):
    with pytest.raises(ValueError, match="got RGB colours; write the number of the category instead of its colour"):
        read_values(*saved(tmp_path, Image.new("RGB", (2, 2), (128, 64, 128))))
    with pytest.raises(ValueError, match="JPEG changes values, so that label maps must be PNG"):
        LabelValues((0, 1), ()).to_categories(np.array([[5]], np.uint8), "a.JPG")


@pytest.mark.parametrize(
    ("values", "problem"), [((1, 1), "two categories"), ((1, 255), "ignored"), ((-1,), "0..65535")]
)
def test_values_that_contradict_each_other_are_refused(values, problem):
    with pytest.raises(ValueError, match=problem):
        LabelValues(values, ignored=(255,))


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_maps_of_8_and_16_bits_are_read_exactly(tmp_path, dtype):
    values = np.array([[0, 1, np.iinfo(dtype).max]], dtype=dtype)
    assert np.array_equal(read_values(*saved(tmp_path, Image.fromarray(values))), values)


def test_a_palette_does_not_change_values(tmp_path):
    image = Image.frombytes("P", (3, 1), bytes([0, 15, 255]))
    image.putpalette([200, 100, 50] * 256)
    assert read_values(*saved(tmp_path, image)).tolist() == [[0, 15, 255]]


def test_a_map_of_two_colours_has_the_values_0_and_1(tmp_path):
    image = Image.fromarray(np.array([[True, False]]))
    assert read_values(*saved(tmp_path, image)).tolist() == [[1, 0]]


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
def test_colours_instead_of_indices_are_refused(tmp_path, mode):
    with pytest.raises(ValueError, match=rf"map.png: expected one channel .*, got {mode} colours"):
        read_values(*saved(tmp_path, Image.new(mode, (2, 2), "purple")))


def test_a_missing_map_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"gone.png: no such label map"):
        read_values(open_store(tmp_path), "gone.png")


def test_a_truncated_map_is_named(tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (64, 64), dtype=np.uint8)
    store, name = saved(tmp_path, Image.fromarray(noise))
    content = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(content[: len(content) // 2])
    with pytest.raises(OSError, match=r"map.png: cannot read the image"):
        read_values(store, name)


def test_a_small_file_of_enormous_size_is_refused_before_it_is_decoded(tmp_path):
    stream = io.BytesIO()
    Image.new("1", (12_000, 12_000)).save(stream, "PNG")
    (tmp_path / "map.png").write_bytes(stream.getvalue())
    with pytest.raises(OSError, match=r"134,217,728 pixels, got 144,000,000"):
        read_values(open_store(tmp_path), "map.png")


def test_an_image_and_a_map_of_other_size_are_refused():
    with pytest.raises(ValueError, match=r"a.png: 4 x 3 pixels, but its image a.jpg has 5 x 3"):
        check_sizes("a.jpg", (3, 5), "a.png", (3, 4))
