import json
import shutil

import pytest

from detection_on_disk import coco, image, without_sizes, write_json, write_pictures
from equigrad.data.detection.formats.coco_json import read_coco
from equigrad.data.detection.measured_sizes import complete_sizes, with_sizes
from equigrad.data.images.stores import open_store
from images_on_disk import zip_folder


@pytest.fixture
def images(tmp_path):
    return write_pictures(tmp_path / "images", coco())


@pytest.fixture
def data(tmp_path):
    return read_coco(write_json(tmp_path / "a.json", without_sizes(coco())))


def test_sizes_are_those_of_the_images_in_a_folder_or_an_archive(data, images, tmp_path):
    for store in (open_store(images), open_store(zip_folder(images, tmp_path / "images.zip"))):
        found = with_sizes(data, store)
        assert (found.heights.tolist(), found.widths.tolist()) == ([8, 8], [12, 12])
        assert found.mask(0).sum() == 16
        assert not data.has_sizes


def test_a_size_that_the_file_states_is_kept_and_no_image_opened(tmp_path):
    content = coco([image(1, height=99)], [])
    data = read_coco(write_json(tmp_path / "a.json", content))
    assert with_sizes(data, open_store(tmp_path)) is data


def test_an_image_that_is_missing_is_named(data, images):
    (images / "2.png").unlink()
    with pytest.raises(FileNotFoundError, match=r"images/2\.png: no such image"):
        with_sizes(data, open_store(images))
    shutil.rmtree(images)
    images.mkdir()
    with pytest.raises(FileNotFoundError, match=r"images/1\.png: no such image"):
        with_sizes(data, open_store(images))


def test_a_complete_file_has_all_that_the_other_has(tmp_path, images):
    file = write_json(tmp_path / "a.json", {**without_sizes(coco()), "info": {"year": 2020}})
    complete_sizes(file, tmp_path / "new" / "b.json", images)
    assert json.loads((tmp_path / "new" / "b.json").read_text()) == {**coco(), "info": {"year": 2020}}
