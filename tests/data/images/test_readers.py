import os
import zipfile

import numpy as np
import pytest
from PIL import Image

from equigrad.data.glyphs.files import write_classification
from equigrad.data.glyphs.layout import GlyphData
from equigrad.data.images.checks import check_classification
from equigrad.data.images.dataset import ImageDataset
from equigrad.data.images.readers import read_arrays, read_cifar, read_image_folder, read_image_list, read_images
from equigrad.data.images.transforms import small_evaluation_transform
from hostile_files import refusal
from images_on_disk import write_images, write_list, zip_folder
from shared_data import shared_folder


@pytest.fixture
def images(tmp_path):
    paths = write_images(tmp_path / "images", {"big cat": 3, "dog": 2})
    return read_image_list(write_list(tmp_path / "train.txt", paths), tmp_path / "images")


def test_a_csv_file_may_give_one_category_each_by_name(tmp_path):
    (tmp_path / "a.csv").write_text("image,label\na.png,dog\nb.png,cat\n")
    images = read_images(tmp_path / "a.csv")
    assert (images.class_names, images.labels.tolist()) == (("cat", "dog"), [1, 0])
    (tmp_path / "a.csv").write_text("image,label\na.png,dog\nb.png,cat;dog\n")
    with pytest.raises(ValueError, match=r"b.png: expected one category, got cat, dog; own_data:multi_label trains"):
        read_images(tmp_path / "a.csv")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "my a.png,big dog\nb.png,cat\n"),
        ("a.tsv", "my a.png\tbig dog\nb.png\tcat\n"),
        ("a.txt", "my a.png,big dog\nb.png,cat\n"),
        ("a.txt", "my a.png\tbig dog\n\nb.png\tcat"),
        ("a.txt", "my a.png big dog\r\nb.png cat\r\n"),
        ("a.lst", "my a.png ; big dog\nb.png; cat\n"),
    ],
)
def test_a_list_may_name_categories_and_needs_no_line_of_names(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    images = read_images(tmp_path / name)
    assert images.paths == ("my a.png", "b.png")
    assert (images.class_names, images.labels.tolist()) == (("big dog", "cat"), [0, 1])
    test = read_images(tmp_path / name, class_names=("ant", "big dog", "cat"))
    assert test.labels.tolist() == [1, 2]
    with pytest.raises(ValueError, match=f"{name}: 'cat' is not one of the 1 categories of the training set"):
        read_images(tmp_path / name, class_names=("big dog",))


@pytest.mark.parametrize("line", ["a.PNG,3", "a.PNG\t3", "a.PNG;3", "a.PNG ,  3"])
def test_a_number_may_follow_any_separator(tmp_path, line):
    (tmp_path / "a.txt").write_text(line)
    images = read_images(tmp_path / "a.txt")
    assert (images.paths, images.labels.tolist(), images.num_classes) == (("a.PNG",), [3], 4)


def test_numbers_of_a_csv_file_mean_the_same_in_a_list(tmp_path):
    (tmp_path / "train.csv").write_text("a.png,1\nb.png,2\nc.png,10\n")
    (tmp_path / "test.txt").write_text("d.png 2\n")
    train = read_images(tmp_path / "train.csv")
    assert train.class_names == ("1", "2", "10")
    assert read_images(tmp_path / "test.txt", class_names=train.class_names).labels.tolist() == [1]


def test_numbers_and_names_are_not_mixed(tmp_path):
    (tmp_path / "a.txt").write_text("a.png cat\nb.png 2\n")
    with pytest.raises(ValueError, match=r"a\.txt, line 2: expected `path label`, a name as label as before, got 'b"):
        read_images(tmp_path / "a.txt")
    (tmp_path / "a.txt").write_text("image,label\na.png,cat\n")
    with pytest.raises(ValueError, match=r"line 1: .*; a table whose first line names its columns must be called .csv"):
        read_images(tmp_path / "a.txt")


def test_folders_of_splits_are_no_categories(tmp_path):
    write_images(tmp_path, {"train/cat": 1, "train/dog": 1, "test/cat": 1})
    with pytest.raises(ValueError, match=r"not categories: name .*/train to train on and .*/test to test on"):
        read_images(tmp_path)


def test_a_list_gives_paths_labels_and_counts(images):
    assert len(images) == 5
    assert images.paths[2] == "big cat/2.png"  # paths may have spaces
    assert images.labels.tolist() == [0, 0, 0, 1, 1]
    assert images.category_counts.tolist() == [3, 2]
    assert images.class_names == ("0", "1")


def test_names_come_from_the_classes_beside_the_list(tmp_path):
    paths = write_images(tmp_path / "images", {"cat": 1, "dog": 1})
    file = write_list(tmp_path / "train.txt", paths)
    (tmp_path / "classes.csv").write_text("label,name,train\n0,cat,1\n1,dog,1\n2,eel,0\n")
    images = read_image_list(file, tmp_path / "images")
    assert images.class_names == ("cat", "dog", "eel")
    assert images.category_counts.tolist() == [1, 1, 0]


@pytest.mark.parametrize("line", ["a.png", "a.png x", "a.png 1.5", "7", "a2", "a7.png", ",3"])
def test_a_wrong_line_is_named(tmp_path, line):
    (tmp_path / "train.txt").write_text(f"ok.png 0\n\n{line}\n")
    with pytest.raises(ValueError, match=r"train\.txt, line 3: expected `path label`"):
        read_image_list(tmp_path / "train.txt", tmp_path)


def test_a_missing_or_empty_list_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"train\.txt: no such list"):
        read_image_list(tmp_path / "train.txt", tmp_path)
    (tmp_path / "train.txt").write_text("\n")
    with pytest.raises(ValueError, match=r"train\.txt: .* found none"):
        read_image_list(tmp_path / "train.txt", tmp_path)


@pytest.mark.parametrize("zipped", [False, True])
def test_an_image_folder_has_a_label_for_each_folder(tmp_path, zipped):
    write_images(tmp_path / "images", {"dog": 2, "cat": 1})
    (tmp_path / "images" / "notes.txt").write_text("no image")
    root = zip_folder(tmp_path / "images", tmp_path / "images.zip") if zipped else tmp_path / "images"
    images = read_image_folder(root)
    assert images.class_names == ("cat", "dog")
    assert images.paths == ("cat/0.png", "dog/0.png", "dog/1.png")
    assert images.labels.tolist() == [0, 1, 1]


def test_test_folders_follow_the_labels_of_training(tmp_path):
    write_images(tmp_path, {"dog": 1})
    assert read_image_folder(tmp_path, class_names=("cat", "dog")).labels.tolist() == [1]
    with pytest.raises(ValueError, match="folder dog is not one of the 1 categories"):
        read_image_folder(tmp_path, class_names=("cat",))


def test_a_folder_without_images_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no image in any folder"):
        read_image_folder(tmp_path)


def test_arrays_with_labels(tmp_path):
    np.savez(tmp_path / "a.npz", images=np.zeros((3, 4, 4, 3), np.uint8), labels=np.array([2, 0, 2], np.uint8))
    images = read_arrays(tmp_path / "a.npz")
    assert images.category_counts.tolist() == [1, 0, 2]
    np.savez(tmp_path / "b.npz", images=np.zeros((3, 4, 4, 3), np.uint8), labels=np.array([2, 0]))
    with pytest.raises(ValueError, match=r"b\.npz: labels must be 3 integers"):
        read_arrays(tmp_path / "b.npz")
    np.savez(tmp_path / "c.npz", x=np.zeros(3))
    with pytest.raises(ValueError, match=r"c\.npz: .*expected an array named 'images', found x"):
        read_arrays(tmp_path / "c.npz")


def cifar_records(labels, num_labels, rng):
    """One record a row: labels, then 1,024 red, green and blue bytes each."""
    pixels = rng.integers(0, 256, (len(labels), 3072), dtype=np.uint8)
    columns = [np.full((len(labels), 1), 9, np.uint8)] * (num_labels - 1) + [np.array(labels, np.uint8)[:, None]]
    return np.concatenate([*columns, pixels], axis=1)


def test_cifar_10_binary(tmp_path):
    rng = np.random.default_rng(0)
    (tmp_path / "batches.meta.txt").write_text("airplane\nautomobile\nbird\n\n")
    batches = [cifar_records([number % 3, 1], 1, rng) for number in range(5)]
    for number, batch in enumerate(batches, start=1):
        batch.tofile(tmp_path / f"data_batch_{number}.bin")
    images = read_cifar(tmp_path, "train")
    assert images.class_names == ("airplane", "automobile", "bird")
    assert images.labels.tolist() == [0, 1, 1, 1, 2, 1, 0, 1, 1, 1]
    red = np.asarray(images.store.read("2"))[:, :, 0]
    assert np.array_equal(red.ravel(), batches[1][0, 1:1025])
    with pytest.raises(FileNotFoundError, match=r"test_batch\.bin"):
        read_cifar(tmp_path, "test")


def test_cifar_100_binary_has_the_fine_labels(tmp_path):
    (tmp_path / "fine_label_names.txt").write_text("apple\nbear\n")
    records = cifar_records([1, 0], 2, np.random.default_rng(0))
    records.tofile(tmp_path / "test.bin")
    assert read_cifar(tmp_path, "test").labels.tolist() == [1, 0]
    records.ravel()[:-1].tofile(tmp_path / "train.bin")
    with pytest.raises(ValueError, match=r"train\.bin: expected records of 3074 bytes"):
        read_cifar(tmp_path, "train")


def forms(tmp_path):
    """The same three images in every form that `read_images` knows, with the paths it gives them."""
    folder = tmp_path / "images"
    by_name = write_images(folder, {"cat": 2, "dog": 1})
    paths = [*by_name["cat"], *by_name["dog"]]
    pixels = np.zeros((3, 4, 4, 3), np.uint8)
    np.savez(tmp_path / "arrays.npz", images=pixels, labels=np.array([0, 0, 1]))
    cifar = tmp_path / "cifar"
    cifar.mkdir()
    (cifar / "fine_label_names.txt").write_text("cat\ndog\n")
    cifar_records([0, 0, 1], 2, np.random.default_rng(0)).tofile(cifar / "train.bin")
    return {
        "list": (write_list(folder / "train.txt", by_name), paths),
        "folder": (folder, paths),
        "zip": (zip_folder(folder, tmp_path / "images.zip"), paths),
        "npz": (tmp_path / "arrays.npz", ["0", "1", "2"]),
        "cifar": (cifar, ["0", "1", "2"]),
    }


@pytest.mark.parametrize("form", ["list", "folder", "zip", "npz", "cifar"])
def test_the_form_of_images_is_recognised(tmp_path, form):
    source, paths = forms(tmp_path)[form]
    images = read_images(source)
    assert list(images.paths) == paths
    assert images.labels.tolist() == [0, 0, 1]
    assert images.store.read(images.paths[0]).mode == "RGB"


def test_paths_of_a_list_start_from_the_root_that_is_given(tmp_path):
    paths = write_images(tmp_path / "images", {"cat": 1})
    file = write_list(tmp_path / "elsewhere.txt", paths)
    assert read_images(file, tmp_path / "images").store.size("cat/0.png") is not None
    assert read_images(file).store.size("cat/0.png") is None


def test_a_source_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="absent: no such list, folder or file of images"):
        read_images(tmp_path / "absent")


def test_cifar_in_python_form_is_refused(tmp_path):
    (tmp_path / "data_batch_1").write_bytes(b"")
    with pytest.raises(FileNotFoundError, match="binary version"):
        read_cifar(tmp_path, "train")


def test_generated_glyphs_are_read_as_list_and_as_folder(tmp_path):
    data = GlyphData(train_counts=(3, 2, 1), eval_count=1)
    folder = write_classification(tmp_path / "glyphs", data)
    images = read_image_list(folder / "train.txt", folder)
    assert images.category_counts.tolist() == [3, 2, 1]
    as_folder = read_image_folder(folder / "train")
    assert np.array_equal(np.sort(as_folder.labels), np.sort(images.labels))
    assert len(ImageDataset(images, small_evaluation_transform(24))) == 6


@pytest.mark.shared_data
def test_caltech_is_read_from_its_archive():
    folder = shared_folder("caltech101")
    images = read_image_list(folder / "train_lt100.txt", folder / "images.zip")
    assert len(images) == 4031
    assert (images.num_classes, images.class_names[0]) == (101, "accordion")
    assert (images.category_counts.max(), images.category_counts.min()) == (200, 2)
    pixels, targets = ImageDataset(images, small_evaluation_transform(32))[4030]
    assert pixels.shape == (3, 32, 32)
    assert targets["labels"] == images.labels[4030]


@pytest.mark.parametrize(
    "path", ["../secret.png", "/etc/secret.png", "a/../../secret.png", "C:\\secret.png", "\\\\host\\x"]
)
def test_a_path_that_leaves_the_root_is_refused(tmp_path, path):
    (tmp_path / "train.txt").write_text(f"ok.png 0\n{path} 1\n")
    with pytest.raises(ValueError, match=r"train\.txt, line 2: expected a path inside the folder of images, got"):
        read_image_list(tmp_path / "train.txt", tmp_path)


def test_a_link_out_of_the_root_is_not_followed_where_that_is_forbidden(tmp_path, monkeypatch):
    write_images(tmp_path / "secret", {"cat": 1})
    paths = write_images(tmp_path / "images", {"cat": 1})
    os.symlink("../../secret/cat/0.png", tmp_path / "images" / "cat" / "1.png")
    images = read_image_list(
        write_list(tmp_path / "train.txt", {"cat": [*paths["cat"], "cat/1.png"]}), tmp_path / "images"
    )
    assert images.store.read("cat/1.png").size == (8, 8)
    monkeypatch.setenv("EQUIGRAD_FOLLOW_LINKS", "0")
    assert images.store.read("cat/0.png").size == (8, 8)
    for read in (images.store.read, images.store.content):
        with pytest.raises(OSError, match=r"cat/1\.png: leaves .*images, and EQUIGRAD_FOLLOW_LINKS=0"):
            read("cat/1.png")


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ("2000000000", "train.txt: expected labels below 1,000,000, got 2,000,000,000"),
        ("9" * 25, "line 2: expected `path label`"),
        ("9" * 5000, "line 2: expected `path label`"),
        ("--5", "line 2: expected `path label`"),
        ("٣", "line 2: expected `path label`"),
    ],
)
def test_a_label_that_no_data_set_has_is_refused(tmp_path, label, message):
    (tmp_path / "train.txt").write_text(f"a.png 0\nb.png {label}\n")
    assert message in refusal(read_image_list, tmp_path / "train.txt", tmp_path)


def test_a_huge_label_of_an_array_is_refused(tmp_path):
    np.savez(tmp_path / "a.npz", images=np.zeros((1, 2, 2, 3), np.uint8), labels=[2_000_000_000])
    assert "a.npz: expected labels below 1,000,000" in refusal(read_arrays, tmp_path / "a.npz")


@pytest.mark.parametrize("name", ["../cat/a.png", "/cat/a.png", "cat/../../a.png"])
def test_an_archive_whose_files_leave_it_is_refused(tmp_path, name):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(name, b"")
    with pytest.raises(ValueError, match=r"a\.zip: expected a path inside the folder of images"):
        read_image_folder(tmp_path / "a.zip")


def test_an_archive_that_grows_to_gigabytes_is_refused_by_its_index(tmp_path):
    file = zip_bomb(tmp_path / "bomb.zip", ["cat/a.jpg", "dog/b.jpg"])
    images = read_image_folder(file)
    assert images.class_names == ("cat", "dog")
    for read in (images.store.read, images.store.content):
        assert f"{file}/cat/a.jpg: expected an image file of at most" in refusal(read, "cat/a.jpg")
    assert "got 3,221,225,472" in refusal(check_classification, images, images)


def zip_bomb(file, names):
    """Files of 3 GB of zeros each in an archive of kilobytes, as its index has them."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            archive.writestr(name, bytes(54_321))
    content = file.read_bytes()
    file.write_bytes(content.replace((54_321).to_bytes(4, "little"), (3 << 30).to_bytes(4, "little")))
    return file


def test_an_annotation_file_is_not_taken_for_a_list_of_images(tmp_path):
    (tmp_path / "a.json").write_text('{"images": []}')
    with pytest.raises(ValueError, match=r"a\.json: expected images with one label each, got an annotation file"):
        read_images(tmp_path / "a.json")


def test_a_folder_of_images_beside_their_annotation_file_is_answered_with_that_file(tmp_path):
    Image.new("RGB", (4, 4)).save(tmp_path / "a.png")
    (tmp_path / "_annotations.coco.json").write_text("{}")
    with pytest.raises(ValueError, match=r"_annotations\.coco\.json may have boxes: name that file, with --images"):
        read_image_folder(tmp_path)
