import json
import zipfile
from pathlib import Path

import pytest

from equigrad.commands.prediction.inputs import ImageIds, Input, check_new, inputs_of, pictures_of
from images_on_disk import write_images, zip_folder
from small_detection_data import write_small_data


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """`one` and `two`, folders of images with the same names."""
    for folder in ("one", "two"):
        write_images(tmp_path / folder, {"a": 1, "b": 1})
    monkeypatch.chdir(tmp_path)
    return tmp_path


def names(*given):
    return [str(one.name) for one in inputs_of([Path(one) for one in given])]


def pictures(*given):
    found = pictures_of(inputs_of([Path(one) for one in given]), Path("out"))
    return [file.relative_to("out").as_posix() for file in found]


@pytest.mark.usefixtures("photos")
def test_names_are_paths_below_the_folder_that_was_given():
    assert names("one") == ["a/0.png", "b/0.png"]
    assert names("one/a", "one/a/../a/0.png") == ["0.png"]
    assert names("clip.mp4", "one") == ["clip.mp4", "a/0.png", "b/0.png"]


@pytest.mark.usefixtures("photos")
def test_equal_names_in_several_folders_begin_at_the_common_one():
    assert names("one", "two") == ["one/a/0.png", "one/b/0.png", "two/a/0.png", "two/b/0.png"]
    assert names("one/a/0.png", "one/b/0.png") == ["a/0.png", "b/0.png"]


@pytest.mark.usefixtures("photos")
def test_pictures_lie_as_their_images_do_and_videos_stay_videos():
    assert pictures("two") == ["a/0.png", "b/0.png"]
    assert pictures("street.jpg", "clip.AVI") == ["street.png", "clip.mp4"]


@pytest.mark.usefixtures("photos")
def test_images_of_an_archive_are_named_as_they_lie_in_it(photos):
    zip_folder(photos / "one", photos / "one.zip")
    assert names("one.zip") == ["a/0.png", "b/0.png"]
    assert names("one.zip/a", "one.zip/a/0.png") == ["0.png"]
    assert names("one.zip", "two") == ["one.zip/a/0.png", "one.zip/b/0.png", "two/a/0.png", "two/b/0.png"]
    assert pictures("one.zip") == ["a/0.png", "b/0.png"]


@pytest.mark.parametrize("name", ["../evil.png", "/etc/evil.png", "a/../../evil.png", "C:\\evil.png", "a\nb.png"])
def test_a_name_in_an_archive_that_leaves_it_is_refused(name, tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("good.png", b"")
        archive.writestr(name, b"")
    with pytest.raises(ValueError, match=r"a\.zip: expected a path inside the folder of images, got"):
        inputs_of([tmp_path / "a.zip"])


def test_an_archive_without_images_or_with_a_video_says_so(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("clip.mp4", b"")
    with pytest.raises(ValueError, match=r"a\.zip: expected images in the archive, found none \(\.jpg"):
        inputs_of([tmp_path / "a.zip"])
    with pytest.raises(ValueError, match=r"a\.zip/clip\.mp4: a video in an archive is not read; unpack it"):
        inputs_of([tmp_path / "a.zip" / "clip.mp4"])


def test_if_images_differ_only_in_their_suffix_pictures_keep_it():
    assert pictures("street.jpg", "street.webp", "other.jpg") == ["street.jpg.png", "street.webp.png", "other.jpg.png"]


def test_a_picture_never_takes_the_place_of_an_image_that_is_read(photos):
    folder = photos / "one" / "a"
    (found,) = pictures_of(inputs_of([folder]), folder)
    assert found.name == "0.png.png"
    (folder / "0.png.png").write_bytes((folder / "0.png").read_bytes())
    with pytest.raises(ValueError, match=r"0\.png\.png: the picture would overwrite an input image"):
        pictures_of(inputs_of([folder]), folder)


def test_links_to_one_image_have_a_picture_each(photos):
    (photos / "one" / "link.png").symlink_to(photos / "one" / "a" / "0.png")
    assert pictures("one") == ["a/0.png", "b/0.png", "link.png"]


def test_files_that_exist_are_named(tmp_path):
    for name in "ab":
        (tmp_path / name).touch()
    check_new([tmp_path / "c"], force=False)
    check_new([tmp_path / "a"], force=True)
    with pytest.raises(FileExistsError, match="a and 1 more: exists already"):
        check_new([tmp_path / "c", tmp_path / "a", tmp_path / "b"], force=False)


def test_ids_are_names_without_annotations():
    assert ImageIds(None).of(Input(Path("x/b/0.png"), Path("b/0.png"))) == "b/0.png"


def test_ids_are_those_of_the_annotations_by_path_or_by_the_name_of_the_file(tmp_path):
    file = write_small_data(tmp_path) / "test.json"
    content = json.loads(file.read_text())
    for number, record in enumerate(content["images"]):
        record["id"], record["file_name"] = 100 + number, f"{number // 2}/{number}.png"
    content["annotations"] = []
    content["images"][0]["file_name"] = "1/2.jpg"
    content["images"][1]["file_name"] = "2/2.jpg"
    file.write_text(json.dumps(content))
    ids = ImageIds(file)
    assert ids.of(Input(Path("images/1/2.jpg"), Path("1/2.jpg"))) == 100
    assert ids.of(Input(Path("images/2/2.jpg"), Path("2/2.jpg"))) == 101
    assert ids.of(Input(Path("1/3.png"), Path("3.png"))) == 103
    with pytest.raises(ValueError, match=r"test\.json: images: none has the file_name 2\.jpg"):
        ids.of(Input(Path("2.jpg"), Path("2.jpg")))
