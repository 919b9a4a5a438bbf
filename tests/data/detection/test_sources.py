import pytest
from PIL import Image

from detection_on_disk import coco, write_json, write_pictures
from equigrad.data.detection.formats.coco_json import read_coco
from equigrad.data.detection.formats.voc_writing import write_voc
from equigrad.data.detection.formats.yolo_writing import write_yolo
from equigrad.data.detection.sources import as_coco, detection_layout, read_source
from images_on_disk import write_images


@pytest.fixture
def file(tmp_path):
    write_pictures(tmp_path / "images", coco())
    return write_json(tmp_path / "a.json", coco())


@pytest.mark.parametrize(("layout", "write"), [("voc", write_voc), ("yolo", write_yolo)])
def test_folders_are_recognised_and_read_with_their_own_images(file, tmp_path, layout, write):
    folder = tmp_path / layout
    write(read_coco(file), folder, tmp_path / "images")
    assert detection_layout(folder) == layout
    with as_coco(folder, layout) as (converted, images):
        data = read_source(converted, folder)
    assert images == folder
    assert data.source == str(folder)
    assert data.categories.names == ("cat", "dog")
    assert not converted.exists()


def test_a_json_file_is_read_as_it_is(file):
    assert detection_layout(file) == "coco"
    with as_coco(file, "coco") as found:
        assert found == (file, None)


@pytest.mark.parametrize("option", [{"names": "x.txt"}, {"split": "train"}])
def test_options_of_folders_are_refused_for_a_file(file, option):
    with (
        pytest.raises(ValueError, match=r"only VOC and YOLO folders take it, .*a\.json is a COCO file"),
        as_coco(file, "coco", **option),
    ):
        pass


def test_images_with_labels_are_no_detection_data(tmp_path):
    write_images(tmp_path / "photos", {"cat": 1, "images": 1})
    (tmp_path / "photos" / "notes.txt").write_text("0 0.5 0.5 1 1")
    assert detection_layout(tmp_path / "photos") is None
    assert detection_layout(tmp_path / "nowhere") is None
    assert detection_layout(tmp_path / "photos" / "notes.txt") is None


def test_text_files_beside_images_are_yolo(tmp_path):
    Image.new("RGB", (4, 4)).save(tmp_path / "a.png")
    (tmp_path / "a.txt").write_text("0 0.5 0.5 1 1")
    assert detection_layout(tmp_path) == "yolo"
