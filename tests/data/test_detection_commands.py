import pytest
from PIL import Image

from detection_on_disk import SQUARE, annotation, coco, image, write_json, write_pictures
from equigrad.data.detection_commands import check_file, convert_folder, stats_of_file


def test_a_clean_file_is_fit_for_training(tmp_path):
    content = coco([image(1)], [annotation(1, segmentation=SQUARE)], [{"id": 1, "name": "cat"}])
    file = write_json(tmp_path / "a.json", content)
    text, status = check_file(file, write_pictures(tmp_path / "images", content))
    assert status == 0
    assert text == f"{file}: fit for training: 0 kinds of error, 0 kinds of warning"


def test_a_fault_that_spoils_training_has_status_1(tmp_path):
    file = write_json(tmp_path / "a.json", coco(annotations=[annotation(1, category_id=5)]))
    text, status = check_file(file)
    assert status == 1
    assert (
        text.splitlines()[0] == "error: annotations of unknown categories: 1, the first is annotation 1: category_id 5"
    )
    assert text.splitlines()[-1] == f"{file}: training would be wrong: 1 kind of error, 0 kinds of warning"


def test_a_warning_alone_has_status_0(tmp_path):
    text, status = check_file(write_json(tmp_path / "a.json", coco(annotations=[annotation(1, box=(1, 1, 0, 1))])))
    assert status == 0
    assert "warning: boxes without area: 1" in text


def test_missing_images_have_status_1(tmp_path):
    (tmp_path / "images").mkdir()
    text, status = check_file(write_json(tmp_path / "a.json", coco()), tmp_path / "images")
    assert status == 1
    assert "error: missing image files: 2" in text


def test_stats_are_a_table(tmp_path):
    text, status = stats_of_file(write_json(tmp_path / "a.json", coco()), groups_by="quantiles", num_groups=2)
    assert status == 0
    assert "quantile 2" in text
    assert "dog" in text


@pytest.fixture
def yolo(tmp_path):
    Image.new("RGB", (20, 10)).save(tmp_path / "a.png")
    (tmp_path / "a.txt").write_text("0 0.5 0.5 0.5 0.5")
    (tmp_path / "names.txt").write_text("cat")
    return tmp_path


def test_conversion_says_what_it_wrote(yolo):
    text, status = convert_folder("yolo", yolo, yolo / "out.json", names=yolo / "names.txt")
    assert status == 0
    assert text == f"{yolo / 'out.json'}: 1 images, 1 annotations, 1 categories (1 rare)"


@pytest.mark.parametrize(
    ("layout", "options", "message"),
    [
        ("yolo", {"split": "train"}, "split: name the folder"),
        ("voc", {"names": "x"}, "names: a VOC folder has"),
        ("kitti", {}, "layout must be voc or yolo, got 'kitti'"),
    ],
)
def test_options_that_do_not_fit_the_layout_are_refused(yolo, layout, options, message):
    with pytest.raises(ValueError, match=message):
        convert_folder(layout, yolo, yolo / "out.json", **options)
