from collections import Counter
from contextlib import ExitStack

import pytest

from engine.toy import ToyModel
from equigrad.engine import SGD, Schedule, TrainSettings
from equigrad.engine.learner import Learner
from equigrad.engine.reporting.progress import PlainProgress
from equigrad.engine.reporting.reporter import Reporter, counted

SETTINGS = TrainSettings(optimizer=SGD(0.1), schedule=Schedule(epochs=1), batch_size=8)


@pytest.mark.parametrize(
    ("evaluate_every", "words"),
    [(None, ""), (40, "; evaluation every 40 steps and at the end"), (100, "; evaluation at the end")],
)
def test_the_first_lines_say_what_is_trained_how_long_and_on_what(fabric, capsys, evaluate_every, words):
    Reporter(fabric, 100, 20, evaluate_every).begin(SETTINGS, ToyModel(stochastic=False), "64 vectors")
    assert capsys.readouterr().out.splitlines() == [
        "data: 64 vectors",
        f"training: 100 steps of 8 samples, 20 in an epoch{words}",
        "device: cpu, 1 process, precision 32-true, 101 parameters",
    ]


def test_the_numbers_of_a_step_have_the_place_in_the_training_and_the_ratio_of_tail_and_head(fabric):
    reporter, learner = Reporter(fabric, 100, 20, None), Learner(fabric, ToyModel(stochastic=False), SETTINGS)
    values = reporter.numbers(30, learner, {"classification": 2.0, "size": 0.5}, num_skipped=3)
    assert (values["step"], values["epoch"], values["loss"], values["skipped"]) == (30, 1.5, 2.5, 3)
    assert {"lr", "seconds_per_step", "seconds_waiting_for_data", "tail_ratio", "head_ratio"} <= set(values)


def test_written_numbers_are_shown_and_begin_a_new_mean(fabric, capsys):
    reporter, learner = Reporter(fabric, 100, 20, None), Learner(fabric, ToyModel(stochastic=False), SETTINGS)
    reporter.timer.start()
    reporter.timer.step_done()
    reporter.write(reporter.numbers(30, learner, {"classification": 2.0}, num_skipped=0))
    assert capsys.readouterr().out.startswith("step 30/100  epoch 1.50  ")
    assert reporter.timer.per_step()["seconds_per_step"] == 0


def test_an_open_reporter_is_closed_with_the_stack(fabric, monkeypatch):
    reporter, closed = Reporter(fabric, 100, 20, None), []
    with ExitStack() as stack:
        monkeypatch.setattr(PlainProgress, "close", lambda progress: closed.append(progress))
        reporter.open(stack, step=0)
        assert not closed
    assert closed == [reporter.progress]


def test_of_many_skipped_files_ten_are_named():
    names = Counter({f"{number}.jpg": 20 - number for number in range(12)})
    assert counted(names).startswith("0.jpg (20x), 1.jpg (19x), ")
    assert counted(names).endswith("9.jpg (11x) and 2 more")
