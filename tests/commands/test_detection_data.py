import pytest
from PIL import Image

from detection_on_disk import SQUARE, annotation, coco, image, write_json, write_pictures
from equigrad.cli import main


def run(capsys, *words):
    status = main([str(word) for word in words])
    shown = capsys.readouterr()
    return status, shown.out, shown.err


def test_a_clean_file_is_fit_for_training(tmp_path, capsys):
    content = coco([image(1)], [annotation(1, segmentation=SQUARE)], [{"id": 1, "name": "cat"}])
    file = write_json(tmp_path / "a.json", content)
    images = write_pictures(tmp_path / "images", content)
    status, out, _ = run(capsys, "data", "check", file, "--images", images)
    assert status == 0
    assert out == f"{file}: fit for training: 0 kinds of error, 0 kinds of warning\n"


def test_a_fault_that_spoils_training_has_status_1(tmp_path, capsys):
    file = write_json(tmp_path / "a.json", coco(annotations=[annotation(1, category_id=5)]))
    status, out, err = run(capsys, "data", "check", file)
    assert status == 1
    assert out.startswith("error: annotations of unknown categories: 1, the first is annotation 1: category_id 5\n")
    assert err == f"equigrad: {file}: training would be wrong: 1 kind of error, 0 kinds of warning\n"


def test_a_warning_alone_has_status_0(tmp_path, capsys):
    file = write_json(tmp_path / "a.json", coco(annotations=[annotation(1, box=(1, 1, 0, 1))]))
    status, out, _ = run(capsys, "data", "check", file)
    assert status == 0
    assert "warning: boxes without area: 1" in out


def test_missing_images_have_status_1(tmp_path, capsys):
    (tmp_path / "images").mkdir()
    file = write_json(tmp_path / "a.json", coco())
    status, out, _ = run(capsys, "data", "check", file, "--images", tmp_path / "images")
    assert status == 1
    assert "error: missing image files: 2" in out


def test_stats_show_the_tail_and_what_repeat_factor_sampling_makes_of_it(tmp_path, capsys):
    file = write_json(tmp_path / "a.json", coco())
    table, figure = tmp_path / "categories.csv", tmp_path / "tail.png"
    status, out, _ = run(capsys, "data", "stats", file, "--groups", "quantiles", "--csv", table, "--figure", figure)
    assert status == 0
    assert "quantile 2" in out
    assert "epoch" in out
    assert table.read_text().splitlines()[0] == "category,id,name,images,instances,group"
    assert Image.open(figure).width > 500


@pytest.fixture
def yolo(tmp_path):
    Image.new("RGB", (20, 10)).save(tmp_path / "a.png")
    (tmp_path / "a.txt").write_text("0 0.5 0.5 0.5 0.5")
    (tmp_path / "names.txt").write_text("cat")
    return tmp_path


def test_conversion_says_what_it_wrote(yolo, capsys):
    status, out, _ = run(capsys, "data", "convert", "yolo", yolo, yolo / "out.json", "--names", yolo / "names.txt")
    assert status == 0
    assert out == f"{yolo / 'out.json'}: 1 images, 1 annotations, 1 categories (1 rare)\n"


@pytest.mark.parametrize(
    ("layout", "options", "message"),
    [("yolo", ["--split", "train"], "--split: only voc"), ("voc", ["--names", "x"], "--names: a VOC folder has")],
)
def test_options_that_do_not_fit_the_layout_are_refused(yolo, capsys, layout, options, message):
    status, _, err = run(capsys, "data", "convert", layout, yolo, yolo / "out.json", *options)
    assert status == 1
    assert message in err
