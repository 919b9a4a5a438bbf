import multiprocessing
import tracemalloc

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader
from torchvision import tv_tensors

from detection_on_disk import annotation, coco, image, write_json, write_pictures
from equigrad.data.detection.dataset import DetectionDataset
from equigrad.data.detection.formats.coco_json import read_coco
from equigrad.data.detection.transforms import train_transform
from images_on_disk import zip_folder
from quick_processes import quick_context
from shared_data import shared_folder


@pytest.fixture
def data(tmp_path):
    write_pictures(tmp_path / "images", coco())
    return read_coco(write_json(tmp_path / "a.json", coco()))


@pytest.fixture
def images(tmp_path):
    return tmp_path / "images"


def test_an_item_is_an_image_and_its_target(data, images):
    picture, target = DetectionDataset(data, images, with_masks=True)[0]
    assert isinstance(picture, tv_tensors.Image)
    assert (picture.shape, picture.dtype) == ((3, 8, 12), torch.uint8)
    np.testing.assert_array_equal(picture.permute(1, 2, 0), np.asarray(Image.open(images / "1.png")))
    assert isinstance(target["boxes"], tv_tensors.BoundingBoxes)
    assert target["boxes"].canvas_size == (8, 12)
    assert target["boxes"].tolist() == [[2, 1, 6, 5], [0.5, 0, 3.5, 2]]  # without the crowd
    assert target["boxes"].dtype == torch.float32
    assert (target["labels"].tolist(), target["labels"].dtype) == ([0, 1], torch.int64)
    assert isinstance(target["masks"], tv_tensors.Mask)
    assert (target["masks"].shape, target["masks"].dtype) == ((2, 8, 12), torch.uint8)
    assert target["masks"][0, 1:5, 2:6].all()
    assert target["masks"][0].sum() == 16
    assert (target["image_id"], target["original_size"]) == (1, (8, 12))


def test_an_image_without_annotation_has_empty_targets(data, images):
    _, target = DetectionDataset(data, images, with_masks=True)[1]
    assert (target["boxes"].shape, target["labels"].shape, target["masks"].shape) == ((0, 4), (0,), (0, 8, 12))


def test_empty_images_are_kept_or_dropped_and_said(data, images):
    kept = DetectionDataset(data, images)
    dropped = DetectionDataset(data, images, keep_empty=False)
    assert (len(kept), len(dropped)) == (2, 1)
    assert "1 of 2 images have no annotation and are kept" in kept.describe()
    assert "1 of 2 images have no annotation and are dropped" in dropped.describe()
    assert "\n" not in kept.describe()
    assert dropped[0][1]["image_id"] == 1


def test_boxes_without_area_in_the_image_are_left_out_and_said(tmp_path, images):
    boxes = [(1, 1, 0, 3), (20, 1, 3, 3), (5, 5, -2, 2), (10, 2, 5, 3)]
    records = [annotation(index, box=box) for index, box in enumerate(boxes, start=1)]
    data = read_coco(write_json(tmp_path / "b.json", coco([image(1)], records)))
    dataset = DetectionDataset(data, write_pictures(images, coco()))
    assert dataset[0][1]["boxes"].tolist() == [[10, 2, 15, 5]]
    assert "3 boxes without area in the image are left out" in dataset.describe()


def test_a_transform_gets_and_gives_image_and_target(data, images):
    dataset = DetectionDataset(data, images, lambda picture, target: (picture.flip(-1), target["labels"] + 5))
    picture, target = dataset[0]
    assert target.tolist() == [5, 6]
    assert torch.equal(picture.flip(-1), DetectionDataset(data, images)[0][0])


def test_the_root_may_be_the_folder_of_the_split_itself(tmp_path):
    url = "http://images.cocodataset.org/train2017/{:012d}.jpg"
    records = [{"id": number, "height": 8, "width": 12, "coco_url": url.format(number)} for number in (1, 2)]
    files = {"images": [image(number, file_name=f"train2017/{number:012d}.jpg") for number in (1, 2)]}
    write_pictures(tmp_path, files)
    data = read_coco(write_json(tmp_path / "a.json", coco(records, [])))
    above, inside = DetectionDataset(data, tmp_path), DetectionDataset(data, tmp_path / "train2017")
    assert torch.equal(above[1][0], inside[1][0])
    assert inside.sample_name(1).endswith("train2017/000000000002.jpg")


@pytest.mark.parametrize("start", ["images/", "/home/me/images/"])
def test_file_names_may_start_in_a_folder_above_that_of_the_images(tmp_path, start):
    names = ["a/1.png", "a/2.png", "3.png"]
    for name in names[1:]:  # the first is missing, which does not matter yet
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.new("RGB", (12, 8)).save(tmp_path / name)
    content = coco([image(number, file_name=f"{start}{name}") for number, name in enumerate(names, start=1)], [])
    assert DetectionDataset(read_coco(write_json(tmp_path / "a.json", content)), tmp_path).paths == tuple(names)


def test_file_names_that_repeat_are_not_looked_for_without_their_folder(tmp_path):
    content = coco([image(1, file_name="a/1.png"), image(2, file_name="b/1.png")], [])
    write_pictures(tmp_path, {"images": [image(1)]})  # 1.png at the root: of which of them?
    data = read_coco(write_json(tmp_path / "a.json", content))
    with pytest.raises(FileNotFoundError, match=r"a/1.png: no such image"):
        DetectionDataset(data, tmp_path)


def test_masks_need_segmentations(tmp_path, images):
    write_pictures(images, coco())
    data = read_coco(write_json(tmp_path / "b.json", coco(annotations=[annotation(1)])))
    with pytest.raises(ValueError, match=r"b.json: with_masks needs annotations with a segmentation"):
        DetectionDataset(data, images, with_masks=True)


def test_an_image_of_another_size_is_refused(data, images):
    Image.new("RGB", (8, 12)).save(images / "1.png")
    with pytest.raises(ValueError, match=r"1.png: expected height x width 8 x 12 as in .*a.json, got 12 x 8"):
        DetectionDataset(data, images)[0]


def test_a_truncated_image_is_named(data, images):
    content = (images / "2.png").read_bytes()
    (images / "2.png").write_bytes(content[: len(content) // 2])
    with pytest.raises(OSError, match=r"2.png: cannot read the image"):
        DetectionDataset(data, images)[1]


def test_a_decompression_bomb_is_refused(data, images, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 40)  # the 96 pixels here are more than twice as many
    with pytest.raises(OSError, match=r"1.png: cannot read the image \(.*decompression bomb"):
        DetectionDataset(data, images)[0]


def test_fingerprints_differ_when_the_annotations_do(tmp_path, data, images):
    other = read_coco(write_json(tmp_path / "b.json", coco(annotations=[annotation(5)])))
    assert DetectionDataset(data, images).fingerprint() == DetectionDataset(data, images).fingerprint()
    assert DetectionDataset(data, images).fingerprint() != DetectionDataset(other, images).fingerprint()


@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_workers_read_masks_and_images_of_an_archive(data, images, method):
    dataset = DetectionDataset(data, zip_folder(images, images.parent / "images.zip"), with_masks=True)
    expected = [dataset[index] for index in range(2)]  # handles are open when workers start
    loader = DataLoader(
        dataset,
        batch_size=1,
        num_workers=2,
        collate_fn=_only_item,
        multiprocessing_context=multiprocessing.get_context(method) if method == "fork" else quick_context(),
    )
    for (picture, target), (expected_picture, expected_target) in zip(loader, expected, strict=True):
        assert torch.equal(picture, expected_picture)
        assert torch.equal(target["masks"], expected_target["masks"])
        assert target["image_id"] == expected_target["image_id"]


def _only_item(items):
    return items[0]


@pytest.mark.shared_data
def test_masks_of_real_images_fill_their_boxes():
    folder = shared_folder("coco228")
    data = read_coco(folder / "instances_train128.json")
    dataset = DetectionDataset(data, folder / "images.zip", with_masks=True)
    for index in range(0, len(dataset), 16):
        picture, target = dataset[index]
        assert picture.shape[1:] == target["original_size"]
        for box, mask in zip(target["boxes"], target["masks"], strict=True):
            rows, columns = np.nonzero(mask.numpy())
            if len(rows) > 20:
                found = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
                assert np.abs(np.array(found) - box.numpy()).max() <= 2


def test_three_hundred_masks_are_read_and_transformed_in_few_bytes(tmp_path):
    rng = np.random.default_rng(0)
    corners = rng.uniform((0, 0), (1200, 700), (300, 2))
    objects = [
        annotation(number, box=(x, y, 90, 60), segmentation=[[x, y, x + 90, y, x + 45, y + 60]])
        for number, (x, y) in enumerate(corners.tolist(), 1)
    ]
    content = coco([image(1, height=800, width=1333)], objects)
    write_pictures(tmp_path / "images", content)
    data = read_coco(write_json(tmp_path / "a.json", content))
    dataset = DetectionDataset(data, tmp_path / "images", train_transform(), with_masks=True, dense_masks=False)
    dataset[0]  # what is imported and cached does not count
    tracemalloc.start()
    _, target = dataset[0]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(target["masks"]) == 300
    assert peak < 40e6  # the image with its file takes most of it; dense masks are 320 MB


@pytest.mark.parametrize("stated", [(7, 5), (5, 7)])
def test_a_photograph_of_a_phone_is_read_as_its_annotations_are(tmp_path, stated):
    """Annotations of the upright image, as of most tools, and of the stored pixels: the stated size shows which."""
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (7, 5)).save(tmp_path / "phone.jpg", exif=exif)
    record = image(1, file_name="phone.jpg", height=stated[0], width=stated[1])
    content = coco([record], [annotation(1, box=(1, 1, 3, 3))])
    found, _ = DetectionDataset(read_coco(write_json(tmp_path / "a.json", content)), tmp_path)[0]
    assert tuple(found.shape[-2:]) == stated
