"""Mask R-CNN on a few photographs: what it cannot learn by heart, it cannot learn."""

import pytest
import torch

import equigrad
from equigrad.evaluation.detection.evaluator import DetectionEvaluator
from equigrad.models.detection.pyramids.small_fpn import SmallFPN
from equigrad.models.detection.two_stage.mask_head import paste_masks
from equigrad.models.detection.two_stage.rcnn import mask_rcnn
from equigrad.models.detection.two_stage.roi_inference import RoIInference
from equigrad.models.detection.two_stage.roi_sampling import RoISampler
from equigrad.models.detection.two_stage.roi_scores import SoftmaxBackgroundScores
from models.overfitting import read_images
from shared_data import shared_folder

CHECK_EVERY = 10  # steps
MAX_STEPS = 150


def make_model(num_classes):
    return mask_rcnn(
        SmallFPN(16, num_channels=64),
        num_classes,
        equigrad.CrossEntropyLoss(),
        SoftmaxBackgroundScores(),
        background_column=num_classes,
        num_features=128,
        num_mask_channels=32,
        anchor_scale=4,
        num_proposals=100,
        sampler=RoISampler(64),
        inference=RoIInference(num_boxes=100),
    )


def to_original_image(prediction, target):
    original, shown = (torch.tensor(target[name]).flip(0).repeat(2) for name in ("original_size", "image_size"))
    boxes = prediction["boxes"] * original / shown
    return prediction | {
        "boxes": boxes,
        "masks": paste_masks(prediction["masks"], boxes, original.flip(0)[:2].tolist()),
    }


@torch.no_grad()
def average_precisions(model, images, targets, annotations, folder):
    """AP50 of masks and of boxes."""
    evaluator = DetectionEvaluator(annotations, folder, iou_types=("bbox", "segm"))
    evaluator.add(list(map(to_original_image, model.eval()(images, targets), targets)), targets)
    result = evaluator.result()
    return result["AP50"], result["APb50"]


def steps_to_learn(folder, work_folder, *, rate=3e-3, max_steps=MAX_STEPS, goal=0.9, seed=0):
    """Steps after which AP50 of masks and boxes exceed the goal on the images of the training; None if they do not."""
    torch.manual_seed(seed)
    annotations, (images, targets) = read_images(folder, with_masks=True)
    model = make_model(len(annotations.categories.ids)).to(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=1e-4)
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=10)
    for step in range(1, max_steps + 1):
        losses = model.train()(images, targets)
        optimizer.zero_grad()
        sum(losses.values()).backward()
        optimizer.step()
        warmup.step()
        if step % CHECK_EVERY == 0:
            reached = average_precisions(model, images, targets, annotations, work_folder / str(step))
            if min(reached) > goal:
                return step
    return None


@pytest.mark.slow
@pytest.mark.shared_data
def test_a_few_photographs_are_learned_by_heart(tmp_path):
    assert steps_to_learn(shared_folder("coco228"), tmp_path) is not None
