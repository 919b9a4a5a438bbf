import os
import signal
import threading
import time
from dataclasses import replace

import pytest

from equigrad.files import try_lock
from equigrad.recipes import tiny
from equigrad.recipes.methods.classification import METHODS
from equigrad.tasks.classification.data import GlyphImages
from equigrad.tasks.paper_tables.planning import Wanted, in_order, planned_run
from equigrad.tasks.paper_tables.running import train_missing


def small(recipe, steps=2):
    schedule = replace(recipe.training.schedule, epochs=None, steps=steps)
    training = replace(recipe.training, schedule=schedule, batch_size=4, log_every=1, evaluate_every=None)
    data = GlyphImages(num_classes=4, max_count=6, imbalance_factor=3.0, test_count=1)
    return replace(recipe, data=data, training=training)


def crt(steps=2):
    return replace(small(tiny.ce(), steps), method=METHODS["crt"][1])


def train(runs, folder, jobs=1):
    ordered = in_order(runs)
    return train_missing(
        ordered, folder, jobs=jobs, command=["equigrad"], labels={run.name: run.name for run in ordered}
    )


def train_until_all_have_begun(runs, folder, jobs):
    """Train, with a Ctrl-C to this process alone when every run has made its first step."""
    logs = [folder / run.name / "metrics.jsonl" for run in runs]

    def stop():
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and not all(log.exists() and log.stat().st_size for log in logs):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=stop)
    thread.start()
    outcome = train(runs, folder, jobs)
    thread.join()
    return outcome


def test_a_second_stage_is_trained_after_its_first(tmp_path, capsys):
    run = planned_run(Wanted(crt(), small(tiny.ce()), False), 0)
    outcome = train([run], tmp_path)
    assert not outcome.stopped
    assert not outcome.failures
    assert run.is_finished(tmp_path)
    assert run.start.is_finished(tmp_path)
    assert capsys.readouterr().out.splitlines()[-1] == f"[2/2] {run.name}"


def test_a_second_stage_waits_until_another_process_has_finished_its_first(tmp_path):
    run = planned_run(Wanted(crt(), small(tiny.ce()), False), 0)
    claim = tmp_path / "claims" / run.start.name
    claim.parent.mkdir()
    descriptor = os.open(claim, os.O_RDWR | os.O_CREAT)
    assert try_lock(descriptor)  # as a process that trains the first stage
    threading.Timer(1, os.close, [descriptor]).start()
    outcome = train([run], tmp_path)
    assert not outcome.failures
    assert run.is_finished(tmp_path)


def test_a_stopped_training_goes_on_where_it_was(tmp_path):
    run = planned_run(Wanted(small(tiny.ce(), steps=3000), None, False), 0)
    outcome = train_until_all_have_begun([run], tmp_path, jobs=1)
    assert outcome.stopped
    assert not run.is_finished(tmp_path)
    assert list((tmp_path / run.name / "checkpoints").glob("step_*.pt"))


@pytest.mark.slow
def test_two_processes_share_the_work_and_stop_together(tmp_path):
    lengths = {tiny.softmax_eql: 2, tiny.ce: 3000, tiny.bce: 3000}
    finished, *long = [planned_run(Wanted(small(recipe(), steps), None, False), 0) for recipe, steps in lengths.items()]
    outcome = train_until_all_have_begun([finished, *long], tmp_path, jobs=2)
    assert outcome.stopped
    assert not outcome.failures
    assert finished.is_finished(tmp_path)
    for run in long:
        assert not run.is_finished(tmp_path)
        assert list((tmp_path / run.name / "checkpoints").glob("step_*.pt"))


def test_what_starts_from_a_failed_run_is_not_tried(tmp_path, capsys):
    run = planned_run(Wanted(crt(), small(tiny.ce()), False), 0)
    (tmp_path / run.start.name).write_text("")  # a file where the folder should be
    outcome = train([run], tmp_path)
    assert list(outcome.failures) == [run.start.name]
    assert "is a file" in capsys.readouterr().err
