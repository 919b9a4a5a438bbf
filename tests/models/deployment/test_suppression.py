import pytest
import torch
from torch.testing import assert_close
from torchvision.ops import batched_nms

from equigrad.models.deployment.suppression import NOT_A_BOX, Boxes, best, blank, clip, kept_boxes


@pytest.fixture
def found():
    """Crowded boxes of two images, some of which do not count."""
    generator = torch.Generator().manual_seed(0)
    corners = torch.rand(2, 60, 2, generator=generator) * 40
    boxes = torch.cat([corners, corners + 5 + torch.rand(2, 60, 2, generator=generator) * 20], 2)
    scores = torch.rand(2, 60, generator=generator)
    scores[:, ::7] = NOT_A_BOX
    return Boxes(boxes, scores, torch.randint(0, 3, (2, 60), generator=generator))


def test_every_image_is_suppressed_as_if_it_were_alone(found):
    kept = kept_boxes(*found, 3, 0.5)
    for image, is_kept in enumerate(kept):
        counts = (found.scores[image] > NOT_A_BOX).nonzero()[:, 0]
        rows = [values[image][counts] for values in found]
        expected = counts[batched_nms(*rows, 0.5)]
        assert is_kept.nonzero()[:, 0].tolist() == sorted(expected.tolist())
    assert 0 < kept.sum() < (found.scores > NOT_A_BOX).sum()


def test_categories_far_along_are_told_apart_exactly():
    # In float32 a shift by 100,000 images rounds these boxes to quarters of a pixel, and their IoU to more than 0.5.
    boxes = torch.tensor([[[0.0, 0, 300, 1.0], [0, 0.35, 300, 1.35]]])
    kept = kept_boxes(boxes, torch.tensor([[0.9, 0.8]]), torch.full((1, 2), 99_999), 100_000, 0.5)
    assert kept.tolist() == [[True, True]]


def test_without_any_box_nothing_is_kept():
    assert not kept_boxes(torch.zeros(2, 4, 4), torch.full((2, 4), NOT_A_BOX), torch.zeros(2, 4).long(), 3, 0.5).any()


def test_the_best_come_first_and_rows_that_do_not_count_are_blank(found):
    few = blank(best(found, 58))
    num_boxes = (found.scores > NOT_A_BOX).sum(1)
    for image, count in enumerate(num_boxes.tolist()):
        assert (few.scores[image, :count].diff() <= 0).all()
        assert (few.labels[image, :count] >= 0).all()
        assert (few.labels[image, count:] == -1).all()
        assert not few.scores[image, count:].any()
        assert not few.boxes[image, count:].any()
    assert best(found, 1000).scores.shape == (2, 60)


def test_each_image_cuts_boxes_at_its_own_border():
    boxes = torch.tensor([[[-1.0, 2, 50, 60]]]).expand(2, 1, 4)
    cut = clip(boxes, torch.tensor([[40, 30], [20, 70]]))
    assert_close(cut, torch.tensor([[[0.0, 2, 30, 40]], [[0, 2, 50, 20]]]))
