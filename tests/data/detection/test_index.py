"""Indexes of annotation files: `EQUIGRAD_CACHE` is a folder of the test."""

import os

import numpy as np
import pytest

from detection_on_disk import annotation, coco, image, with_text_ids, without_sizes, write_json
from equigrad.data.detection.formats.coco_index import indexed_coco
from equigrad.data.detection.formats.coco_json import read_coco
from equigrad.data.detection.mapped_arrays import map_arrays, write_arrays
from quick_processes import run_ranks


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("EQUIGRAD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def file(tmp_path):
    return write_json(tmp_path / "a.json", coco())


@pytest.fixture
def read(cache, file):
    return lambda: indexed_coco(file, min_bytes=0)


def index_of(cache):
    (index,) = cache.glob("*.index")
    return index


def columns(data):
    names = ("image_ids", "heights", "widths", "offsets", "boxes", "labels", "areas", "is_crowd", "ids", "xywh")
    return {name: getattr(data, name) for name in names} | {
        "presence_images": data.presence[0].astype(np.int64),
        "presence_labels": data.presence[1].astype(np.int64),
        "instances": data.instance_counts,
        "images": data.category_counts,
        "has_area": data.has_area,
    }


def assert_same(found, expected):
    for (name, array), other in zip(columns(expected).items(), columns(found).values(), strict=True):
        np.testing.assert_array_equal(other, array, err_msg=name)
        assert other.dtype == array.dtype, name
    assert list(found.file_names) == list(expected.file_names)
    assert found.categories.names == expected.categories.names
    assert found.categories.frequency == expected.categories.frequency
    assert found.source == expected.source


def test_the_second_start_maps_what_the_first_has_read(read, file, cache, capsys):
    assert_same(read(), read_coco(file))
    assert f"{file}: read, and kept as {index_of(cache)}" in capsys.readouterr().err
    second = read()
    assert_same(second, read_coco(file))
    assert capsys.readouterr().err == ""
    assert not second.boxes.flags.owndata  # it is the file itself
    assert not second.boxes.flags.writeable


def test_masks_are_read_from_the_annotation_file(read, file):
    read()
    np.testing.assert_array_equal(read().mask(0), read_coco(file).mask(0))


def test_federated_lists_and_letters_are_kept(cache, tmp_path):
    images = [image(1, neg_category_ids=[7], not_exhaustive_category_ids=[]), image(2, file_name="ä/2.png")]
    images[1] |= {"neg_category_ids": [1, 7], "not_exhaustive_category_ids": [1]}
    categories = [{"id": 1, "name": "café", "frequency": "r"}, {"id": 7, "name": "", "frequency": "f"}]
    file = write_json(tmp_path / "lvis.json", coco(images, [annotation(1)], categories))
    for _ in range(2):
        data = indexed_coco(file, min_bytes=0)
        assert_same(data, read_coco(file))
        assert [data.negative[index].tolist() for index in (0, 1)] == [[1], [0, 1]]
        assert [data.not_exhaustive[index].tolist() for index in (0, 1)] == [[], [0]]
        assert data.segmentations is None


def test_texts_as_ids_and_missing_sizes_are_kept(cache, tmp_path):
    file = write_json(tmp_path / "odd.json", without_sizes(with_text_ids(coco())))
    read_twice = [indexed_coco(file, min_bytes=0) for _ in range(2)]
    expected = read_coco(file)
    for data in read_twice:
        assert data.image_ids.tolist() == expected.image_ids.tolist() == ["image-001", "image-002"]
        assert data.categories.ids.tolist() == ["kind-001", "kind-007"]
        assert data.category_counts.tolist() == expected.category_counts.tolist()
        assert not data.has_sizes
        with pytest.raises(ValueError, match="height and width are missing"):
            _ = data.has_area


def test_data_without_annotations_is_kept(cache, tmp_path):
    file = write_json(tmp_path / "empty.json", coco(annotations=[]))
    for _ in range(2):
        assert_same(indexed_coco(file, min_bytes=0), read_coco(file))


def test_a_subset_of_mapped_data_is_that_of_read_data(read, file):
    read()
    assert_same(read().subset([1, 0]), read_coco(file).subset([1, 0]))
    assert list(read().file_names[1:]) == ["2.png"]


def test_a_changed_file_is_read_again(read, file, cache):
    read()
    write_json(file, coco(annotations=[annotation(5)]))
    assert read().ids.tolist() == [5]
    assert read().ids.tolist() == [5]
    assert len(list(cache.glob("*.index"))) == 1


def test_a_change_that_keeps_the_size_is_noticed(read, file):
    read()
    content = file.read_bytes()
    file.write_bytes(content.replace(b'"id": 5', b'"id": 8'))
    os.utime(file, ns=(0, 0))
    assert 8 in read().ids


def test_a_copy_with_another_time_needs_no_new_index(read, file, cache, capsys):
    read()
    before = index_of(cache).stat().st_mtime_ns
    capsys.readouterr()
    os.utime(file, ns=(0, 0))
    assert read().mask(0).sum() == 16  # masks are read although the time differs from that of the index
    assert index_of(cache).stat().st_mtime_ns == before
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: b"something else",
        lambda content: content[: len(content) // 2],
        lambda content: content + b"\0",
        lambda content: content.replace(b'"format":1', b'"format":9'),
        lambda content: content.replace(b'"about"', b'"aboot"'),
        lambda content: content.replace(b"'<f4'", b"'|O4'"),
    ],
)
def test_a_broken_or_foreign_index_is_made_anew_with_one_line(damage, read, file, cache, capsys):
    read()
    index = index_of(cache)
    good = index.read_bytes()
    index.write_bytes(damage(good))
    capsys.readouterr()
    assert_same(read(), read_coco(file))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert f"{index}: not usable" in lines[0]
    assert "read, and kept as" in lines[1]
    assert index.read_bytes() == good


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("labels", lambda array: array + 2, "labels: expected numbers from 0 to 1"),
        ("labels", lambda array: array.astype(np.int64), "labels: expected int32 (3,), got int64 (3,)"),
        ("boxes", lambda array: array[:, :3], "boxes: expected float32 (3, 4)"),
        ("offsets", lambda array: array[::-1], "offsets: expected ascending numbers from 0 to 3"),
        ("heights", lambda array: array * 0, "heights: expected numbers from 1"),
        ("presence_images", lambda array: array + 10**6, "presence_images: expected numbers from 0 to 1"),
        ("mask_starts", lambda array: array - 10**6, "mask_starts: expected numbers from 0"),
        ("file_name_offsets", lambda array: array + 1, "file_name_offsets: expected ascending numbers"),
        ("category_text", lambda array: array | 0x80, "utf-8"),
    ],
)
def test_arrays_that_do_not_fit_together_are_refused(name, change, message, read, file, cache, capsys):
    read()
    about, arrays = map_arrays(index_of(cache))
    write_arrays(index_of(cache), about, arrays | {name: change(arrays[name])})
    capsys.readouterr()
    assert_same(read(), read_coco(file))
    assert message in capsys.readouterr().err


def test_a_name_that_leaves_the_folder_of_images_is_refused(read, cache):
    read()
    about, arrays = map_arrays(index_of(cache))
    text = np.frombuffer(b"../.p" + b"2.png", np.uint8)
    write_arrays(index_of(cache), about, arrays | {"file_name_text": text})
    names = read().file_names
    assert names[1] == "2.png"
    with pytest.raises(ValueError, match="expected a path inside the folder of images"):
        names[0]


def test_a_cache_that_cannot_be_written_is_no_obstacle(file, tmp_path, monkeypatch, capsys):
    (tmp_path / "taken").write_text("a file where the folder should be")
    monkeypatch.setenv("EQUIGRAD_CACHE", str(tmp_path / "taken"))
    assert_same(indexed_coco(file, min_bytes=0), read_coco(file))
    assert "EQUIGRAD_CACHE names another folder" in capsys.readouterr().err


def test_small_files_and_an_empty_setting_leave_no_index(file, cache, monkeypatch):
    assert_same(indexed_coco(file), read_coco(file))
    assert not cache.exists()
    monkeypatch.setenv("EQUIGRAD_CACHE", "")
    assert_same(indexed_coco(file, min_bytes=0), read_coco(file))


def test_a_broken_annotation_file_gets_its_own_message(tmp_path, cache):
    file = write_json(tmp_path / "a.json", "{")
    with pytest.raises(ValueError, match=r"a\.json: not a complete JSON file"):
        indexed_coco(file, min_bytes=0)
    with pytest.raises(FileNotFoundError, match=r"b\.json: no such annotation file"):
        indexed_coco(tmp_path / "b.json", min_bytes=0)


def read_as_rank(rank, file, cache, printed):
    from quick_processes import behave_as_a_program

    behave_as_a_program(printed)
    os.environ["EQUIGRAD_CACHE"] = str(cache)
    assert len(indexed_coco(file, min_bytes=0)) == 300


def test_one_of_several_processes_makes_the_index_and_the_others_wait(tmp_path):
    images = [image(index) for index in range(300)]
    file = write_json(tmp_path / "a.json", coco(images, [annotation(index, index % 300) for index in range(20_000)]))
    run_ranks(read_as_rank, file, tmp_path / "cache", tmp_path / "printed", world_size=3)
    assert (tmp_path / "printed").read_text().count("read, and kept as") == 1
