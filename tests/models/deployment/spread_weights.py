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
    """Detections of each image, padded with rows of label -1 in the outputs.

    Equal scores may be a last bit apart, so that two rows change places: a row is compared with the nearest one.
    """
    assert any(len(one["scores"]) for one in expected)
    for image, one in enumerate(expected):
        count = int((outputs[2][image] >= 0).sum())
        assert count == len(one["scores"])
        found = {name: rows[image, :count] for name, rows in zip(FIELDS, outputs, strict=False)}
        assert_close(found["scores"], one["scores"], rtol=1e-5, atol=1e-4)  # the order but for equal ones
        partner = torch.cdist(_places(one), _places(found), p=float("inf")).argmin(1)
        assert partner.sort().values.tolist() == list(range(count))
        for name, rows in found.items():
            assert_close(rows[partner], one[name], rtol=1e-5, atol=1e-4)


def _places(detections):
    """Box, score and category as a point; other scores and other categories are far away."""
    scores, labels = detections["scores"][:, None], detections["labels"][:, None]
    return torch.cat([detections["boxes"], 1000 * scores, 1000 * labels], 1).double()
