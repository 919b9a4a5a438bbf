import torch
from hypothesis import given, settings, strategies as st
from tests.models.detection_cases import iou, objects

from equigrad import BACKGROUND
from equigrad.models.detection.two_stage.roi_sampling import RoISampler


def proposals_near(boxes, count):
    return (boxes.repeat(count, 1) + torch.randint(-4, 5, (count * len(boxes), 4)) * 0.5).float()


@settings(max_examples=80)
@given(objects=objects(), seed=st.integers(0, 1000), num_rois=st.integers(1, 40))
def test_a_roi_has_the_category_of_the_object_it_overlaps_most_and_the_draw_keeps_its_limits(objects, seed, num_rois):
    torch.manual_seed(seed)
    boxes, labels = objects
    proposals = torch.cat([proposals_near(boxes, 4), torch.tensor([[0.0, 0, 5, 5]] * 5)])
    sample = RoISampler(num_rois)(proposals, boxes, labels)
    assert len(sample.boxes) <= num_rois
    assert (sample.labels >= 0).sum() <= num_rois // 4
    for roi, label, matched in zip(*sample, strict=True):
        overlaps = [iou(roi.tolist(), box.tolist()) if roi[2] > roi[0] and roi[3] > roi[1] else 0 for box in boxes]
        best = max(overlaps, default=0)
        assert (int(label) == BACKGROUND) == (best < 0.5 - 1e-6) or abs(best - 0.5) < 1e-6
        if matched >= 0:
            assert overlaps[matched] > best - 1e-6
            assert label == labels[matched]
        else:
            assert label == BACKGROUND


def test_objects_are_rois_too():
    boxes = torch.tensor([[0.0, 0, 10, 10], [20, 20, 40, 40]])
    sample = RoISampler()(torch.zeros(0, 4), boxes, torch.tensor([3, 1]))
    assert torch.equal(sample.boxes, boxes)
    assert sample.labels.tolist() == [3, 1]
    assert sample.positives().matched.tolist() == [0, 1]


def test_background_fills_what_positives_leave():
    boxes = torch.tensor([[0.0, 0, 10, 10]])
    far = torch.tensor([[50.0, 50, 60, 60]]).repeat(100, 1)
    near = boxes.repeat(100, 1)
    sample = RoISampler(num_rois=40)(torch.cat([near, far]), boxes, torch.tensor([2]))
    assert (sample.labels == 2).sum() == 10
    assert (sample.labels == BACKGROUND).sum() == 30


def test_an_image_without_objects_or_proposals_has_a_sample():
    none = RoISampler()(torch.zeros(0, 4), torch.zeros(0, 4), torch.zeros(0, dtype=torch.int64))
    assert none.boxes.shape == (0, 4)
    background = RoISampler()(torch.rand(7, 4), torch.zeros(0, 4), torch.zeros(0, dtype=torch.int64))
    assert background.labels.tolist() == [BACKGROUND] * 7
