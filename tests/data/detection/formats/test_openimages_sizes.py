import zipfile

import numpy as np
import pytest
from PIL import Image

from equigrad.data.detection.formats.openimages_sizes import measure_image_sizes, read_image_sizes, write_image_sizes

NAMES = np.array(["a", "b"], dtype="S32")


@pytest.fixture
def folder(tmp_path):
    for name, size in (("a", (30, 20)), ("b", (7, 9))):
        Image.new("RGB", size).save(tmp_path / f"{name}.jpg")
    return tmp_path


def test_sizes_are_measured_in_folders_and_archives(folder):
    with zipfile.ZipFile(folder / "images.zip", "w") as archive:
        for name in ("a.jpg", "b.jpg"):
            archive.write(folder / name, name)
    for root in (folder, folder / "images.zip"):
        assert measure_image_sizes(root, ["a.jpg", "b.jpg"]).tolist() == [[30, 20], [7, 9]]


def test_measured_sizes_are_written_and_read_again(folder, tmp_path):
    sizes = measure_image_sizes(folder, ["a.jpg", "b.jpg"])
    file = write_image_sizes(tmp_path / "sizes.csv", ["a", "b"], sizes)
    assert read_image_sizes(file, NAMES).tolist() == sizes.tolist()
    assert read_image_sizes(file, NAMES[1:]).tolist() == [[7, 9]]


def test_rows_may_be_in_any_order_and_name_other_images(tmp_path):
    (tmp_path / "sizes.csv").write_text("image_id,width,height\nzz,1,1\nb,7,9\n0,2,2\na,30,20\n")
    assert read_image_sizes(tmp_path / "sizes.csv", NAMES).tolist() == [[30, 20], [7, 9]]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("a,30,20\n", "there is no row for the image b"),
        ("a,30,20\nb,0,9\n", "line 3: Width must be a whole number of pixels, got '0'"),
        ("a,30,20\nb,7,2.5\n", "line 3: Height must be a whole number of pixels, got '2.5'"),
        ("a,30,nan\n", "line 2: Height must be a whole number of pixels"),
        ("a,30,1e12\n", "line 2: Height must be a whole number of pixels"),
    ],
)
def test_wrong_sizes_are_refused(tmp_path, rows, message):
    (tmp_path / "sizes.csv").write_text("ImageID,Width,Height\n" + rows)
    with pytest.raises(ValueError, match=rf"sizes\.csv.*{message}"):
        read_image_sizes(tmp_path / "sizes.csv", NAMES)


def test_missing_and_broken_images_and_files_are_named(folder):
    with pytest.raises(FileNotFoundError, match=r"c\.jpg: no such image"):
        measure_image_sizes(folder, ["a.jpg", "c.jpg"])
    (folder / "c.jpg").write_bytes(b"no image")
    with pytest.raises(OSError, match=r"c\.jpg: cannot read the image"):
        measure_image_sizes(folder, ["c.jpg"])
    with pytest.raises(FileNotFoundError, match=r"none\.csv: no such file; expected a CSV file with the columns"):
        read_image_sizes(folder / "none.csv", NAMES)
