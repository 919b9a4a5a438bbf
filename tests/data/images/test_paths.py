import os

import pytest

from equigrad.data.images.paths import FOLLOW_LINKS, inside, linked_inside


@pytest.fixture
def folder(tmp_path):
    """`root` with a file of its own and links in and out of it, and a secret beside it."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "a.png").touch()
    (tmp_path / "root" / "real").mkdir(parents=True)
    (tmp_path / "root" / "real" / "a.png").touch()
    links = {"file.png": "../secret/a.png", "folder": "../secret", "within.png": "real/a.png", "loop": "loop"}
    for name, target in links.items():
        os.symlink(target, tmp_path / "root" / name)
    os.symlink("root", tmp_path / "root link")
    return tmp_path


@pytest.fixture(autouse=True)
def _strict(monkeypatch):
    monkeypatch.setenv(FOLLOW_LINKS, "0")


@pytest.mark.parametrize("path", ["file.png", "folder/a.png", "../secret/a.png", "real/../../secret/a.png"])
def test_a_link_or_path_that_leaves_the_folder_is_refused(folder, path, monkeypatch):
    file = folder / "root" / path
    with pytest.raises(OSError, match=f"leaves {folder / 'root'}, and {FOLLOW_LINKS}=0 forbids that"):
        linked_inside(file, folder / "root")
    monkeypatch.delenv(FOLLOW_LINKS)
    assert linked_inside(file, folder / "root") == file


@pytest.mark.parametrize("path", ["real/a.png", "within.png", "real/nothing.png", "loop"])
def test_files_and_links_that_stay_inside_are_accepted(folder, path):
    for root in (folder / "root", folder / "root link"):
        assert linked_inside(root / path, root) == root / path


def test_a_file_may_lie_in_any_of_several_folders(folder):
    file = folder / "root" / "file.png"
    assert linked_inside(file, folder / "root", folder / "secret") == file


def test_a_folder_whose_name_only_begins_like_the_root_is_outside(folder):
    (folder / "root2").mkdir()
    with pytest.raises(OSError, match="leaves"):
        linked_inside(folder / "root2" / "a.png", folder / "root")


@pytest.mark.parametrize("path", ["a\nb.png", "a\x1b[2J.png", "a\0.png"])
def test_a_path_with_control_characters_is_refused_in_one_line(path):
    with pytest.raises(ValueError, match=r"^field: expected a path inside the folder of images, got 'a\\[^\n]*$"):
        inside(path, "field")
