import numpy as np
import pytest

from equigrad.commands.datasets.subset_files import check_target, write_subset
from equigrad.data.images.readers import read_images
from images_on_disk import write_images, write_list


@pytest.fixture
def photos(tmp_path):
    """Three photographs of two categories."""
    write_images(tmp_path / "photos", {"cat": 2, "dog": 1})
    return read_images(tmp_path / "photos")


@pytest.fixture
def arrays(tmp_path):
    """Three images of two categories in an array, each of one grey."""
    pixels = np.full((3, 4, 4, 3), [[[[7]]], [[[8]]], [[[9]]]], dtype=np.uint8)
    np.savez(tmp_path / "arrays.npz", images=pixels, labels=[0, 0, 1])
    return read_images(tmp_path / "arrays.npz")


def test_a_list_is_written_with_the_names_of_its_categories_beside_it(photos, tmp_path):
    file = tmp_path / "new" / "lt.txt"
    check_target(photos, file, force=False)
    write_subset(photos.subset([0, 2]), file)
    assert file.read_text() == "cat/0.png 0\ndog/0.png 1\n"
    assert (tmp_path / "new" / "classes.csv").read_text() == "label,name\n0,cat\n1,dog\n"
    assert read_images(file, tmp_path / "photos").class_names == ("cat", "dog")


def test_categories_that_are_only_numbered_get_no_file_of_names(tmp_path):
    images = read_images(write_list(tmp_path / "all.txt", write_images(tmp_path, {"a": 1, "b": 1})))
    write_subset(images, tmp_path / "new" / "lt.txt")
    assert [file.name for file in (tmp_path / "new").iterdir()] == ["lt.txt"]


def test_arrays_are_written_with_the_pixels_of_the_chosen(arrays, tmp_path):
    write_subset(arrays.subset([2, 0]), tmp_path / "lt.npz")
    with np.load(tmp_path / "lt.npz", allow_pickle=False) as stored:
        assert stored["images"][:, 0, 0, 0].tolist() == [9, 7]
        assert stored["images"].shape == (2, 4, 4, 3)
        assert stored["labels"].tolist() == [1, 0]


def test_a_file_that_exists_is_refused_unless_forced(photos, tmp_path):
    file = tmp_path / "lt.txt"
    file.write_text("mine")
    with pytest.raises(FileExistsError, match=r"lt\.txt exists; --force replaces it"):
        check_target(photos, file, force=False)
    check_target(photos, file, force=True)
    assert file.read_text() == "mine"  # nothing is written by the check


def test_names_of_other_categories_are_refused_unless_forced_and_the_same_are_welcome(photos, tmp_path):
    names = tmp_path / "classes.csv"
    names.write_text("label,name\n0,ant\n1,bee\n")
    with pytest.raises(FileExistsError, match=r"classes\.csv has other categories, and would name those of lt\.txt"):
        check_target(photos, tmp_path / "lt.txt", force=False)
    check_target(photos, tmp_path / "lt.txt", force=True)
    write_subset(photos, tmp_path / "lt.txt")
    assert names.read_text() == "label,name\n0,cat\n1,dog\n"
    check_target(photos, tmp_path / "another.txt", force=False)


def test_arrays_are_not_bothered_by_names_beside_them(arrays, tmp_path):
    (tmp_path / "classes.csv").write_text("label,name\n0,ant\n1,bee\n")
    check_target(arrays, tmp_path / "lt.npz", force=False)
    with pytest.raises(FileExistsError, match="other categories"):
        check_target(arrays, tmp_path / "lt.txt", force=False)


@pytest.mark.parametrize("force", [False, True])
def test_images_in_files_do_not_become_arrays(photos, force, tmp_path):
    with pytest.raises(ValueError, match="images in files are listed; expected the name of a list"):
        check_target(photos, tmp_path / "lt.npz", force=force)
