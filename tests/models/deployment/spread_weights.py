"""Untrained networks with scores that differ from box to box, and the comparison of their detections."""

import torch
from torch.testing import assert_close

FIELDS = ("boxes", "scores", "labels", "masks")


def spread_weights(model):
    """New weights under which neither logits of all boxes are alike nor scores saturate."""
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.9 / parameter[0].numel() ** 0.5)


def assert_same_detections(expected, outputs):
    """Detections of each image, padded with rows of label -1 in the outputs."""
    assert any(len(one["scores"]) for one in expected)
    for image, one in enumerate(expected):
        count = int((outputs[2][image] >= 0).sum())
        assert count == len(one["scores"])
        for name, rows in zip(FIELDS, outputs, strict=False):
            assert_close(rows[image, :count], one[name], rtol=1e-5, atol=1e-4)
