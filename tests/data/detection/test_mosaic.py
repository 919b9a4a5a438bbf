import pickle

import pytest
import torch
from torchvision import tv_tensors

from detection_items import check_boxes_are_those_of_the_masks, check_item, disc, make_item, rectangle
from equigrad.data.detection.batches import collate_detection
from equigrad.data.detection.dataset import DetectionDataset
from equigrad.data.detection.formats.coco_json import read_coco
from equigrad.data.detection.mosaic import (
    MixupDataset,
    MosaicDataset,
    StrongThenPlain,
    mixup,
    mosaic,
    yolox_train,
)
from equigrad.data.detection.object_masks import tight_boxes
from equigrad.engine.loading.step_loader import StepLoader
from equigrad.sampling import ShuffledSampler
from shared_data import shared_folder


def boxes_of(target):
    return target["boxes"].as_subclass(torch.Tensor)


def flat(value, size, box, image_id=7):
    """An image of one value with one rectangle as its object."""
    image, target = make_item([rectangle(size, box)], size, image_id=image_id)
    return tv_tensors.Image(torch.full_like(image, value)), target


class Drawn:
    """Discs and rectangles of several sizes; every fourth image is empty."""

    def __len__(self):
        return 12

    def __getitem__(self, index):
        size = (60 + 5 * index, 110 - 4 * index)
        masks = [rectangle(size, (5, 6, 35, 50)), disc(size, (40, 40), (15, 12))]
        return make_item([] if index % 4 == 3 else masks, size, image_id=index)


@pytest.fixture
def four():
    """Sizes that reach the border of a canvas of 100 x 100, or do not, around row 40 and column 60."""
    return [
        flat(1, (50, 30), (0, 0, 10, 45), image_id=1),
        flat(2, (20, 50), (5, 5, 50, 20), image_id=2),
        flat(3, (30, 70), (10, 0, 30, 20), image_id=3),
        flat(4, (80, 20), (0, 50, 20, 80), image_id=4),
    ]


def test_a_mosaic_places_four_images_around_its_centre(four):
    image, target = mosaic(four, (100, 100), (40, 60), fill=9)
    expected = torch.full((100, 100), 9, dtype=torch.uint8)
    expected[0:40, 30:60] = 1
    expected[20:40, 60:100] = 2
    expected[40:70, 0:60] = 3
    expected[40:100, 60:80] = 4
    assert torch.equal(image, expected.expand(3, 100, 100))
    check_item(image, target | {"weights": (target["labels"] - 10) / 4})
    # By hand: 1 goes to (-10, 30), 2 to (20, 60), 3 to (40, -10), 4 to (40, 60); each as (row, column).
    assert boxes_of(target).tolist() == [[30, 0, 40, 35], [65, 25, 100, 40], [0, 40, 20, 60], [60, 90, 80, 100]]
    check_boxes_are_those_of_the_masks(target, tolerance=0)
    assert target["image_id"] == 1


def test_objects_that_a_mosaic_cuts_off_are_dropped(four):
    four[0] = flat(1, (50, 30), (0, 0, 10, 9))  # above the canvas
    _, target = mosaic(four, (100, 100), (40, 60))
    assert len(target["boxes"]) == len(target["masks"]) == len(target["labels"]) == 3


def test_a_mosaic_takes_four_images(four):
    with pytest.raises(ValueError, match="made of 4 images, got 3"):
        mosaic(four[:3], (100, 100), (40, 60))


def test_mixup_is_the_mean_of_both_with_the_objects_of_both():
    first, second = flat(201, (20, 30), (0, 0, 5, 5)), flat(100, (20, 30), (6, 6, 9, 9), image_id=8)
    second[0][:, 0, 0] = 255
    image, target = mixup(first, second)
    assert image.dtype == torch.uint8
    assert (image[:, 0, 0] == 228).all()  # no overflow
    assert (image[:, 1:] == 150).all()
    assert boxes_of(target).tolist() == [[0, 0, 5, 5], [6, 6, 9, 9]]
    assert target["masks"].shape == (2, 20, 30)
    assert target["image_id"] == 7


def test_mixup_refuses_images_of_other_sizes():
    with pytest.raises(ValueError, match=r"the same shape, got \(3, 20, 30\) and \(3, 20, 31\)"):
        mixup(flat(1, (20, 30), (0, 0, 5, 5)), flat(1, (20, 31), (0, 0, 5, 5)))


def test_an_empty_image_is_not_mixed_and_mixes_none():
    full, empty = [flat(80, (40, 40), (5, 5, 35, 35))], [make_item([], (40, 40))]
    for first, second in ((full, empty), (empty, full)):
        image, target = MixupDataset(first, second, (1.0, 1.0))[0]
        assert torch.equal(image, first[0][0])
        assert len(target["boxes"]) == len(first[0][1]["boxes"])


def test_the_image_mixed_in_is_scaled_mirrored_and_cut():
    white = flat(100, (40, 40), (0, 0, 40, 40))
    other = flat(200, (20, 10), (0, 0, 10, 20))
    torch.manual_seed(0)
    seen = set()
    for _ in range(40):
        image, target = MixupDataset([white], [other], (0.5, 0.5), fill=0)[0]
        check_boxes_are_those_of_the_masks(target, tolerance=0)
        seen.add(tuple(boxes_of(target)[1].tolist()))
        left = int(boxes_of(target)[1][0])
        assert (image[:, :20, left : left + 10] == 150).all()
        assert (image[:, 20:] == 50).all()
    assert seen == {(0, 0, 10, 20), (10, 0, 20, 20)}  # mirrored within the 20 x 20 it would be padded to


def test_a_larger_image_mixed_in_is_cut_at_random():
    torch.manual_seed(0)
    white, other = flat(100, (40, 40), (0, 0, 40, 40)), flat(200, (40, 40), (10, 10, 30, 30))
    results = [MixupDataset([white], [other], (2.0, 2.0))[0] for _ in range(30)]
    assert all((image == 150).all() for image, target in results if len(target["boxes"]) == 2)
    assert len({tuple(boxes_of(target)[-1].tolist()) for _, target in results}) > 10
    for _, target in results:
        check_boxes_are_those_of_the_masks(target, tolerance=0)


def test_an_object_of_which_little_would_be_seen_is_not_mixed_in():
    first, other = flat(100, (40, 40), (0, 0, 40, 40)), flat(200, (40, 40), (0, 0, 40, 40))
    assert len(MixupDataset([first], [other], (2.0, 2.0))[0][1]["boxes"]) == 2  # a quarter is seen
    image, target = MixupDataset([first], [other], (3.0, 3.0))[0]  # a ninth
    assert len(target["boxes"]) == 1
    assert torch.equal(image, first[0])


@pytest.mark.parametrize("mixup_scale", [None, (0.8, 1.6)])
@pytest.mark.parametrize("epoch", [0, 1])
def test_yolox_data_keeps_boxes_and_masks_together(mixup_scale, epoch):
    dataset = yolox_train(Drawn(), 96, num_strong_epochs=1, sizes=(64, 96, 128), mixup_scale=mixup_scale)
    dataset.set_epoch(epoch)
    torch.manual_seed(0)
    for index in range(len(dataset)):
        image, target = dataset[index]
        check_item(image, target)
        check_boxes_are_those_of_the_masks(target, tolerance=2)
        assert max(image.shape) in (64, 96, 128)
        assert target["image_id"] == index


def test_yolox_data_follows_the_seed_of_torch_alone():
    dataset = yolox_train(Drawn(), 64, num_strong_epochs=1)
    torch.manual_seed(3)
    first = dataset[2]
    dataset[5]
    torch.manual_seed(3)
    again = pickle.loads(pickle.dumps(dataset))[2]
    assert torch.equal(first[0], again[0])
    assert torch.equal(first[1]["boxes"], again[1]["boxes"])


def test_a_mosaic_of_empty_images_is_empty():
    empty = [make_item([], (30, 40), image_id=number) for number in range(5)]
    dataset = yolox_train(empty, 64, num_strong_epochs=1)
    image, target = dataset[0]
    check_item(image, target)
    assert len(target["boxes"]) == 0


def test_others_of_a_mosaic_are_drawn_from_the_whole_data_set():
    images = [flat(50 + number, (40, 40), (5, 5, 35, 35)) for number in range(6)]
    whole = MosaicDataset(images, (40, 40), lambda image, target: (image, target))
    torch.manual_seed(0)
    seen = torch.cat([whole[0][0].unique() for _ in range(20)]).unique()
    assert set(seen.tolist()) == {0, *range(50, 56)}


def test_the_epoch_switches_from_strong_to_plain():
    strong, plain = [flat(1, (8, 8), (0, 0, 4, 4))] * 3, [flat(2, (8, 8), (0, 0, 4, 4))] * 3
    dataset = StrongThenPlain(strong, plain, num_strong_epochs=2)
    shown = []
    for epoch in (0, 1, 2, 3, 1):  # back again: a resumed run may begin anywhere
        dataset.set_epoch(epoch)
        shown.append(int(dataset[0][0][0, 0, 0]))
    assert shown == [1, 1, 2, 2, 1]
    assert len(dataset) == 3


def batches_of(num_workers, epochs, position=0):
    """All images and boxes that the engine reads in some epochs, the first one from a position on."""
    dataset = yolox_train(Drawn(), 64, num_strong_epochs=1, sizes=(64,))
    loader = StepLoader(
        dataset,
        ShuffledSampler(len(dataset), seed=1),
        batch_size=2,
        num_micro_batches=1,
        collate=collate_detection,
        num_workers=num_workers,
        seed=3,
        on_error="stop",
        sample_name=str,
        pin_memory=False,
    )
    starts = [position] + [0] * (len(epochs) - 1)
    if position:
        loader.sampler.load_state_dict(loader.sampler.state_dict(epoch=epochs[0], position=position))
    steps = [step for epoch, start in zip(epochs, starts, strict=True) for step in loader.epoch(epoch, start)]
    return [batch.data for batches, _ in steps for batch in batches]


def test_workers_and_resuming_change_nothing_over_the_switch():
    alone, worked, resumed = batches_of(0, (0, 1)), batches_of(2, (0, 1)), batches_of(2, (0, 1), position=8)
    assert len(alone) == 12
    assert [images.shape[-2:] == (64, 64) for images, _ in alone[:6]] == [True] * 6  # mosaics are square
    assert not all((images[:, :, -1] > 0).all() for images, _ in alone[6:])  # plain images are not
    for others in (worked, [*alone[:4], *resumed]):
        for (images, targets), (other_images, other_targets) in zip(alone, others, strict=True):
            assert torch.equal(images, other_images)
            assert all(torch.equal(a["boxes"], b["boxes"]) for a, b in zip(targets, other_targets, strict=True))


def test_strong_and_plain_data_have_the_same_length():
    with pytest.raises(ValueError, match="the same length, got 2 and 3"):
        StrongThenPlain([1, 2], [1, 2, 3], num_strong_epochs=1)


@pytest.mark.shared_data
def test_boxes_of_photographs_stay_on_their_masks():
    folder = shared_folder("coco228")
    data = read_coco(folder / "instances_train128.json")
    photographs = DetectionDataset(data, folder / "images.zip", with_masks=True)
    dataset = yolox_train(photographs, 320, num_strong_epochs=1, sizes=(320,))
    torch.manual_seed(0)
    targets = [dataset[index][1] for index in range(8)]
    distances = torch.cat([(boxes_of(target) - tight_boxes(target["masks"])).abs().amax(1) for target in targets])
    assert len(distances) > 50
    assert distances.max() <= 3  # the annotations themselves are off by as much
    assert distances.median() <= 1
