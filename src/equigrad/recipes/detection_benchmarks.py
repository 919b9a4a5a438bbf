"""LVIS v1, COCO and OpenImages as the paper's detectors are trained on them: where the files lie, and the schedules."""

from dataclasses import replace
from pathlib import Path

from equigrad.engine import SGD, MultiStep, Schedule, TrainSettings, Warmup
from equigrad.tasks.detection.data import CocoFiles, OpenImages

# Images of both splits lie in COCO's train2017 and val2017. Those without annotation, 782 of them, are left out, as in
# the published code of two-stage detectors.
LVIS_V1 = CocoFiles(
    train=Path("lvis/lvis_v1_train.json"),
    test=Path("lvis/lvis_v1_val.json"),
    images=Path("coco"),
    keep_empty=False,
    benchmark="lvis",
)
# That of one-stage detectors keeps them: its epochs have 6,261 steps of 16.
LVIS_V1_WITH_EMPTY = replace(LVIS_V1, keep_empty=True)
NUM_LVIS_V1_IMAGES = 99_388
"""Training images with annotations."""

COCO = CocoFiles(
    train=Path("coco/annotations/instances_train2017.json"),
    test=Path("coco/annotations/instances_val2017.json"),
    images=Path("coco"),
    keep_empty=False,
    benchmark="coco",
)

# The released code hands its detections over as they are.
OPENIMAGES = OpenImages(expand_detections=False)

CHECK_IMAGES = 2000
"""Of the test set, to evaluate while a detector is trained, so that an unstable run shows early."""

_WARMUP = Warmup(500)

SCHEDULE_1X = Schedule(epochs=12, decay=MultiStep((8, 11)), warmup=_WARMUP)
SCHEDULE_2X = Schedule(epochs=24, decay=MultiStep((16, 22)), warmup=_WARMUP)
SCHEDULE_3X = Schedule(epochs=36, decay=MultiStep((28, 34)), warmup=_WARMUP)
SCHEDULE_CLASS_BALANCED = Schedule(steps=75_000, decay=MultiStep((50_000, 70_000), unit="steps"), warmup=_WARMUP)
"""Second stages with class-balanced sampling: as long as 1x, with other milestones."""
SCHEDULE_OPENIMAGES = Schedule(steps=180_000, decay=MultiStep((120_000, 160_000), unit="steps"), warmup=_WARMUP)


def detector_training(schedule: Schedule) -> TrainSettings:
    """SGD with batches of 16 images; every four epochs a part of the test set, the whole of which takes hours."""
    return TrainSettings(
        optimizer=SGD(lr=0.02, momentum=0.9, weight_decay=1e-4),
        schedule=schedule,
        batch_size=16,
        num_workers=4,
        checkpoint_every=2000,
        evaluate_every=4,
        keep_best=True,
    )
