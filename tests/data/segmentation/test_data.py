import pickle

import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader
from torchvision import tv_tensors

from equigrad import IGNORE, CrossEntropyLoss
from equigrad.data.segmentation.data import SegmentationDataset, collate_segmentation
from equigrad.data.segmentation.readers import read_label_folders
from equigrad.data.segmentation.transforms import evaluation_transform, train_transform
from segmentation_on_disk import write_set

MAPS = {"a": [[0, 0, 1], [255, 0, 1]], "b": [[1, 1, 255], [1, 1, 1]], "c": [[2, 2, 2], [2, 2, 0]]}
PLAIN = evaluation_transform(None)


@pytest.fixture
def folder(tmp_path):
    return write_set(tmp_path, MAPS)


@pytest.fixture
def data(folder):
    return read_label_folders("images", "labels", folder / "classes.txt", root=folder)


def test_an_item_is_an_image_and_its_labels(data):
    image, targets = SegmentationDataset(data, PLAIN)[0]
    assert isinstance(image, tv_tensors.Image)
    assert (image.shape, image.dtype) == ((3, 2, 3), torch.uint8)
    assert isinstance(targets["labels"], tv_tensors.Mask)
    assert targets["labels"].dtype == torch.int64
    assert targets["labels"].tolist() == [[0, 0, 1], [IGNORE, 0, 1]]
    assert (targets["path"], targets["original_size"]) == ("images/a.png", (2, 3))


def test_batches_are_plain_tensors_that_a_loss_takes(data):
    (batch,) = DataLoader(SegmentationDataset(data, PLAIN), batch_size=3, collate_fn=collate_segmentation)
    images, targets = batch
    assert type(images) is type(targets["labels"]) is torch.Tensor
    assert images.shape == (3, 3, 2, 3)
    assert targets["paths"] == ["images/a.png", "images/b.png", "images/c.png"]
    assert targets["original_sizes"] == [(2, 3)] * 3
    assert CrossEntropyLoss()(torch.zeros(3, 3, 2, 3), targets["labels"]).item() == pytest.approx(1.0986, abs=1e-4)


def test_a_batch_of_different_sizes_is_refused(tmp_path):
    folder = write_set(tmp_path, {"a": [[0]], "b": [[0, 1]]})
    data = read_label_folders("images", "labels", folder / "classes.txt", root=folder)
    dataset = SegmentationDataset(data, PLAIN)
    with pytest.raises(ValueError, match=r"images of a batch must have one size, got \(1, 1\) and \(1, 2\)"):
        collate_segmentation([dataset[0], dataset[1]])


def test_an_image_of_another_size_than_its_labels_is_refused(folder, data):
    Image.new("RGB", (5, 4)).save(folder / "images/b.png")
    with pytest.raises(ValueError, match=r"labels/b.png: 3 x 2 pixels, but its image .*images/b.png has 5 x 4"):
        SegmentationDataset(data, PLAIN)[1]


def test_a_damaged_image_is_named(folder, data):
    (folder / "images/b.png").write_bytes(b"no image")
    with pytest.raises(OSError, match=r"images/b.png: cannot read the image"):
        SegmentationDataset(data, PLAIN)[1]


def test_a_list_chooses_images_in_its_order(data, tmp_path):
    file = data.subset([2, 0]).write_list(tmp_path / "lists" / "some.txt")
    assert file.read_text() == "c\na\n"
    assert data.listed(file).paths == ("images/c.png", "images/a.png")
    assert data.listed(file).class_names == data.class_names


@pytest.mark.parametrize("line", ["../images/a", "/etc/passwd", "d"])
def test_a_list_cannot_name_what_is_not_in_the_data(data, tmp_path, line):
    (tmp_path / "some.txt").write_text(f"a\n{line}\n")
    with pytest.raises(ValueError, match=r"some.txt, line 2: .* has no image named"):
        data.listed(tmp_path / "some.txt")


def test_an_empty_or_missing_list_is_refused(data, tmp_path):
    (tmp_path / "empty.txt").write_text("\n")
    with pytest.raises(ValueError, match="found none"):
        data.listed(tmp_path / "empty.txt")
    with pytest.raises(FileNotFoundError, match="one name on each line"):
        data.listed(tmp_path / "gone.txt")


def test_the_fingerprint_follows_data_and_transform(data):
    same = SegmentationDataset(data, train_transform(64)).fingerprint()
    assert same == SegmentationDataset(data, train_transform(64)).fingerprint()
    assert same != SegmentationDataset(data, train_transform(32)).fingerprint()
    assert same != SegmentationDataset(data.subset([0, 1]), train_transform(64)).fingerprint()


def test_a_data_set_goes_to_worker_processes(data):
    dataset = pickle.loads(pickle.dumps(SegmentationDataset(data, train_transform(8))))
    assert dataset[0][1]["labels"].shape == (8, 8)
    assert dataset.sample_name(1).endswith("images/b.png")


def test_a_photograph_of_a_phone_is_read_as_its_label_map_is(folder, data):
    """The size of the label map shows whether it was made of the upright image or of the stored pixels."""
    exif = Image.Exif()
    exif[0x0112] = 6
    stored = {"a": (3, 2), "b": (2, 3)}  # width, height; both label maps are 2 x 3
    for name, size in stored.items():
        Image.new("RGB", size).save(folder / "images" / f"{name}.png", exif=exif)
    for index in range(2):
        image, _ = SegmentationDataset(data, PLAIN)[index]
        assert tuple(image.shape[-2:]) == (2, 3)
