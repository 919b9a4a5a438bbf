"""Real images that a detector must be able to learn by heart, and how many steps it takes."""

from functools import partial

import numpy as np
import torch

import equigrad
from equigrad.data.detection.batches import collate_detection
from equigrad.data.detection.dataset import DetectionDataset
from equigrad.data.detection.formats.coco_json import read_coco
from equigrad.data.detection.transforms import ResizeLongerSide
from equigrad.evaluation.detection.evaluator import evaluate
from equigrad.evaluation.detection.predictions import Predictions
from equigrad.models.detection.boxes import pairwise_iou, sides
from equigrad.models.detection.one_stage.atss import atss, improved_atss
from equigrad.models.detection.one_stage.fcos import fcos
from equigrad.models.detection.one_stage.paa import paa
from equigrad.models.detection.one_stage.retinanet import retinanet
from equigrad.models.detection.one_stage.yolox import yolox, yolox_star
from equigrad.models.detection.pyramids.lite_fpn import LiteFPN

SIZE = 128
LEAST_SIDE = 32  # pixels of every object at that size
MOST_OVERLAP = 0.3  # IoU of two objects: at this size they would compete for the same few anchors
CHECK_EVERY = 5  # steps


def open_fcos(*arguments, **settings):
    """FCOS that starts with distances of about one stride: a ReLU that is 0 on all of a few images stays 0."""
    model = fcos(*arguments, **settings)
    torch.nn.init.constant_(model.head.boxes.bias, 1.0)
    return model


# Builder, a loss of C categories, whether it takes the quality.
DETECTORS = {
    "retinanet": (retinanet, lambda num_classes: equigrad.FocalLoss(), False),
    "fcos": (open_fcos, lambda num_classes: equigrad.FocalLoss(), False),
    "atss": (atss, lambda num_classes: equigrad.FocalLoss(), False),
    "paa": (paa, lambda num_classes: equigrad.FocalLoss(), False),
    "improved_atss": (improved_atss, equigrad.EqualizedFocalLoss, False),
    # With L1 from the start: there are no epochs here.
    "yolox": (partial(yolox, first_l1_epoch=0), lambda num_classes: equigrad.QualityFocalLoss(focus=0), True),
    "yolox_star": (yolox_star, equigrad.EqualizedQualityFocalLoss, True),
}


def read_images(folder, count=6, *, with_masks=False):
    """Annotations and a batch of the first images with large objects that do not hide each other."""
    data = read_coco(folder / "instances_train128.json")
    transform = ResizeLongerSide((SIZE,))
    dataset = DetectionDataset(data, folder / "images.zip", transform, with_masks=with_masks, keep_empty=False)
    items, chosen = [], []
    for index in range(len(dataset)):
        image, target = dataset[index]
        boxes = target["boxes"]
        if sides(boxes).amin() >= LEAST_SIDE and pairwise_iou(boxes, boxes).fill_diagonal_(0).amax() < MOST_OVERLAP:
            items.append((image, target))
            chosen.append(index)
        if len(items) == count:
            break
    return dataset.data.subset(np.array(chosen)), collate_detection(items, 64)


def average_precision(predictions, targets, annotations, metric):
    """AP50 or AP75 by the COCO rules, from detections at the size of the network's input."""
    parts = []
    for image, (prediction, target) in enumerate(zip(predictions, targets, strict=True)):
        height, width = (float(side) for side in target["original_size"])
        factor = torch.tensor([width / float(target["image_size"][1]), height / float(target["image_size"][0])])
        boxes = (prediction["boxes"] * factor.repeat(2)).double().numpy()
        xywh = np.concatenate([boxes[:, :2], boxes[:, 2:] - boxes[:, :2]], 1)
        parts.append(
            Predictions(
                np.full(len(boxes), image, np.int32),
                prediction["labels"].int().numpy(),
                xywh,
                prediction["scores"].double().numpy(),
                xywh[:, 2] * xywh[:, 3],
            )
        )
    return evaluate(Predictions.joined(parts), annotations).result()[metric]


def steps_to_learn(name, folder, *, rate, metric, weights, max_steps=120, goal=0.9, seed=0):
    """Steps after which the metric on the images a detector is trained on exceeds the goal; None if it does not."""
    torch.manual_seed(seed)
    annotations, (images, targets) = read_images(folder)
    build, loss, takes_quality = DETECTORS[name]
    num_classes = len(annotations.categories.ids)
    pyramid = LiteFPN(weights, num_channels=64, num_frozen=11)
    model = build(pyramid, num_classes, loss(num_classes), equigrad.SigmoidScores(), with_quality=takes_quality)
    model.to(memory_format=torch.channels_last)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    pretrained = set(pyramid.blocks.parameters())
    groups = [
        {"params": [parameter for parameter in trained if parameter in pretrained], "lr": rate / 10},
        {"params": [parameter for parameter in trained if parameter not in pretrained], "lr": rate},
    ]
    optimizer = torch.optim.Adam(groups)
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=10)
    for step in range(1, max_steps + 1):
        chosen = torch.arange(step % 2, len(images), 2)
        losses = model.train()(images[chosen], [targets[index] for index in chosen.tolist()])
        optimizer.zero_grad()
        sum(losses.values()).backward()
        torch.nn.utils.clip_grad_norm_(trained, 10.0)
        optimizer.step()
        warmup.step()
        if step % CHECK_EVERY == 0:
            with torch.no_grad():
                predictions = model.eval()(images, targets)
            if average_precision(predictions, targets, annotations, metric) > goal:
                return step
    return None
