import numpy as np
import pytest

from equigrad.data.images.folders import empty_folders, folder_with, image_files, image_paths
from equigrad.data.images.stores import open_store
from images_on_disk import write_images, zip_folder


@pytest.fixture(params=["folder", "archive"])
def store(request, tmp_path):
    """`photos/cat` and `photos/dog` with images, below a folder of the store."""
    write_images(tmp_path / "data" / "photos", {"cat": 2, "dog": 1})
    (tmp_path / "data" / "photos" / "notes.txt").write_text("no image")
    return open_store(
        tmp_path / "data" if request.param == "folder" else zip_folder(tmp_path / "data", tmp_path / "a.zip")
    )


def test_image_files_are_listed_and_others_are_not(store):
    assert image_paths(store) == ["photos/cat/0.png", "photos/cat/1.png", "photos/dog/0.png"]


def test_hidden_files_and_those_of_operating_systems_are_no_images(tmp_path):
    write_images(tmp_path / "cat", {".": 1, ".thumbnails": 1, ".ipynb_checkpoints/deeper": 1, "@eaDir": 1})
    write_images(tmp_path, {"__MACOSX/cat": 1, ".hidden": 1})
    (tmp_path / "cat" / "._0.png").write_bytes(b"\0\5\x16\7")  # macOS puts one beside each file on foreign drives
    (tmp_path / "cat" / "folder.png").mkdir()
    assert image_files(tmp_path) == [tmp_path / "cat" / "0.png"]
    for store in (open_store(tmp_path), open_store(zip_folder(tmp_path, tmp_path / "a.zip"))):
        assert image_paths(store) == ["cat/0.png"]
        assert empty_folders(store) == []


def test_a_file_is_itself_whatever_it_is_called(tmp_path):
    write_images(tmp_path, {"cat": 1})
    assert image_files(tmp_path / "cat") == [tmp_path / "cat" / "0.png"]
    assert image_files(tmp_path / "gone.txt") == [tmp_path / "gone.txt"]


def test_missing_images_are_found_in_the_folder_below_that_has_all_of_them(store):
    assert folder_with(store, ["0.png"]) == "photos/cat"
    assert folder_with(store, ["dog/0.png", "cat/1.png"]) == "photos"
    assert folder_with(store, ["0.png", "2.png"]) is None


def test_folders_without_images_are_found(tmp_path):
    write_images(tmp_path / "photos", {"cat": 1})
    for name in ("dog", "eel/deeper", ".hidden"):
        (tmp_path / "photos" / name).mkdir(parents=True)
    assert empty_folders(open_store(tmp_path / "photos")) == ["dog", "eel"]


def test_arrays_have_no_folders(tmp_path):
    np.savez(tmp_path / "a.npz", images=np.zeros((1, 4, 4, 3), np.uint8))
    store = open_store(tmp_path / "a.npz")
    assert (empty_folders(store), folder_with(store, ["0.png"])) == ([], None)
    with pytest.raises(ValueError, match=r"expected a folder or a .zip file"):
        image_paths(store)
