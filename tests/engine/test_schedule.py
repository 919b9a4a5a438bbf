import math
from dataclasses import replace

import pytest

from equigrad.engine import Constant, Cosine, EnoughSteps, MultiStep, Poly, Schedule, Warmup, yolox_schedule

ENOUGH = Schedule(length=EnoughSteps(min_epochs=12, min_steps=1000), warmup=Warmup(0.1, "share"))


def factors(schedule, steps, *, steps_per_epoch=10):
    total = schedule.total_steps(steps_per_epoch)
    return [schedule.factor(step, steps_per_epoch, total) for step in steps]


def test_multi_step_falls_at_the_first_step_of_the_milestone_epochs():
    schedule = Schedule(epochs=24, decay=MultiStep((16, 22)))
    assert factors(schedule, [0, 159, 160, 219, 220, 239]) == pytest.approx([1, 1, 0.1, 0.1, 0.01, 0.01])


def test_multi_step_takes_milestones_in_steps():
    schedule = Schedule(steps=180, decay=MultiStep((120, 160), gamma=0.5, unit="steps"))
    assert factors(schedule, [119, 120, 160]) == [1, 0.5, 0.25]


def test_linear_warmup_is_a_straight_line_from_its_start_to_one():
    schedule = Schedule(epochs=12, warmup=Warmup(50, start=0.001))
    assert factors(schedule, [0, 25, 50, 51]) == pytest.approx([0.001, 0.5005, 1, 1])


def test_warmup_in_epochs_multiplies_the_decay():
    schedule = Schedule(epochs=24, decay=Poly(power=1), warmup=Warmup(1, "epochs", start=0.0))
    assert factors(schedule, [5]) == pytest.approx([0.5 * (1 - 5 / 240)])


def test_quadratic_and_constant_warmup():
    assert factors(Schedule(epochs=9, warmup=Warmup(20, shape="quadratic", start=0)), [10, 20]) == [0.25, 1]
    assert factors(Schedule(epochs=9, warmup=Warmup(20, shape="constant", start=0.1)), [0, 19, 20]) == [0.1, 0.1, 1]


def test_cosine_per_step_reaches_its_middle_halfway_and_its_floor_at_the_end():
    schedule = Schedule(epochs=10, decay=Cosine(floor=0.2))
    assert factors(schedule, [0, 50, 100]) == pytest.approx([1, 0.6, 0.2])
    assert factors(schedule, [25]) == pytest.approx([0.2 + 0.8 * (1 + math.sqrt(0.5)) / 2])


def test_cosine_per_epoch_is_constant_within_an_epoch():
    schedule = Schedule(epochs=90, decay=Cosine(per="epoch"))
    assert factors(schedule, [450, 455, 459]) == pytest.approx([0.5] * 3)
    assert factors(schedule, [899]) == pytest.approx([(1 + math.cos(math.pi * 89 / 90)) / 2])


def test_poly_falls_to_its_floor():
    schedule = Schedule(steps=80_000, decay=Poly(power=0.9, floor=0.01))
    assert factors(schedule, [0, 40_000, 80_000]) == pytest.approx([1, 0.01 + 0.99 * 0.5**0.9, 0.01])


def test_yolox_warms_up_quadratically_falls_to_5_percent_and_stays_there_for_15_epochs():
    schedule = yolox_schedule(epochs=300)
    assert factors(schedule, [0, 25, 50]) == pytest.approx([0, 0.25, 1])
    assert factors(schedule, [50 + (2850 - 50) // 2]) == pytest.approx([0.525])  # halfway from epoch 5 to 285
    assert factors(schedule, [2850, 2999]) == pytest.approx([0.05, 0.05])
    assert factors(schedule, [2800])[0] > 0.0505


def test_a_schedule_describes_itself_in_one_line():
    schedule = Schedule(epochs=24, decay=MultiStep((16, 22)), warmup=Warmup(500))
    assert schedule.describe() == "24 epochs, x0.1 at epoch 16, 22, linear warm-up from 0.001 over 500 steps"
    assert yolox_schedule().describe() == (
        "300 epochs, cosine per step to 0.05, constant for the last 15 epochs, quadratic warm-up from 0 over 5 epochs"
    )
    assert Schedule(steps=80_000, decay=Poly(floor=0.01)).describe() == "80,000 steps, poly, power 0.9, to 0.01"
    assert Schedule(epochs=1, decay=Constant()).describe() == "1 epochs, constant"
    assert ENOUGH.describe() == (
        "12 epochs, but at least 1,000 steps, constant, linear warm-up from 0.001 over 10% of the steps"
    )


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Schedule(),
        lambda: Schedule(epochs=1, steps=1),
        lambda: Schedule(epochs=0),
        lambda: MultiStep((22, 16)),
        lambda: Cosine(floor=2),
        lambda: Poly(power=0),
        lambda: Warmup(-1),
        lambda: Warmup(5, shape="cubic"),
        lambda: Warmup(5, "share"),
        lambda: EnoughSteps(min_epochs=0, min_steps=5),
    ],
)
def test_impossible_schedules_are_refused(wrong):
    with pytest.raises(ValueError, match="got"):
        wrong()


@pytest.mark.parametrize(("images", "steps", "stretch"), [(200, 1000, 40 / 12), (500, 1008, 16 / 12), (5000, 7500, 1)])
def test_few_images_are_seen_more_often_until_there_are_enough_steps(images, steps, stretch):
    steps_per_epoch = -(-images // 8)
    assert ENOUGH.total_steps(steps_per_epoch) == steps
    assert ENOUGH.stretch(steps_per_epoch) == pytest.approx(stretch)


@pytest.mark.parametrize(("given", "steps"), [({"epochs": 1}, 25), ({"steps": 7}, 7)])
def test_a_length_that_is_given_is_the_length_however_few_the_images(given, steps):
    schedule = replace(ENOUGH, **given)
    assert schedule.total_steps(25) == steps
    assert schedule.stretch(25) == 1


def test_warmup_can_be_a_share_of_the_training():
    assert factors(replace(ENOUGH, warmup=Warmup(0.1, "share", start=0)), [50, 100, 101]) == [0.5, 1, 1]
    assert factors(replace(ENOUGH, epochs=2, warmup=Warmup(0.1, "share", start=0)), [1, 2]) == [0.5, 1]
