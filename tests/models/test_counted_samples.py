import pytest
import torch
from torch import nn

import equigrad
from equigrad.models.counted_samples import num_counted
from equigrad.models.segmentation.upsampled_loss import DecoderResolutionLoss, LabelResolutionLoss, TiledLoss

LABELS = torch.tensor([0, -1, -100, 2])


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        (equigrad.SigmoidEqualizationLoss(3), 3),
        (equigrad.SigmoidEqualizationLoss(3, ignore_index=2), 3),
        (equigrad.SigmoidEqualizationLoss(3, reduction="sum"), None),
        (equigrad.GroupedSoftmaxLoss([10, 5, 1]), None),  # each group has a divisor of its own
        (equigrad.DistillationLoss(equigrad.CrossEntropyLoss()), 3),
        (nn.CrossEntropyLoss(), None),  # takes no normalizer
        (LabelResolutionLoss(equigrad.CrossEntropyLoss()), 3),
        (TiledLoss(equigrad.CrossEntropyLoss()), 3),
        (DecoderResolutionLoss(equigrad.CrossEntropyLoss()), None),  # counts the labels that are left
    ],
)
def test_a_mean_tells_how_many_samples_it_counts(loss, expected):
    assert num_counted(loss, LABELS) == expected


def test_every_sample_with_soft_labels_counts():
    assert num_counted(equigrad.CrossEntropyLoss(), torch.full((5, 2, 3), 0.5)) == 15
