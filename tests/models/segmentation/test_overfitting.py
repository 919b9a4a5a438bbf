"""A segmenter on a few frames of CamVid: what it cannot learn by heart, it cannot learn."""

import io
import zipfile
from functools import partial

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import equigrad
from equigrad.models.backbones.conv_blocks import conv_norm_relu
from equigrad.models.backbones.encoder_maps import EncoderChannels, EncoderMaps
from equigrad.models.backbones.normalization import HALF, Normalization
from equigrad.models.segmentation.deeplab import DeepLabV3PlusHead
from equigrad.models.segmentation.segmenter import build_segmenter
from shared_data import shared_folder

CHECK_EVERY = 10  # steps
MAX_STEPS = 200
NUM_FRAMES = 4


class EncoderWithEdges(nn.Module):
    """Strides 1, 8 and 8: small enough for a test, and fine enough for what is two pixels wide."""

    channels = EncoderChannels(low=32, middle=64, last=96)

    def __init__(self):
        super().__init__()
        self.normalization = Normalization(HALF)
        self.low = nn.Sequential(conv_norm_relu(3, 32, 3), conv_norm_relu(32, 32, 3))
        step = nn.Conv2d(32, 64, 8, stride=8, bias=False)
        self.middle = nn.Sequential(step, nn.BatchNorm2d(64), nn.ReLU(), conv_norm_relu(64, 64, 3))
        self.last = conv_norm_relu(64, 96, 3)

    def forward(self, images):
        low = self.low(self.normalization(images))
        middle = self.middle(low)
        return EncoderMaps(low, middle, self.last(middle))


def camvid_frames(width, height):
    """Training frames with 20 of the 31 classes, at 64 x 48 each class on at least 20 pixels of them."""
    frames, label_maps = [], []
    with zipfile.ZipFile(shared_folder("camvid") / "images_labels.zip") as archive:
        names = sorted(name for name in archive.namelist() if name.startswith("train/images/"))
        for name in names[72::32][:NUM_FRAMES]:
            label_name = name.replace("images", "labels").replace(".jpg", ".png")
            frame, label_map = (Image.open(io.BytesIO(archive.read(file))) for file in (name, label_name))
            frames.append(np.asarray(frame.resize((width, height), Image.Resampling.BILINEAR)))
            label_maps.append(np.asarray(label_map.resize((width, height), Image.Resampling.NEAREST)))
    return torch.from_numpy(np.stack(frames)).permute(0, 3, 1, 2), torch.from_numpy(np.stack(label_maps))


def mean_iou(predictions, labels, num_classes):
    """Over the classes that occur in the labels."""
    counted = labels != 255
    pairs = labels[counted].long() * num_classes + torch.stack([each["labels"] for each in predictions])[counted]
    confusion = torch.bincount(pairs, minlength=num_classes**2).view(num_classes, num_classes).double()
    union = confusion.sum(0) + confusion.sum(1) - confusion.diag()
    return float((confusion.diag() / union)[confusion.sum(1) > 0].mean())


def steps_to_learn(*, rate=0.01, max_steps=MAX_STEPS, goal=0.9, seed=0):
    """Steps after which the mean IoU on the frames of the training exceeds the goal; None if it does not."""
    images, labels = camvid_frames(64, 48)
    torch.manual_seed(seed)
    model = build_segmenter(
        EncoderWithEdges(),
        partial(DeepLabV3PlusHead, channels=48, low_channels=32, dilations=(1, 3, 6), dropout=0.0),
        32,
        equigrad.SoftmaxEqualizationLoss(32),
        equigrad.SoftmaxScores(),
        auxiliary_loss=equigrad.CrossEntropyLoss(),
    ).to(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), rate)
    for step in range(1, max_steps + 1):
        sum(model.train()(images, {"labels": labels}).values()).backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % CHECK_EVERY == 0:
            with torch.inference_mode():
                reached = mean_iou(model.eval()(images), labels, 32)
            if reached > goal:
                return step
    return None


@pytest.mark.slow
@pytest.mark.shared_data
def test_a_few_frames_are_learned_by_heart():
    assert steps_to_learn() is not None
