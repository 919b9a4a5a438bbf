import pytest
import torch
from tests.detection_items import rectangle
from torch.testing import assert_close

from equigrad.models.detection.two_stage import mask_head
from equigrad.models.detection.two_stage.mask_head import MaskBranch, MaskPredictor, mask_targets, paste_masks
from equigrad.models.detection.two_stage.roi_sampling import RoISample

SIZE = (40, 60)


def full_masks(predictor, features):
    """All masks (N, C, 2h, 2w), as torchvision computes them."""
    return predictor.mask_fcn_logits(predictor.conv5_mask(features).relu())


def test_only_the_mask_of_the_category_is_computed_and_it_is_the_right_one():
    torch.manual_seed(0)
    predictor = MaskPredictor(6, 4, num_masks=5).double()
    torch.nn.init.normal_(predictor.mask_fcn_logits.bias)
    features = torch.randn(3, 6, 7, 7, dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([4, 0, 4])
    expected = full_masks(predictor, features)[torch.arange(3), labels]
    found = predictor(features, labels)
    assert_close(found, expected)
    weights = [features, *predictor.parameters()]
    wanted = torch.autograd.grad(expected.square().sum(), weights)
    assert_close(torch.autograd.grad(found.square().sum(), weights), wanted)


def test_categories_may_share_one_mask():
    predictor = MaskPredictor(6, 4, num_masks=1)
    features = torch.randn(3, 6, 7, 7)
    assert_close(predictor(features, torch.tensor([9, 0, 4])), full_masks(predictor, features)[:, 0])


def test_a_roi_sees_its_part_of_the_mask_of_its_object():
    masks = torch.stack([rectangle(SIZE, (0, 0, 30, 40)), rectangle(SIZE, (0, 20, 60, 40))])
    rois = torch.tensor([[20.0, 10.0, 40.0, 30.0]] * 3)
    targets = mask_targets(masks, rois, torch.tensor([0, 1, 0]), 4)
    left = torch.tensor([[1.0, 1.0, 0.0, 0.0]] * 4)
    assert_close(targets.round(), torch.stack([left, left.T.flip(0), left]))


def test_masks_of_objects_are_looked_at_some_at_a_time(monkeypatch):
    torch.manual_seed(0)
    masks = torch.randint(0, 2, (7, *SIZE), dtype=torch.uint8)
    rois = torch.rand(20, 4) * 20
    rois[:, 2:] += 20
    matched = torch.randint(0, 7, (20,))
    together = mask_targets(masks, rois, matched, 14)
    monkeypatch.setattr(mask_head, "PIXELS_AT_ONCE", 2 * SIZE[0] * SIZE[1])
    assert torch.equal(mask_targets(masks, rois, matched, 14), together)


def test_a_batch_without_positives_has_a_loss_of_zero_that_reaches_every_weight():
    branch = MaskBranch(4, 3, ["0"], num_channels=4)
    nothing = RoISample(torch.zeros(0, 4), torch.zeros(0, dtype=torch.int64), torch.zeros(0, dtype=torch.int64))
    features = {"0": torch.randn(1, 4, 8, 8)}
    loss = branch.loss(features, [nothing], [torch.zeros(0, 32, 32, dtype=torch.uint8)], [(32, 32)])
    loss.backward()
    assert loss.item() == 0
    assert all(weight.grad is not None and not weight.grad.any() for weight in branch.parameters())


@pytest.mark.parametrize("box", [(10, 5, 38, 33), (0, 0, 60, 40), (3, 7, 5, 30)])
def test_a_full_mask_fills_its_box_up_to_the_corners(box):
    pasted = paste_masks(torch.ones(1, 28, 28), torch.tensor([box], dtype=torch.float32), SIZE)[0]
    expected = rectangle(SIZE, box)
    assert (pasted != expected).sum() <= 4
    assert pasted.dtype == torch.uint8


def test_half_a_mask_fills_half_of_its_box():
    mask = torch.zeros(28, 28)
    mask[:, :14] = 1
    pasted = paste_masks(mask[None], torch.tensor([[10.0, 4.0, 50.0, 32.0]]), SIZE)[0]
    assert (pasted != rectangle(SIZE, (10, 4, 30, 32))).sum() <= 30  # the line in the middle is as near to 1 as to 0


@pytest.mark.parametrize("box", [(-30.0, -30.0, -10.0, -5.0), (70.0, 50.0, 90.0, 80.0), (20.0, 10.0, 20.0, 10.0)])
def test_boxes_outside_or_without_area_leave_the_image_almost_empty(box):
    assert paste_masks(torch.ones(1, 28, 28), torch.tensor([box]), SIZE).sum() <= 1


def test_no_masks_are_no_pixels():
    assert paste_masks(torch.zeros(0, 28, 28), torch.zeros(0, 4), SIZE).shape == (0, *SIZE)
