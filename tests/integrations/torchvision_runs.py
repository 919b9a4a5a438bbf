"""Tiny detectors of torchvision without weights, and their runs for the five checks."""

import torch
from tests.integrations.plain_run import PlainRun
from torch import nn
from torchvision.models.detection import FCOS, FasterRCNN, MaskRCNN, RetinaNet
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.models.detection.faster_rcnn import FastRCNNPredictor, TwoMLPHead
from torchvision.models.detection.fcos import FCOSHead
from torchvision.models.detection.mask_rcnn import MaskRCNNHeads, MaskRCNNPredictor
from torchvision.models.detection.retinanet import RetinaNetHead

import equigrad
from equigrad.integrations.torchvision import equalize
from equigrad.statistics import one_batch

NUM_CLASSES = 3
_SIZES = {"min_size": 64, "max_size": 64}


class TinyBackbone(nn.Sequential):
    """Eight channels at stride 16, without batch normalisation."""

    out_channels = 32

    def __init__(self):
        super().__init__(nn.Conv2d(3, 8, 3, 4, 1), nn.ReLU(), nn.Conv2d(8, 32, 3, 4, 1), nn.ReLU())


# All proposals and anchors are used: a sample at random would not be the same in micro-batches.
_EVERYTHING = {
    "rpn_nms_thresh": 1.0,
    "rpn_pre_nms_top_n_train": 30,
    "rpn_post_nms_top_n_train": 30,
    "rpn_batch_size_per_image": 10_000,
    "box_batch_size_per_image": 10_000,
}


def faster_rcnn(kind=FasterRCNN, **more):
    anchors = AnchorGenerator(((16, 32),), ((1.0,),))
    return kind(
        TinyBackbone(),
        rpn_anchor_generator=anchors,
        box_head=TwoMLPHead(32 * 49, 16),
        box_predictor=FastRCNNPredictor(16, NUM_CLASSES + 1),
        **_SIZES,
        **_EVERYTHING,
        **more,
    )


def mask_rcnn():
    mask_parts = {"mask_head": MaskRCNNHeads(32, (8,), 1), "mask_predictor": MaskRCNNPredictor(8, 8, NUM_CLASSES + 1)}
    return faster_rcnn(MaskRCNN, **mask_parts)


def retinanet(num_columns=NUM_CLASSES + 1):
    anchors = AnchorGenerator(((16, 32),), ((1.0,),))
    head = RetinaNetHead(32, 2, num_columns)
    return RetinaNet(TinyBackbone(), num_columns, anchor_generator=anchors, head=head, **_SIZES)


def fcos(num_columns=NUM_CLASSES + 1):
    anchors = AnchorGenerator(((16,),), ((1.0,),))
    return FCOS(TinyBackbone(), num_columns, anchor_generator=anchors, head=FCOSHead(32, 1, num_columns), **_SIZES)


def batch(num_images=4, first_label=1):
    """Images with two objects each, at the same places: each has as many positives as any other."""
    generator = torch.Generator().manual_seed(7)
    images = [torch.rand(3, 64, 64, generator=generator) for _ in range(num_images)]
    targets = []
    for number in range(num_images):
        masks = torch.zeros(2, 64, 64, dtype=torch.uint8)
        masks[0, 4:28, 4:28], masks[1, 30:60, 24:60] = 1, 1
        boxes = torch.tensor([[4.0, 4.0, 28.0, 28.0], [24.0, 30.0, 60.0, 60.0]])
        labels = torch.tensor([0, number % NUM_CLASSES]) + first_label
        targets.append({"boxes": boxes, "labels": labels, "masks": masks})
    return images, targets


class TorchvisionRun(PlainRun):
    """torchvision has no loop of its own: that of its reference scripts is a plain one."""

    def __init__(self, build, loss, scores):
        torch.manual_seed(0)
        self.module = build()
        equalize(self.module, loss, scores)
        self.optimizer = torch.optim.SGD(self.module.parameters(), lr=0.01)

    def loss(self, rows):
        images, targets = batch()
        return sum(self.module(images[rows], targets[rows]).values())

    def evaluate(self):
        self.module.eval()
        with torch.no_grad():
            self.module(*batch())

    def gradients(self, micro_batches):
        self.module.train()
        with one_batch(self.module, micro_batches=micro_batches):
            for rows in torch.arange(4).chunk(micro_batches):
                (self.loss(slice(int(rows[0]), int(rows[-1]) + 1)) / micro_batches).backward()
        return {name: value.grad for name, value in self.module.named_parameters() if value.grad is not None}


def objectness_run(build):
    loss = equigrad.WithObjectness(equigrad.SigmoidEqualizationLoss(NUM_CLASSES))
    return TorchvisionRun(build, loss, equigrad.SigmoidObjectnessScores())


def faster_rcnn_run():
    return objectness_run(faster_rcnn)


def mask_rcnn_run():
    return objectness_run(mask_rcnn)


def retinanet_run():
    return TorchvisionRun(retinanet, equigrad.EqualizedFocalLoss(NUM_CLASSES), equigrad.SigmoidScores())


def fcos_run():
    return TorchvisionRun(fcos, equigrad.EqualizedFocalLoss(NUM_CLASSES), equigrad.SigmoidScores())
