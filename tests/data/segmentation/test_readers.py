import shutil

import numpy as np
import pytest

from equigrad import IGNORE
from equigrad.data.frequency import load_frequencies
from equigrad.data.glyphs.files import write_segmentation
from equigrad.data.glyphs.layout import GlyphData
from equigrad.data.segmentation.category_pixels import count_pixels
from equigrad.data.segmentation.readers import (
    read_ade20k,
    read_camvid,
    read_label_folders,
    read_scene_parsing,
)
from hostile_files import refusal
from images_on_disk import zip_folder
from segmentation_on_disk import NAMES, write_pair, write_set
from shared_data import shared_folder

MAPS = {"a": [[0, 1]], "tunnel/b": [[2, 255]]}


def read(folder, **settings):
    return read_label_folders("images", "labels", folder / "classes.txt", **{"root": folder, **settings})


def test_images_find_their_label_maps_in_folders_and_subfolders(tmp_path):
    data = read(write_set(tmp_path, MAPS))
    assert data.names == ("a", "tunnel/b")
    assert data.paths == ("images/a.png", "images/tunnel/b.png")
    assert data.class_names == tuple(NAMES)
    assert data.read_labels(1).tolist() == [[2, IGNORE]]


def test_an_archive_reads_like_its_folder(tmp_path):
    folder = write_set(tmp_path / "set", MAPS)
    packed = read(folder, root=zip_folder(folder, tmp_path / "set.zip"))
    assert packed.paths == read(folder).paths
    assert packed.read_labels(0).tolist() == [[0, 1]]
    assert packed.read_image(0).size == (2, 1)


def test_folders_may_lie_anywhere(tmp_path):
    folder = write_set(tmp_path, MAPS)
    data = read_label_folders(folder / "images", folder / "labels", NAMES)
    assert data.read_labels(0).tolist() == [[0, 1]]


def test_a_csv_may_have_gaps_and_any_order(tmp_path):
    folder = write_set(tmp_path, {"a": [[31, 4, 0]]})
    (folder / "classes.csv").write_text("ID,pixels,Name\n31,9,Wall\n4,2,Building\n")
    data = read_label_folders("images", "labels", folder / "classes.csv", root=folder, ignored=(0, 255))
    assert data.class_names == ("Wall", "Building")
    assert data.read_labels(0).tolist() == [[0, 1, IGNORE]]


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("c.csv", "id,colour\n0,red\n", "columns id and name"),
        ("c.csv", "id,name\n0,a\nx,b\n", "line 3: expected a whole number as id"),
        ("c.csv", "id,name\n0,a\n0,b\n", "value 0 is used for two categories"),
        ("c.txt", "a\n\nb\n", "every line"),
        ("c.txt", "", "every line"),
    ],
)
def test_wrong_files_of_names_are_refused(tmp_path, name, text, problem):
    folder = write_set(tmp_path, MAPS)
    (folder / name).write_text(text)
    with pytest.raises(ValueError, match=problem):
        read_label_folders("images", "labels", folder / name, root=folder)


def test_a_missing_file_of_names_is_named(tmp_path):
    folder = write_set(tmp_path, MAPS)
    with pytest.raises(FileNotFoundError, match=r"gone.txt: .* names of the categories"):
        read_label_folders("images", "labels", folder / "gone.txt", root=folder)


def test_an_image_without_label_map_is_named(tmp_path):
    folder = write_set(tmp_path, {**MAPS, "c": [[0]]})
    (folder / "labels/a.png").unlink()
    (folder / "labels/c.png").unlink()
    with pytest.raises(ValueError, match=r"images/a.png: there is no label map with this name, nor for 1 more"):
        read(folder)


def test_a_label_map_without_image_is_named(tmp_path):
    folder = write_set(tmp_path, MAPS)
    (folder / "images/a.png").unlink()
    with pytest.raises(ValueError, match=r"labels/a.png: there is no image with this name; an image and its label"):
        read(folder)


def test_two_images_of_one_name_are_refused(tmp_path):
    folder = write_set(tmp_path, MAPS)
    shutil.copy(folder / "images/a.png", folder / "images/a.jpg")
    with pytest.raises(ValueError, match=r"images: a.png has the same name as another image"):
        read(folder)


def test_folders_without_images_are_named(tmp_path):
    folder = write_set(tmp_path, MAPS)
    with pytest.raises(ValueError, match=r"nothing: no label maps there"):
        read_label_folders("images", "nothing", NAMES, root=folder)


def test_files_of_the_desktop_are_left_out(tmp_path):
    folder = write_set(tmp_path, MAPS)
    (folder / "images/._a.jpg").write_bytes(b"")
    (folder / "images/notes.txt").write_text("")
    assert len(read(folder)) == 2


def scene_parsing(folder, label_maps, split="training"):
    for name, labels in label_maps.items():
        write_pair(folder, name, labels, images=f"images/{split}", maps=f"annotations/{split}")
    return folder


@pytest.mark.parametrize("inner", ["", "ADEChallengeData2016"])
@pytest.mark.parametrize("packed", [False, True])
def test_ade20k_is_found_in_folder_and_archive_with_and_without_its_own_folder(tmp_path, inner, packed):
    folder = tmp_path / "data"
    scene_parsing(folder / inner, {"ADE_train_00000001": [[0, 1, 150]]})
    data = read_ade20k(zip_folder(folder, tmp_path / "data.zip") if packed else folder, "training")
    assert data.names == ("ADE_train_00000001",)
    assert data.read_labels(0).tolist() == [[IGNORE, 0, 149]]
    assert data.class_names[149] == "flag"


def test_ade20k_has_no_value_above_150(tmp_path):
    data = read_ade20k(scene_parsing(tmp_path, {"ADE_train_00000001": [[151]]}), "training")
    with pytest.raises(ValueError, match=r"values like 151; expected 1\.\.150 or 0 \(ignored\)"):
        data.read_labels(0)


def test_a_folder_of_another_layout_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"expected images/validation/ in it"):
        read_ade20k(tmp_path, "validation")


@pytest.mark.parametrize("label_background", [False, True])
def test_glyph_scenes_are_read_with_the_counts_they_were_written_with(tmp_path, label_background):
    folder = write_segmentation(
        tmp_path / "glyphs", GlyphData([6, 3, 2], eval_count=2), label_background=label_background
    )
    data = read_scene_parsing(folder, "training")
    rows = np.genfromtxt(folder / "objectInfo.csv", delimiter=",", names=True, dtype=None, encoding="utf-8")
    assert data.class_names == tuple(rows["Name"])
    counted = count_pixels(data)
    assert counted.image_counts.tolist() == rows["Train"].tolist()
    assert bool(counted.ignored.any()) != label_background


@pytest.mark.shared_data
def test_the_samples_of_ade20k_show_what_they_show(tmp_path):
    samples = shared_folder("ade20k_samples")
    for kind, suffix in (("images", "jpg"), ("annotations", "png")):
        (tmp_path / kind / "validation").mkdir(parents=True)
        for file in samples.glob(f"*.{suffix}"):
            shutil.copy(file, tmp_path / kind / "validation")
    data = read_ade20k(tmp_path, "validation")
    assert data.class_names == load_frequencies("ade20k").names
    shown = []
    for present in count_pixels(data).presence:
        shown.append({data.class_names[category].split(";")[0] for category in np.flatnonzero(present)})
    assert shown[0] == {"wall", "building", "sky", "tree", "road", "grass", "plant"}
    assert shown[1] == {"wall", "building", "sky", "tree", "plant", "earth"}
    assert {"road", "sky", "sidewalk", "car", "bus", "van", "escalator", "streetlight", "signboard"} <= shown[2]
    for index, size in enumerate([(683, 512), (500, 364), (400, 300)]):
        assert data.read_image(index).size == size == data.read_labels(index).shape[::-1]


@pytest.mark.shared_data
@pytest.mark.parametrize(("split", "size"), [("train", 421), ("val", 112), ("test", 168)])
def test_camvid_has_31_categories_in_three_parts(split, size):
    data = read_camvid(shared_folder("camvid"), split)
    assert (len(data), data.num_classes) == (size, 31)
    assert (data.class_names[29], data.class_names[30]) == (
        "VegetationMisc",
        "Wall",
    )  # no value 30: Wall is stored as 31
    labels = data.read_labels(0)
    assert labels.shape == (360, 480)
    assert set(np.unique(labels)) <= {IGNORE, *range(31)}


def test_sixty_thousand_names_are_read_at_once(tmp_path):
    (tmp_path / "names.txt").write_text("".join(f"name {number}\n" for number in range(60_000)))
    text = refusal(read_label_folders, "images", "labels", tmp_path / "names.txt")
    assert (
        text
        == f"{tmp_path / 'names.txt'}: value 255 is used for two categories, or for a category and for ignored pixels"
    )


def test_a_link_out_of_a_folder_of_label_maps_is_not_followed_where_that_is_forbidden(tmp_path, monkeypatch):
    monkeypatch.setenv("EQUIGRAD_FOLLOW_LINKS", "0")
    folder = write_set(tmp_path / "set", MAPS)
    (folder / "labels" / "a.png").rename(tmp_path / "secret.png")
    (folder / "labels" / "a.png").symlink_to(tmp_path / "secret.png")
    data = read(folder)
    with pytest.raises(OSError, match=r"labels/a\.png: leaves"):
        data.read_labels(data.names.index("a"))
