"""Mask R-CNN on eight photographs: what it cannot learn by heart, it cannot learn."""

import numpy as np
import pytest
import torch
from tests.shared_data import shared_folder

import equigrad
from equigrad.data.detection.batches import collate_detection
from equigrad.data.detection.dataset import DetectionDataset
from equigrad.data.detection.formats.coco_json import read_coco
from equigrad.data.detection.transforms import ResizeLongerSide
from equigrad.evaluation.detection.evaluator import DetectionEvaluator
from equigrad.models.detection.pyramids.small_fpn import SmallFPN
from equigrad.models.detection.two_stage.mask_head import paste_masks
from equigrad.models.detection.two_stage.rcnn import mask_rcnn
from equigrad.models.detection.two_stage.roi_sampling import RoISampler
from equigrad.models.detection.two_stage.roi_scores import SoftmaxBackgroundScores

NUM_STEPS = 190


def eight_images(folder):
    """The first eight with up to six objects, none of them a crowd or smaller than 24 pixels squared."""
    data = read_coco(folder / "instances_train128.json")
    is_hard = data.is_crowd | (data.areas < 24 * 24)
    num_objects, num_hard = (np.bincount(data.image_indices, which, len(data)) for which in (None, is_hard))
    return data.subset(np.flatnonzero((num_objects > 0) & (num_objects <= 6) & (num_hard == 0))[:8])


def train(model, images, targets):
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=NUM_STEPS, pct_start=0.1)
    for _ in range(NUM_STEPS):
        chosen = torch.randperm(len(images))[:4]
        losses = model(images[chosen], [targets[index] for index in chosen])
        optimizer.zero_grad()
        sum(losses.values()).backward()
        optimizer.step()
        schedule.step()


def in_the_original(prediction, target):
    original, shown = (target[name].flip(0).repeat(2) for name in ("original_size", "image_size"))
    boxes = prediction["boxes"] * original / shown
    return prediction | {
        "boxes": boxes,
        "masks": paste_masks(prediction["masks"], boxes, original.flip(0)[:2].tolist()),
    }


@pytest.mark.slow
@pytest.mark.shared_data
def test_eight_photographs_are_learned_by_heart(tmp_path):
    folder = shared_folder("coco228")
    data = eight_images(folder)
    dataset = DetectionDataset(data, folder / "images.zip", ResizeLongerSide((256,)), with_masks=True)
    images, targets = collate_detection([dataset[index] for index in range(8)])
    torch.manual_seed(0)
    num_classes = len(data.categories.ids)
    model = mask_rcnn(
        SmallFPN(16, num_channels=64),
        num_classes,
        equigrad.CrossEntropyLoss(),
        SoftmaxBackgroundScores(),
        background_column=num_classes,
        num_features=256,
        num_mask_channels=32,
        anchor_scale=4,
        num_proposals=200,
        sampler=RoISampler(64),
    )
    train(model, images, targets)
    evaluator = DetectionEvaluator(data, tmp_path, iou_types=("bbox", "segm"))
    with torch.no_grad():
        predictions = model.eval()(images, targets)
    evaluator.add(list(map(in_the_original, predictions, targets)), targets)
    result = evaluator.result()
    assert result["AP50"] > 0.9
    assert result["APb50"] > 0.9
