"""A data set of a few small images in LVIS's format, recipes on it, and a detector that knows what there is to find."""

import json
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from PIL import Image
from torch import nn

from equigrad.engine import SGD, Schedule, TrainSettings
from equigrad.models.detection.two_stage.roi_sampling import RoISampler
from equigrad.recipes.methods import one_stage, two_stage
from equigrad.tasks.backbones import SmallPyramid
from equigrad.tasks.detection.data import CocoFiles
from equigrad.tasks.detection.detectors import RCNN, ImprovedAtss
from equigrad.tasks.detection.preprocessing import ShorterSide
from equigrad.tasks.detection.recipe import DetectionRecipe
from equigrad.tasks.detection.second_stages import NewClassifier

SIZE = (40, 60)  # height, width
# Frequent, common and rare; the fourth is in no test image.
CATEGORIES = [
    {"id": 3, "name": "cup", "frequency": "f"},
    {"id": 5, "name": "jug", "frequency": "c"},
    {"id": 8, "name": "urn", "frequency": "r"},
    {"id": 9, "name": "vat", "frequency": "r"},
]
TRAIN = [[3], [3, 5], [3, 5], [3], [], [3, 5, 8], [3], [3, 9]]  # categories of each image
TEST = [[3, 5], [3, 8], [3, 5, 8], [], [5, 3, 3]]


def write_small_data(root):
    """`train.json`, `test.json` and `images`; an image has objects side by side."""
    for name, images, seed in (("train", TRAIN, 0), ("test", TEST, 1)):
        content = annotated(images)
        for record in content["images"]:
            record["file_name"] = f"{name}/{record['id']}.png"
        write_images(root / "images", content, seed)
        (root / f"{name}.json").write_text(json.dumps(content))
    return root


def annotated(images, categories=CATEGORIES):
    """Content of an LVIS file for the categories of each image."""
    objects = [(number, place, id_) for number, ids in enumerate(images) for place, id_ in enumerate(ids)]
    return {
        "images": [
            {"id": 10 + number, "height": SIZE[0], "width": SIZE[1], **_federated(ids)}
            for number, ids in enumerate(images)
        ],
        "annotations": [
            {"id": number + 1, "image_id": 10 + image, "category_id": id_, **_square(place)}
            for number, (image, place, id_) in enumerate(objects)
        ],
        "categories": categories,
    }


def _federated(ids):
    return {"neg_category_ids": [id_ for id_ in (3, 5, 8) if id_ not in ids], "not_exhaustive_category_ids": []}


def _square(place):
    left, top, side = 2 + 20 * place, 6 + place, 15 + place
    corners = [left, top, left + side, top, left + side, top + side, left, top + side]
    return {"bbox": [left, top, side, side], "area": side**2, "segmentation": [corners], "iscrowd": 0}


def write_images(folder, content, seed):
    """Noise, with objects in a grey of their category."""
    rng = np.random.default_rng(seed)
    for record in content["images"]:
        pixels = rng.integers(0, 60, (record["height"], record["width"], 3), dtype=np.uint8)
        for annotation in content["annotations"]:
            if annotation["image_id"] == record["id"]:
                x, y, width, height = annotation["bbox"]
                pixels[y : y + height, x : x + width] = 25 * annotation["category_id"]
        file = folder / record["file_name"]
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(file)


class KnownObjects(nn.Module):
    """Finds in the test what the targets say, but nothing of label 1."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, images, targets):
        if self.training:
            return {"loss": self.scale**2 + 0 * images.float().mean()}
        return [self._found(target) for target in targets]

    def _found(self, target):
        is_found = target["labels"] != 1
        boxes = torch.as_tensor(target["boxes"])[is_found]
        return {"boxes": boxes, "labels": target["labels"][is_found], "scores": torch.full((len(boxes),), 0.5)}


@dataclass(frozen=True)
class KnownDetector:
    """The same whatever the pyramid."""

    def build(self, pyramid, method, counts):
        return KnownObjects()


def small() -> DetectionRecipe:
    """A real detector, of little size."""
    return DetectionRecipe(
        data=CocoFiles(),
        preprocessing=ShorterSide(short=(48, 64), test_short=64, long=96),
        backbone=SmallPyramid(width=8, num_channels=32),
        detector=ImprovedAtss(),
        method=one_stage.METHODS["efl"],
        training=TrainSettings(
            SGD(lr=0.01, momentum=0.9), Schedule(epochs=2), batch_size=2, num_workers=0, evaluate_every=10
        ),
        test_batch_size=2,
    )


def known() -> DetectionRecipe:
    """The detector that knows."""
    return replace(small(), detector=KnownDetector())


def second_stage(method: Literal["crt", "bags"] = "crt") -> DetectionRecipe:
    """A new classifier on a finished run of a small Faster R-CNN."""
    return replace(
        small(),
        backbone=SmallPyramid(width=4, num_channels=8),
        detector=RCNN(class_agnostic=True, num_features=16, num_proposals=20, rois=RoISampler(32)),
        method=two_stage.METHODS["bags" if method == "bags" else "ce"],
        second_stage=NewClassifier(),
    )


def data_settings(root):
    """What to set for data that `write_small_data` wrote."""
    return [f"data.train={root}/train.json", f"data.test={root}/test.json", f"data.images={root}/images"]
