import os
import random
import signal
import time
from dataclasses import replace

import numpy as np
import pytest
import torch

from engine.toy import Options, assert_identical, finish, read_metrics, start
from equigrad.engine.checkpoint import checkpoint_files, load_checkpoint
from quick_processes import PATIENCE

NUM_CALLS = 39  # of the model, in an uninterrupted run


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """The folder of a run that nobody disturbed."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    output = folder / "output.txt"
    assert finish(Options(folder / "run"), output) == 0, output.read_text()
    return folder / "run"


def assert_same_run(folder, expected):
    final, expected_final = checkpoint_files(folder)[-1], checkpoint_files(expected)[-1]
    assert final.name == expected_final.name
    assert_identical(load_checkpoint(final), load_checkpoint(expected_final))
    assert read_metrics(folder) == read_metrics(expected)
    history, expected_history = np.load(folder / "statistics.npz"), np.load(expected / "statistics.npz")
    assert all(np.array_equal(history[name], expected_history[name]) for name in expected_history.files)


def test_the_uninterrupted_run_has_as_many_steps_as_the_other_tests_believe(uninterrupted):
    assert load_checkpoint(checkpoint_files(uninterrupted)[-1])["step"] == NUM_CALLS


def test_a_run_killed_at_random_steps_again_and_again_ends_bit_identical(uninterrupted, tmp_path):
    options, output = Options(tmp_path / "run"), tmp_path / "output.txt"
    generator = random.Random(11)
    for _ in range(4):
        # Each life repeats up to three steps and goes on for some more before it is killed.
        exit_code = finish(replace(options, kill_at=generator.randint(1, 12)), output)
        assert exit_code == -signal.SIGKILL, output.read_text()
        options = replace(options, resume=True)
    assert finish(options, output) == 0, output.read_text()
    assert_same_run(tmp_path / "run", uninterrupted)


@pytest.mark.parametrize("kill_at", random.Random(5).sample(range(1, NUM_CALLS + 1), 10))
def test_a_run_killed_at_any_step_ends_bit_identical(kill_at, uninterrupted, tmp_path):
    options, output = Options(tmp_path / "run"), tmp_path / "output.txt"
    assert finish(replace(options, kill_at=kill_at), output) == -signal.SIGKILL
    assert finish(replace(options, resume=True), output) == 0, output.read_text()
    assert_same_run(tmp_path / "run", uninterrupted)


def test_a_run_killed_at_any_moment_ends_bit_identical(uninterrupted, tmp_path):
    """From outside, while it may be writing a checkpoint or a line of the log."""
    options, output = (
        Options(tmp_path / "run", settings={"checkpoint_every": 1, "log_every": 3}),
        tmp_path / "output.txt",
    )
    generator = random.Random(13)
    num_kills = 0
    for _ in range(6):
        child = start(replace(options, resume=True, seconds=0.03), output)  # of a step: a whole run takes a second
        time.sleep(generator.uniform(0.2, 0.7))
        child.kill()
        child.join(PATIENCE)
        num_kills += child.exitcode == -signal.SIGKILL
    assert num_kills > 0
    assert finish(replace(options, resume=True), output) == 0, output.read_text()
    assert_same_run(tmp_path / "run", uninterrupted)


def test_the_number_of_workers_changes_nothing(uninterrupted, tmp_path):
    assert finish(Options(tmp_path / "run", num_workers=0), tmp_path / "output.txt") == 0
    assert_same_run(tmp_path / "run", uninterrupted)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_run_with_a_checkpoint_exit_code_0_and_how_to_resume(number, uninterrupted, tmp_path):
    options, output = Options(tmp_path / "run"), tmp_path / "output.txt"
    child = start(replace(options, seconds=0.05), output)
    wait_for(tmp_path / "run" / "metrics.jsonl", "\n")
    os.killpg(child.pid, number)  # as a terminal or a scheduler does: to the data workers too
    child.join(PATIENCE)
    assert child.exitcode == 0, output.read_text()
    (line,) = [line for line in output.read_text().splitlines() if line.startswith("stopped at step")]
    assert line.endswith("--resume")
    stopped_at = load_checkpoint(checkpoint_files(tmp_path / "run")[-1])["step"]
    assert line.startswith(f"stopped at step {stopped_at} of {NUM_CALLS};")
    assert 3 <= stopped_at < NUM_CALLS
    assert finish(replace(options, resume=True), output) == 0, output.read_text()
    assert_same_run(tmp_path / "run", uninterrupted)


def wait_for(file, text):
    deadline = time.monotonic() + PATIENCE
    while not (file.exists() and text in file.read_text()):
        assert time.monotonic() < deadline, f"{file} never held {text!r}"
        time.sleep(0.02)


def test_a_truncated_checkpoint_is_reported_and_the_one_before_it_is_used(uninterrupted, tmp_path):
    options, output = Options(tmp_path / "run"), tmp_path / "output.txt"
    assert finish(replace(options, kill_at=20), output) == -signal.SIGKILL
    newest = checkpoint_files(tmp_path / "run")[-1]
    assert newest.name == "step_00000016.pt"
    os.truncate(newest, newest.stat().st_size // 2)
    assert finish(replace(options, resume=True), output) == 0
    assert f"cannot load the checkpoint {newest}" in output.read_text()
    assert "resuming at step 12 of 39" in output.read_text()
    assert_same_run(tmp_path / "run", uninterrupted)


def test_resuming_a_finished_run_does_nothing(uninterrupted, tmp_path):
    before = checkpoint_files(uninterrupted)[-1].stat().st_mtime_ns
    assert finish(Options(uninterrupted, resume=True), tmp_path / "output.txt") == 0
    assert checkpoint_files(uninterrupted)[-1].stat().st_mtime_ns == before


def test_resuming_with_other_data_order_or_batch_size_is_refused_in_one_line(uninterrupted, tmp_path):
    output = tmp_path / "output.txt"
    assert finish(Options(uninterrupted, resume=True, batch_size=16), output) == 1
    assert output.read_text() == "error: a run cannot change its batch size, which is 8 in the checkpoint and 16 here\n"


def test_a_new_run_in_a_used_folder_is_refused_in_one_line(uninterrupted, tmp_path):
    output = tmp_path / "output.txt"
    assert finish(Options(uninterrupted), output) == 1
    (line,) = output.read_text().splitlines()
    assert line.startswith(f"error: the run folder {uninterrupted} is not empty")
    assert torch.load(checkpoint_files(uninterrupted)[-1], weights_only=True)["step"] == NUM_CALLS
