import pytest
import torch

from detection_items import make_item, rectangle
from equigrad.tasks.detection.preprocessing import Mosaics, ShorterSide

ITEM = make_item([rectangle((60, 90), (10, 10, 40, 50))], (60, 90), with_masks=False)


class Items:
    """Some images."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return ITEM


def test_the_test_has_one_size_and_a_limit_of_the_longer_side():
    preprocessing = ShorterSide(short=(30,), test_short=120, long=150)
    image, target = preprocessing.testing()(*ITEM)
    assert tuple(image.shape[-2:]) == (100, 150)
    torch.testing.assert_close(torch.as_tensor(target["boxes"])[0], torch.tensor([10, 10, 40, 50]) * 150 / 90)


def test_training_sizes_are_drawn_from_those_given():
    items = ShorterSide(short=(30, 45), test_short=60, long=200).training(Items())
    assert {items[0][0].shape[-2] for _ in range(30)} == {30, 45}


@pytest.mark.parametrize(("flip", "left"), [(0.0, {10.0}), (1.0, {50.0})])
def test_images_are_mirrored_as_often_as_told(flip, left):
    items = ShorterSide(short=(60,), test_short=60, long=90, flip=flip).training(Items())
    assert {float(items[0][1]["boxes"][0, 0]) for _ in range(8)} == left


def test_batches_are_padded_to_the_stride():
    preprocessing = ShorterSide(short=(60,), test_short=60, long=90, stride=64)
    images, targets = preprocessing.collate()([preprocessing.testing()(*ITEM)])
    assert tuple(images.shape) == (1, 3, 64, 128)
    assert tuple(targets[0]["image_size"]) == (60, 90)


def test_smaller_views_keep_their_proportions():
    small = ShorterSide().at_size(80)
    assert (small.test_short, small.long) == (80, 133)
    assert small.short == (64, 67, 70, 74, 77, 80)
    assert small.flip == 0.5


def test_mosaics_are_seen_in_some_of_the_sizes_and_the_test_in_one():
    preprocessing = Mosaics(size=64, sizes=(32, 64), num_strong_epochs=1)
    items = preprocessing.training(Items())
    assert {max(items[0][0].shape[-2:]) for _ in range(20)} == {32, 64}
    image, _ = preprocessing.testing()(*ITEM)
    assert tuple(image.shape[-2:]) == (64, 64)


def test_after_the_strong_epochs_images_stay_alone():
    items = Mosaics(size=64, sizes=(90,), num_strong_epochs=1).training(Items())
    items.set_epoch(1)
    image, target = items[0]
    assert tuple(image.shape[-2:]) == (60, 90)
    assert len(target["boxes"]) == 1


def test_smaller_mosaics_have_sizes_that_networks_take():
    small = Mosaics().at_size(64)
    assert small.size == 64
    assert small.sizes == (32, 64, 96) or set(small.sizes) <= {32, 64, 96}
    assert all(side % 32 == 0 for side in small.sizes)
