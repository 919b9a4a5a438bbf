from dataclasses import replace
from pathlib import Path

import pytest

from equigrad.recipes.detection_benchmarks import (
    LVIS_V1,
    LVIS_V1_WITH_EMPTY,
    NUM_LVIS_V1_IMAGES,
    OPENIMAGES,
    SCHEDULE_1X,
    SCHEDULE_2X,
    SCHEDULE_3X,
    SCHEDULE_CLASS_BALANCED,
    SCHEDULE_OPENIMAGES,
    detector_training,
)

BATCH_SIZE = 16
NUM_EMPTY = 782
STEPS = -(-NUM_LVIS_V1_IMAGES // BATCH_SIZE)  # of an epoch of LVIS v1 without empty images


def test_two_stage_detectors_leave_empty_images_of_lvis_out_and_one_stage_detectors_keep_them():
    assert not LVIS_V1.keep_empty
    assert replace(LVIS_V1, keep_empty=True) == LVIS_V1_WITH_EMPTY
    assert LVIS_V1.benchmark == "lvis"
    assert -(-(NUM_LVIS_V1_IMAGES + NUM_EMPTY) // BATCH_SIZE) == 6261


def test_images_of_both_splits_of_lvis_lie_in_the_folder_of_coco():
    assert (LVIS_V1.images, LVIS_V1.test_images) == (Path("coco"), None)


def test_detections_on_openimages_are_handed_over_as_they_are():
    assert not OPENIMAGES.expand_detections


@pytest.mark.parametrize(
    ("schedule", "epochs", "milestones"),
    [(SCHEDULE_1X, 12, (8, 11)), (SCHEDULE_2X, 24, (16, 22)), (SCHEDULE_3X, 36, (28, 34))],
    ids=["1x", "2x", "3x"],
)
def test_a_schedule_in_epochs_falls_to_a_tenth_at_its_two_milestones(schedule, epochs, milestones):
    total = schedule.total_steps(STEPS)
    assert total == epochs * STEPS
    for before, milestone, after in zip((1, 0.1), milestones, (0.1, 0.01), strict=True):
        factors = [schedule.factor(step, STEPS, total) for step in (milestone * STEPS - 1, milestone * STEPS)]
        assert factors == pytest.approx([before, after])


@pytest.mark.parametrize(
    ("schedule", "total", "milestones"),
    [(SCHEDULE_CLASS_BALANCED, 75_000, (50_000, 70_000)), (SCHEDULE_OPENIMAGES, 180_000, (120_000, 160_000))],
    ids=["class-balanced", "openimages"],
)
def test_a_schedule_in_steps_is_the_same_whatever_the_length_of_an_epoch(schedule, total, milestones):
    for steps_per_epoch in (10, STEPS):
        assert schedule.total_steps(steps_per_epoch) == total
        factors = [schedule.factor(step, steps_per_epoch, total) for step in (milestones[0] - 1, *milestones)]
        assert factors == pytest.approx([1, 0.1, 0.01])


def test_a_class_balanced_stage_is_as_long_as_1x():
    assert SCHEDULE_CLASS_BALANCED.total_steps(STEPS) == pytest.approx(SCHEDULE_1X.total_steps(STEPS), rel=0.01)


def test_every_schedule_warms_up_over_500_steps_from_a_thousandth():
    for schedule in (SCHEDULE_1X, SCHEDULE_2X, SCHEDULE_3X, SCHEDULE_CLASS_BALANCED, SCHEDULE_OPENIMAGES):
        factors = [schedule.factor(step, STEPS, schedule.total_steps(STEPS)) for step in (0, 250, 500)]
        assert factors == pytest.approx([0.001, 0.5005, 1])


def test_a_detector_is_trained_with_batches_of_16_and_checked_every_four_epochs():
    training = detector_training(SCHEDULE_3X)
    assert (training.batch_size, training.schedule) == (BATCH_SIZE, SCHEDULE_3X)
    assert (training.optimizer.lr, training.optimizer.momentum, training.optimizer.weight_decay) == (0.02, 0.9, 1e-4)
    assert (training.evaluate_every, training.keep_best) == (4, True)
