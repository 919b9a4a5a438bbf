import csv
import hashlib
import multiprocessing
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from equigrad.data.frequency import exponential_profile
from equigrad.data.glyphs.files import write_classification, write_detection, write_segmentation
from equigrad.data.glyphs.layout import GlyphData, SplitScenes, glyph_images
from equigrad.data.glyphs.scenes import LARGE_GLYPHS, PORTRAIT
from quick_processes import quick_context

COUNTS = exponential_profile(8, 20, 10)
DATA = GlyphData(COUNTS, eval_count=3, num_fonts=2)
WRITERS = [write_classification, write_detection, write_segmentation]


def digests(folder):
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    return {str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def read_csv(file):
    with file.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.mark.parametrize("write", WRITERS)
def test_the_same_settings_give_the_same_bytes(tmp_path, write):
    assert digests(write(tmp_path / "first", DATA)) == digests(write(tmp_path / "second", DATA))


def test_the_number_of_workers_does_not_change_a_byte(tmp_path, monkeypatch):
    context = quick_context()
    monkeypatch.setattr(multiprocessing, "get_context", lambda _: context)
    alone = write_detection(tmp_path / "alone", replace(DATA, eval_count=0))
    together = write_detection(tmp_path / "together", replace(DATA, eval_count=0), num_workers=2)
    assert digests(alone) == digests(together)


@pytest.mark.parametrize("write", WRITERS)
def test_writing_again_does_nothing_and_other_settings_are_refused(tmp_path, write):
    folder = write(tmp_path / "data", DATA)
    before = {file: file.stat().st_mtime_ns for file in folder.rglob("*")}
    assert write(folder, DATA) == folder
    assert {file: file.stat().st_mtime_ns for file in folder.rglob("*")} == before
    with pytest.raises(FileExistsError, match="another data"):
        write(folder, replace(DATA, seed=1))
    with pytest.raises(FileExistsError, match="another style"):
        write(folder, DATA, style=PORTRAIT.at_difficulty(1))


def test_the_image_list_has_every_category_as_often_as_asked(tmp_path):
    folder = write_classification(tmp_path / "data", DATA)
    for split, counts in (("train", COUNTS.tolist()), ("test", [3] * 8)):
        lines = [line.rsplit(" ", 1) for line in (folder / f"{split}.txt").read_text().splitlines()]
        assert np.bincount([int(label) for _, label in lines]).tolist() == counts
        assert all((folder / path).is_file() for path, _ in lines)
    rows = read_csv(folder / "classes.csv")
    assert [int(row["train"]) for row in rows] == COUNTS.tolist()
    assert [row["name"] for row in rows] == list(DATA.glyphs().names)


def test_sorted_category_folders_are_in_label_order(tmp_path):
    folder = write_classification(tmp_path / "data", DATA)
    categories = sorted(path.name for path in (folder / "train").iterdir())
    for line in (folder / "train.txt").read_text().splitlines():
        path, label = line.rsplit(" ", 1)
        assert categories.index(path.split("/")[1]) == int(label)


def test_listed_files_hold_the_images_in_memory(tmp_path):
    folder = write_classification(tmp_path / "data", DATA)
    images, labels = glyph_images(DATA, "train")
    for index, line in enumerate((folder / "train.txt").read_text().splitlines()):
        path, label = line.rsplit(" ", 1)
        assert int(label) == labels[index]
        assert np.array_equal(np.asarray(Image.open(folder / path)), images[index])


def test_jpeg_files_are_jpeg(tmp_path):
    folder = write_classification(tmp_path / "data", replace(DATA, image_format="jpg"))
    path = (folder / "train.txt").read_text().split()[0]
    assert Image.open(folder / path).format == "JPEG"


def test_label_maps_hold_the_drawn_categories_from_1(tmp_path):
    folder = write_segmentation(tmp_path / "data", DATA)
    scenes = SplitScenes(DATA.glyphs(), DATA.scenes("train"), LARGE_GLYPHS, "train", seed=0)
    maps = sorted((folder / "annotations" / "training").iterdir())
    assert len(maps) == len(scenes)
    for index, file in enumerate(maps):
        with Image.open(file) as picture:
            assert picture.mode == "L"
            labels = np.asarray(picture)
        assert np.array_equal(labels, scenes[index].categories() + 1)
        assert set(np.unique(labels)) == {0} | {label + 1 for label in scenes.labels[index]}


def test_every_image_has_a_label_map_of_its_size(tmp_path):
    folder = write_segmentation(tmp_path / "data", DATA)
    for split in ("training", "validation"):
        images = sorted((folder / "images" / split).iterdir())
        maps = sorted((folder / "annotations" / split).iterdir())
        assert [file.stem for file in images] == [file.stem for file in maps]
        assert all(Image.open(i).size == Image.open(m).size for i, m in zip(images, maps, strict=True))


def test_the_background_can_be_a_category_of_its_own(tmp_path):
    plain = write_segmentation(tmp_path / "plain", DATA)
    labelled = write_segmentation(tmp_path / "labelled", DATA, label_background=True)
    for file in sorted((plain / "annotations" / "training").iterdir()):
        other = labelled / "annotations" / "training" / file.name
        assert np.array_equal(np.asarray(Image.open(other)), np.asarray(Image.open(file)) + 1)
    assert read_csv(labelled / "objectInfo.csv")[0]["Name"] == "background"


def test_object_info_counts_the_pixels_and_images_of_the_maps(tmp_path):
    folder = write_segmentation(tmp_path / "data", DATA)
    maps = [np.asarray(Image.open(file)) for file in (folder / "annotations" / "training").iterdir()]
    pixels = np.bincount(np.concatenate([labels.ravel() for labels in maps]), minlength=9)[1:]
    rows = read_csv(folder / "objectInfo.csv")
    assert [int(row["Idx"]) for row in rows] == list(range(1, 9))
    assert np.allclose([float(row["Ratio"]) for row in rows], pixels / pixels.sum(), atol=1e-6)
    assert [int(row["Train"]) for row in rows] == [sum((labels == c).any() for labels in maps) for c in range(1, 9)]


def test_label_maps_have_16_bits_above_255_categories(tmp_path):
    data = GlyphData(np.ones(300, dtype=int), eval_count=0, glyphs_per_image=(6, 6), num_fonts=1)
    folder = write_segmentation(tmp_path / "data", data)
    maps = [np.asarray(Image.open(file)) for file in (folder / "annotations" / "training").iterdir()]
    assert set(np.unique(np.stack(maps))) == set(range(301))
