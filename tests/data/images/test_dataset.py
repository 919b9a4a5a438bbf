import pytest
import torch
from torch.utils.data import DataLoader

from equigrad.data.images.dataset import ImageDataset
from equigrad.data.images.readers import read_image_list
from equigrad.data.images.transforms import small_evaluation_transform
from images_on_disk import write_images, write_list, zip_folder


@pytest.fixture
def images(tmp_path):
    paths = write_images(tmp_path / "images", {"big cat": 3, "dog": 2})
    return read_image_list(write_list(tmp_path / "train.txt", paths), tmp_path / "images")


def test_items_are_collated_by_torch(images):
    dataset = ImageDataset(images, small_evaluation_transform(8))
    pixels, targets = next(iter(DataLoader(dataset, batch_size=5)))
    assert (pixels.shape, pixels.dtype) == ((5, 3, 8, 8), torch.uint8)
    assert targets["labels"].tolist() == [0, 0, 0, 1, 1]
    assert targets["index"].tolist() == [0, 1, 2, 3, 4]
    assert targets["paths"][4] == "dog/1.png"
    assert dataset.sample_name(4).endswith("images/dog/1.png")


def test_workers_read_from_an_archive(tmp_path):
    paths = write_images(tmp_path / "images", {"cat": 6, "dog": 6})
    archive = zip_folder(tmp_path / "images", tmp_path / "images.zip")
    file = write_list(tmp_path / "train.txt", paths)
    from_zip, from_folder = (
        ImageDataset(read_image_list(file, root), small_evaluation_transform(8))
        for root in (archive, tmp_path / "images")
    )
    from_zip[0]  # the handle that is open when the workers are forked must not be shared
    batches = [pixels for pixels, _ in DataLoader(from_zip, batch_size=2, num_workers=2)]
    assert torch.equal(torch.cat(batches), torch.stack([pixels for pixels, _ in from_folder]))


def test_a_label_out_of_range_is_named_before_training(tmp_path):
    (tmp_path / "train.txt").write_text("a.png 0\nb.png 3\n")
    images = read_image_list(tmp_path / "train.txt", tmp_path, num_classes=3)
    with pytest.raises(ValueError, match=r"train\.txt: label 3 of b\.png must be in 0\.\.2"):
        ImageDataset(images, small_evaluation_transform(8))


def test_fingerprints_differ_with_list_and_transform(images):
    first = ImageDataset(images, small_evaluation_transform(8)).fingerprint()
    assert first == ImageDataset(images, small_evaluation_transform(8)).fingerprint()
    assert first != ImageDataset(images, small_evaluation_transform(9)).fingerprint()
    assert first != ImageDataset(images.subset([0, 1, 2, 4, 3]), small_evaluation_transform(8)).fingerprint()
