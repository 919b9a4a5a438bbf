import numpy as np
import pytest

from equigrad.data.segmentation.category_pixels import count_pixels, scan_label_maps, show_progress
from equigrad.data.segmentation.readers import read_camvid, read_label_folders
from segmentation_on_disk import write_pair, write_set
from shared_data import shared_folder

MAPS = {"a": [[0, 0, 1], [255, 0, 1]], "b": [[1, 1, 255], [1, 1, 1]], "c": [[255] * 3] * 2}


@pytest.fixture
def data(tmp_path):
    return read(write_set(tmp_path / "set", MAPS))


def read(folder):
    return read_label_folders("images", "labels", folder / "classes.txt", root=folder)


def test_pixels_and_images_of_each_category_are_counted(data):
    counted = count_pixels(data)
    assert counted.pixels.tolist() == [[3, 2, 0], [0, 5, 0], [0, 0, 0]]
    assert counted.ignored.tolist() == [1, 1, 6]
    assert counted.pixel_counts.tolist() == [3, 7, 0]
    assert counted.image_counts.tolist() == [1, 2, 0]
    assert [np.flatnonzero(row).tolist() for row in counted.presence] == [[0, 1], [1], []]


def test_processes_count_the_same_in_the_same_order(data):
    assert np.array_equal(count_pixels(data, num_workers=2).pixels, count_pixels(data).pixels)


@pytest.mark.parametrize("num_workers", [0, 1])
def test_the_first_wrong_map_and_the_number_of_others_are_named(tmp_path, num_workers):
    folder = write_set(tmp_path, {**MAPS, "b": [[7]], "d": [[8]]})
    with pytest.raises(ValueError, match=r"labels/b.png: 1 pixels have values like 7.*\(and 1 more label maps"):
        count_pixels(read(folder), num_workers=num_workers)


def test_a_scan_goes_on_after_a_fault(tmp_path):
    readings = scan_label_maps(read(write_set(tmp_path, {"a": [[7]], "b": [[2]]})))
    assert "a.png" in readings[0].fault
    assert (readings[1].pixels.tolist(), readings[1].size, readings[1].fault) == ([0, 0, 1, 0], (1, 1), "")


def test_progress_reaches_the_end(data, capsys):
    calls = []
    count_pixels(data, progress=lambda *call: calls.append(call))
    assert calls == [(1, 3), (2, 3), (3, 3)]
    show_progress(1, 3)
    show_progress(3, 3)
    assert capsys.readouterr().err == "\r3 of 3 label maps\n"


def test_counts_are_read_from_the_cache_of_the_same_data(data, tmp_path):
    cache = tmp_path / "caches" / "pixels.npz"
    first = count_pixels(data, cache=cache)
    calls = []
    again = count_pixels(data, cache=cache, progress=lambda *call: calls.append(call))
    assert calls == []
    assert np.array_equal(first.pixels, again.pixels)
    assert np.array_equal(first.ignored, again.ignored)


def test_the_cache_of_other_data_or_a_damaged_one_is_written_anew(data, tmp_path):
    cache = tmp_path / "pixels.npz"
    count_pixels(data, cache=cache)
    assert len(count_pixels(data.subset([0, 1]), cache=cache).pixels) == 2
    cache.write_bytes(b"PK damaged")
    assert len(count_pixels(data, cache=cache).pixels) == 3
    assert len(count_pixels(data, cache=cache).pixels) == 3


def test_a_label_map_of_another_size_makes_another_cache(tmp_path):
    folder, cache = write_set(tmp_path, MAPS), tmp_path / "pixels.npz"
    count_pixels(read(folder), cache=cache)
    write_pair(folder, "a", np.eye(40, dtype=int))
    assert count_pixels(read(folder), cache=cache).pixels[0].tolist() == [1560, 40, 0]


@pytest.mark.shared_data
def test_camvid_has_the_counts_of_its_table():
    folder = shared_folder("camvid")
    rows = np.genfromtxt(folder / "classes.csv", delimiter=",", names=True, dtype=None, encoding="utf-8")
    counted = count_pixels(read_camvid(folder, "val"))
    assert counted.pixel_counts.tolist() == rows["val_pixels"].tolist()
    assert counted.image_counts.tolist() == rows["val_images"].tolist()
