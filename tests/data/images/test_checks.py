import shutil

import pytest

from equigrad.data.images.checks import check_classification, check_images, check_overlap, check_several_categories
from equigrad.data.images.readers import read_image_folder, read_image_list
from images_on_disk import write_images, write_list, zip_folder


@pytest.fixture
def train_paths(tmp_path):
    return write_images(tmp_path, {"cat": 3, "dog": 2})


@pytest.fixture
def held_out_paths(tmp_path):
    return {
        name.split("/")[1]: paths
        for name, paths in write_images(tmp_path, {"test/cat": 1, "test/dog": 1}, seed=1).items()
    }


def read(tmp_path, name, paths, **settings):
    return read_image_list(write_list(tmp_path / name, paths), tmp_path, **settings)


def only(findings, kind, severity="error"):
    (finding,) = findings
    assert kind in finding.kind
    assert finding.severity == severity
    return finding


def test_good_data_has_no_findings(tmp_path, train_paths, held_out_paths):
    train, test = read(tmp_path, "train.txt", train_paths), read(tmp_path, "test.txt", held_out_paths)
    assert check_classification(train, test, decode=True) == []


def test_missing_files_are_counted(tmp_path, train_paths):
    images = read(tmp_path, "train.txt", train_paths)
    (tmp_path / "cat/1.png").unlink()
    (tmp_path / "dog/0.png").unlink()
    finding = only(check_images(images, decode=True), "missing files")
    assert finding.count == 2
    assert finding.first.endswith("cat/1.png")
    assert str(finding).startswith(f"error: {tmp_path / 'train.txt'}: missing files: 2, the first is ")


def test_labels_out_of_range_are_found(tmp_path, train_paths):
    file = write_list(tmp_path / "train.txt", train_paths)
    file.write_text(file.read_text() + "extra.png 5\nother.png -1\n")
    findings = check_images(read_image_list(file, tmp_path, num_classes=2))
    finding = only([finding for finding in findings if finding.kind.endswith("out of range")], "labels")
    assert (finding.count, finding.first) == (2, "label 5 of extra.png, expected 0..1")


def test_empty_categories_are_found(tmp_path, train_paths):
    images = read(tmp_path, "train.txt", train_paths, class_names=["cat", "dog", "eel"])
    assert only(check_images(images), "without images", "note").first == "eel (label 2)"


def test_paths_listed_twice_are_found(tmp_path, train_paths):
    images = read(tmp_path, "train.txt", {**train_paths, "dog": ["dog/0.png", "dog/1.png", "dog/1.png"]})
    assert only(check_images(images), "more than once", "note").first == "dog/1.png"


@pytest.mark.parametrize("decode", [True, False])
@pytest.mark.parametrize("content", [b"no image", b""])
def test_files_that_are_no_images_are_found(decode, content, tmp_path, train_paths):
    images = read(tmp_path, "train.txt", train_paths)
    (tmp_path / "dog/1.png").write_bytes(content)
    assert "dog/1.png" in only(check_images(images, decode=decode), "damaged").first


def test_images_that_end_too_soon_are_found_when_they_are_decoded(tmp_path, train_paths):
    images = read(tmp_path, "train.txt", train_paths)
    whole = (tmp_path / "dog/1.png").read_bytes()
    (tmp_path / "dog/1.png").write_bytes(whole[: len(whole) // 2])
    assert check_images(images) == []
    assert "dog/1.png" in only(check_images(images, decode=True), "damaged").first


def test_one_category_is_nothing_to_train_on(tmp_path):
    write_images(tmp_path / "photos" / "all", {"cat": 2, "dog": 1})
    with pytest.raises(
        ValueError, match=r"a single category, .*: all; its images are in 2 folders: .* name .*photos/all"
    ):
        check_several_categories(read_image_folder(tmp_path / "photos"))
    check_several_categories(read_image_folder(tmp_path / "photos" / "all"))


def test_test_images_in_the_training_list_are_found(tmp_path, train_paths, held_out_paths):
    train = read(tmp_path, "train.txt", train_paths)
    test = read(tmp_path, "test.txt", {**held_out_paths, "dog": ["dog/0.png"]})
    by_path, by_content = check_overlap(train, test)
    assert ("by path" in by_path.kind, by_path.count, by_path.first) == (True, 1, "dog/0.png")
    assert by_content.first == "dog/0.png = dog/0.png"


def test_copies_under_another_name_are_found_by_content(tmp_path, train_paths, held_out_paths):
    shutil.copy(tmp_path / "cat/2.png", tmp_path / "test/cat/0.png")
    train, test = read(tmp_path, "train.txt", train_paths), read(tmp_path, "test.txt", held_out_paths)
    finding = only(check_overlap(train, test), "by content")
    assert (finding.count, finding.first) == (1, "test/cat/0.png = cat/2.png")
    assert check_overlap(train, test, by_content=False) == []


def test_other_category_names_are_found(tmp_path, train_paths, held_out_paths):
    train = read(tmp_path, "train.txt", train_paths, class_names=["cat", "dog"])
    test = read(tmp_path, "test.txt", held_out_paths, class_names=["dog", "cat"])
    assert "other category names" in only(check_classification(train, test), "names").kind


def test_a_folder_without_images_is_no_category(tmp_path):
    write_images(tmp_path / "photos", {"cat": 1, "dog": 1})
    (tmp_path / "photos" / "eel").mkdir()
    finding = only(check_images(read_image_folder(tmp_path / "photos")), "folders without images", "warning")
    assert finding.first == f"{tmp_path}/photos/eel: put images into it or remove it"


def test_a_single_category_has_nothing_to_tell_apart(tmp_path):
    write_images(tmp_path / "photos", {"cat": 2})
    finding = only(check_images(read_image_folder(tmp_path / "photos")), "a single category")
    assert finding.first == "cat, with all 2 images"


def test_categories_one_folder_deeper_in_an_archive_are_named_as_the_user_must(tmp_path):
    write_images(tmp_path / "all" / "photos", {"cat": 2, "dog": 1})
    archive = zip_folder(tmp_path / "all", tmp_path / "a.zip")
    finding = only(check_images(read_image_folder(archive)), "a single category")
    assert finding.first.endswith(f"in 2 folders: if these are the categories, name {archive}/photos")
    assert check_images(read_image_folder(archive / "photos")) == []


def test_paths_that_start_one_folder_deeper_are_answered_with_the_root(tmp_path, train_paths):
    (tmp_path / "photos").mkdir()
    for name in train_paths:
        (tmp_path / name).rename(tmp_path / "photos" / name)
    finding = only(check_images(read(tmp_path, "train.txt", train_paths)), "missing files")
    assert finding.first.endswith(f"; it is in the folder photos: give --root {tmp_path}/photos")


def test_a_test_set_without_the_tail_is_found_the_rarest_first(tmp_path):
    paths = write_images(tmp_path, {"cat": 4, "dog": 3, "eel": 1, "fox": 2})
    held_out = write_images(tmp_path / "test", {"cat": 1, "dog": 1}, seed=1)
    held_out = {name: [f"test/{path}" for path in paths] for name, paths in held_out.items()}
    train = read(tmp_path, "train.txt", paths)
    test = read(tmp_path, "test.txt", held_out, class_names=train.class_names)
    finding = only(
        [item for item in check_classification(train, test) if item.severity == "warning"], "does not have", "warning"
    )
    assert (finding.count, finding.first) == (2, "2, with 1 training images")
