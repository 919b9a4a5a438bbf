"""Few calls lie between a model and its classification loss, so that a reader can follow them."""

import sys
from functools import partial
from pathlib import Path

import torch
from torch import nn

import equigrad
import equigrad.models
from equigrad.models.backbones.small_conv_net import SmallConvNet
from equigrad.models.backbones.small_encoder import SmallEncoder
from equigrad.models.classification.classifier import build_classifier
from equigrad.models.detection.one_stage.atss import improved_atss
from equigrad.models.detection.two_stage.rcnn import faster_rcnn
from equigrad.models.segmentation.pspnet import PSPHead
from equigrad.models.segmentation.segmenter import build_segmenter
from models.rcnn_cases import make_batch, make_detector
from models.small_detectors import NUM_CLASSES, TinyPyramid, batch

FOLDER = str(Path(equigrad.models.__file__).parent)


class Recorder(nn.Module):
    """A loss that notes, at each call, which functions of `equigrad.models` are being executed, outermost first."""

    def __init__(self, loss):
        super().__init__()
        self.loss = loss
        self.stacks = []

    def forward(self, *arguments, **settings):
        stack, frame = [], sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_filename.startswith(FOLDER):
                stack.insert(0, frame.f_code.co_qualname)
            frame = frame.f_back
        self.stacks.append(stack)
        return self.loss(*arguments, **settings)


def test_a_classifier_calls_its_loss_itself():
    loss = Recorder(equigrad.SoftmaxEqualizationLoss(5))
    model = build_classifier(SmallConvNet(), 5, loss, equigrad.SoftmaxScores())
    model(torch.rand(2, 3, 32, 32), {"labels": torch.tensor([0, 4])})
    assert loss.stacks == [["Classifier.forward"]]


def test_a_one_stage_detector_calls_its_loss_where_it_forms_the_losses():
    loss = Recorder(equigrad.EqualizedFocalLoss(NUM_CLASSES))
    model = improved_atss(TinyPyramid(), NUM_CLASSES, loss, equigrad.SigmoidScores())
    model(*batch())
    assert loss.stacks == [["DenseDetector.forward", "DenseDetector.losses"]] * 3  # once a level


def test_a_two_stage_detector_calls_its_loss_where_it_forms_the_losses():
    model = make_detector(faster_rcnn, "Sigmoid-EQL", with_masks=True, num_mask_channels=8)
    model.roi_heads.classification_loss = loss = Recorder(model.roi_heads.classification_loss)
    model(*make_batch())
    assert loss.stacks == [["RCNN.forward", "RoIHead.losses"]]


def test_a_segmenter_calls_its_losses_through_the_one_that_matches_their_resolution():
    loss, auxiliary_loss = Recorder(equigrad.SoftmaxEqualizationLoss(5)), Recorder(equigrad.CrossEntropyLoss())
    head = partial(PSPHead, channels=8, grids=(1, 2))
    scores = equigrad.SoftmaxScores()
    model = build_segmenter(SmallEncoder(4), head, 5, loss, scores, auxiliary_loss=auxiliary_loss)
    model(torch.rand(2, 3, 32, 32), {"labels": torch.randint(5, (2, 32, 32))})
    assert loss.stacks == auxiliary_loss.stacks == [["Segmenter.forward", "LabelResolutionLoss.forward"]]
