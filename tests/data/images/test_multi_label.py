import numpy as np
import pytest

from detection_on_disk import coco, write_json, write_pictures
from equigrad.data.images.checks import check_classification
from equigrad.data.images.dataset import ImageDataset
from equigrad.data.images.multi_label import FILE, has_label_file, is_multi_label, read_multi_label
from equigrad.data.images.transforms import evaluation_transform
from images_on_disk import write_images

LISTED = "image,categories\na/0.png,cat;dog\na/1.png,\na/2.png,dog\n"


@pytest.fixture
def folder(tmp_path):
    write_images(tmp_path, {"a": 3})
    (tmp_path / FILE).write_text(LISTED)
    return tmp_path


def test_a_file_lists_the_categories_of_each_image(folder):
    images = read_multi_label(folder / FILE)
    assert images.class_names == ("cat", "dog")
    assert images.labels.tolist() == [[1, 1], [0, 0], [0, 1]]
    assert images.category_counts.tolist() == [1, 2]
    assert images.subset([2]).labels.tolist() == [[0, 1]]


def test_a_folder_has_its_own_file_and_a_file_may_have_a_column_for_each_category(folder):
    (folder / FILE).write_text("dog,Image,cat\n1,a/0.png,1\n0,a/1.png,0\n1,a/2.png,0\n")
    images = read_multi_label(folder)
    assert images.class_names == ("dog", "cat")
    assert images.labels.tolist() == [[1, 1], [0, 0], [1, 0]]


@pytest.mark.parametrize(
    "text",
    [
        "\ufeffimage;categories\r\na/0.png;cat,dog\r\na/1.png;\r\na/2.png;dog\r\n",
        "filename\tlabels\na/0.png\tcat|dog\na/1.png\t\na/2.png\tdog\n",
        ",path,cat,dog\n0,a/0.png,1.0,True\n1,a/1.png,0.0,False\n2,a/2.png,0.0,true\n",
    ],
)
def test_files_of_spreadsheets_and_pandas_are_read(folder, text):
    (folder / FILE).write_text(text, encoding="utf-8", newline="")
    images = read_multi_label(folder)
    assert images.class_names == ("cat", "dog")
    assert images.labels.tolist() == [[1, 1], [0, 0], [0, 1]]
    assert images.paths == ("a/0.png", "a/1.png", "a/2.png")


@pytest.mark.parametrize(
    "text",
    [
        "a/0.png,cat;dog\na/1.png,\na/2.png,dog\n",
        "a/0.png;cat,dog\na/1.png;\na/2.png;dog\n",
        '"a/0.png"\tcat|dog\na/1.png\t\na/2.png\tdog\n',
    ],
)
def test_two_columns_need_no_line_of_names(folder, text):
    (folder / FILE).write_text(text)
    images = read_multi_label(folder)
    assert images.paths == ("a/0.png", "a/1.png", "a/2.png")
    assert images.class_names == ("cat", "dog")
    assert images.labels.tolist() == [[1, 1], [0, 0], [0, 1]]


def test_categories_that_are_numbers_are_in_their_order(tmp_path):
    (tmp_path / "a.csv").write_text("a.png,10\nb.png,9\n")
    assert read_multi_label(tmp_path / "a.csv").class_names == ("9", "10")


def test_the_objects_of_an_annotation_file_give_the_categories_without_crowds(tmp_path):
    write_pictures(tmp_path / "images", coco())
    images = read_multi_label(write_json(tmp_path / "a.json", coco()), tmp_path / "images")
    assert images.class_names == ("cat", "dog")
    assert images.labels.tolist() == [[1, 1], [0, 0]]


def test_an_item_has_a_target_for_each_category(folder):
    image, targets = ImageDataset(read_multi_label(folder), evaluation_transform(8, resize=8))[0]
    assert image.shape == (3, 8, 8)
    np.testing.assert_array_equal(targets["labels"], np.array([1, 1], dtype=np.float32))


def test_the_fingerprint_follows_the_categories(folder):
    transform = evaluation_transform(8, resize=8)
    before = ImageDataset(read_multi_label(folder), transform).fingerprint()
    (folder / FILE).write_text(LISTED.replace("2.png,dog", "2.png,cat"))
    assert ImageDataset(read_multi_label(folder), transform).fingerprint() != before


def test_a_check_finds_what_is_missing_and_what_nothing_measures(folder, tmp_path):
    test = tmp_path / "test.csv"
    test.write_text("image,categories\na/9.png,dog\n")
    train = read_multi_label(folder)
    found = check_classification(train, read_multi_label(test, class_names=train.class_names), by_content=False)
    texts = [str(finding) for finding in found]
    assert any("missing files" in text and "9.png" in text for text in texts)
    assert any("cat, with 1 training images" in text for text in texts)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected the columns image and categories"),
        ("name,categories\na,b\n", "expected the columns image and categories.*got 'name, categories'"),
        ("image,categories\n", "expected a line for each image"),
        ("a.png,1,0\n", "got 'a.png, 1, 0', which is no line of names but that of an image: write one above it"),
        ("cat,a.png\n", "got 'cat, a.png', which is no line of names"),
        ("a.png,cat\nb.png,cat,dog\n", "line 2: expected an image and its categories, as in the first line, got 3"),
        ("image,categories\na.png,\n", "expected a category in at least one image"),
        ("image,cat\na.png,yes\n", "line 2: cat: expected 0 or 1, got 'yes'"),
        ("image,categories\n../a.png,cat\n", "line 2"),
    ],
)
def test_a_wrong_file_is_refused_with_what_was_expected(tmp_path, text, message):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_multi_label(tmp_path / "a.csv")


def test_a_category_that_training_does_not_have_is_named(folder):
    with pytest.raises(ValueError, match="'dog' is not one of the 1 categories"):
        read_multi_label(folder, class_names=["cat"])


def test_a_missing_file_and_other_data_are_recognised(folder, tmp_path):
    assert has_label_file(folder)
    assert has_label_file(folder / FILE)
    assert not has_label_file(tmp_path / "a")
    assert is_multi_label(folder)
    assert is_multi_label(folder / FILE)
    (folder / FILE).write_text("a/0.png,cat\na/1.png,dog\n")
    assert not is_multi_label(folder / FILE)  # one category each
    with pytest.raises(FileNotFoundError, match="expected CSV with the columns image and categories"):
        read_multi_label(tmp_path / "other.csv")
