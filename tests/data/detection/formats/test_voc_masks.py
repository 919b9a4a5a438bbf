import numpy as np
import pycocotools.mask as coco_mask
import pytest
from PIL import Image

from equigrad.data.detection.formats import voc_masks
from equigrad.data.detection.formats.voc_masks import MAX_OBJECTS, mask_area, read_object_masks


def save(file, numbers, mode="P"):
    picture = Image.fromarray(np.array(numbers, np.uint8))
    (picture if mode == "P" else picture.convert(mode)).save(file)
    return file


def test_a_pixel_of_value_k_belongs_to_the_kth_object(tmp_path):
    file = save(tmp_path / "a.png", [[0, 1, 1, 3], [0, 0, 255, 3]])
    first, second, third = read_object_masks(file, (2, 4), 3)
    assert coco_mask.decode(first).tolist() == [[0, 1, 1, 0], [0, 0, 0, 0]]
    assert second is None
    assert mask_area(third) == 2


def test_objects_that_a_png_cannot_number_have_no_mask(tmp_path):
    file = save(tmp_path / "a.png", [[254, 255]])
    masks = read_object_masks(file, (1, 2), MAX_OBJECTS + 10)
    assert [index for index, mask in enumerate(masks) if mask is not None] == [253]


@pytest.mark.parametrize(
    ("mode", "size", "message"),
    [
        ("RGB", (1, 2), "expected 1 x 2 with one number per pixel, as its image, got 1 x 2 of mode RGB"),
        ("P", (2, 2), "expected 2 x 2 with one number per pixel, as its image, got 1 x 2 of mode"),
    ],
)
def test_a_map_of_another_kind_or_size_is_refused(tmp_path, mode, size, message):
    with pytest.raises(ValueError, match=message):
        read_object_masks(save(tmp_path / "a.png", [[0, 1]], mode), size, 1)


def test_a_file_that_is_no_image_is_named(tmp_path):
    (tmp_path / "a.png").write_bytes(b"no")
    with pytest.raises(OSError, match=r"a\.png: cannot read the image"):
        read_object_masks(tmp_path / "a.png", (1, 2), 1)


def test_masks_that_would_take_minutes_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(voc_masks, "_MAX_WORK", 11)
    file = save(tmp_path / "a.png", [[1, 2, 0], [0, 0, 0]])
    with pytest.raises(ValueError, match=r"a\.png: 2 objects are too many for masks of 6 pixels"):
        read_object_masks(file, (2, 3), 2)
    assert len(read_object_masks(file, (2, 3), 1)) == 1
