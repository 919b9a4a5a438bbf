import torch
from torch.utils.data import DataLoader

from detection_items import make_item, rectangle
from equigrad.data.detection.batches import collate_detection
from equigrad.data.detection.object_masks import ObjectMasks
from equigrad.data.detection.transforms import letterbox


def item(size, boxes=((2, 3, 12, 9),), with_masks=True):
    return make_item([rectangle(size, box) for box in boxes], size, with_masks=with_masks)


def test_images_are_padded_to_a_common_multiple_of_the_stride():
    items = [item((40, 60)), item((33, 97))]
    images, _ = collate_detection(items)
    assert (tuple(images.shape), images.dtype) == ((2, 3, 64, 128), torch.uint8)
    for image, (given, _) in zip(images, items, strict=True):
        height, width = given.shape[-2:]
        assert torch.equal(image[:, :height, :width], given)
        assert not image[:, height:].any()
        assert not image[:, :, width:].any()
    assert collate_detection(items, 128)[0].shape == (2, 3, 128, 128)


def test_images_that_fit_get_no_padding():
    images, targets = collate_detection([item((64, 32))])
    assert images.shape == (1, 3, 64, 32)
    assert targets[0]["image_size"] == (64, 32)


def test_padding_may_have_the_colour_of_the_mean():
    images, _ = collate_detection([item((32, 20))], fill=(124, 116, 104))
    assert images[0, :, 0, 25].tolist() == [124, 116, 104]


def test_targets_become_plain_tensors_and_what_describes_the_image_stays_on_the_host():
    _, targets = collate_detection([item((40, 60)), item((50, 50), boxes=())])
    for target in targets:
        assert all(type(value) in (torch.Tensor, int, tuple, ObjectMasks) for value in target.values())
    full, empty = targets
    assert full["boxes"].tolist() == [[2, 3, 12, 9]]
    assert (full["image_id"], full["original_size"], full["image_size"]) == (7, (40, 60), (40, 60))
    assert (len(full["masks"]), full["masks"].size) == (1, (40, 60))
    assert (empty["boxes"].shape, empty["labels"].shape) == ((0, 4), (0,))
    assert (len(empty["masks"]), empty["masks"].size) == (0, (50, 50))


def test_texts_stay_and_views_leave_their_storage_behind():
    image, target = item((40, 60))
    target |= {"file_name": "a.jpg", "weights": torch.arange(100.0)[3:4]}
    plain = collate_detection([(image, target)])[1][0]
    assert plain["file_name"] == "a.jpg"
    assert plain["weights"].untyped_storage().nbytes() == 4
    assert plain["masks"].pixels.untyped_storage().nbytes() == 60


def test_a_size_that_a_transform_noted_is_kept():
    images, targets = collate_detection([letterbox(96)(*item((40, 60)))])
    assert images.shape == (1, 3, 96, 96)
    assert targets[0]["image_size"] == (64, 96)


def test_workers_give_the_batches_that_one_process_gives():
    items = [item((40 + number, 60)) for number in range(6)]
    alone, worked = (
        list(DataLoader(items, batch_size=2, collate_fn=collate_detection, num_workers=number)) for number in (0, 2)
    )
    for (images, targets), (worker_images, worker_targets) in zip(alone, worked, strict=True):
        assert torch.equal(images, worker_images)
        assert torch.equal(targets[1]["masks"].dense([0]), worker_targets[1]["masks"].dense([0]))
