"""Lines of the log that were written once and are gone."""

import pytest

from equigrad.analysis.lost_lines import lost_lines

STARTS = [{"step": 0, "log_every": 5, "last_step": 23}, {"step": 10, "log_every": 2, "last_step": 23}]
LOGGED = [5, 10, 12, 14, 16, 18, 20, 22, 23]


@pytest.fixture
def folder(tmp_path):
    """Of a finished run that was resumed once, with another interval."""
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "step_00000023.pt").touch()
    (tmp_path / "evaluation.json").touch()
    return tmp_path


def test_a_whole_log_has_lost_nothing(folder):
    assert lost_lines(folder, STARTS, LOGGED) is None


@pytest.mark.parametrize("lost", [[5], [12, 14], [23], [20, 22, 23], LOGGED])
def test_lines_that_are_missing_anywhere_are_counted_and_the_first_is_named(folder, lost):
    text = lost_lines(folder, STARTS, [step for step in LOGGED if step not in lost])
    lines = "line is" if len(lost) == 1 else "lines are"
    assert text == f"{folder / 'metrics.jsonl'}: {len(lost)} logged {lines} missing, from step {lost[0]}"


def test_a_run_killed_in_the_evaluation_after_a_checkpoint_has_lost_nothing(folder):
    (folder / "evaluation.json").unlink()
    assert lost_lines(folder, STARTS, LOGGED[:-1]) is None


@pytest.mark.parametrize("start", [{}, {"step": 0}, {"step": 0, "log_every": 0, "last_step": 3}, {"step": "x"}])
def test_of_runs_that_do_not_tell_their_interval_nothing_is_known(folder, start):
    assert lost_lines(folder, [start], []) is None


def test_a_checkpoint_with_an_absurd_name_is_not_believed(folder):
    (folder / "checkpoints" / "step_999999999999999.pt").touch()
    assert lost_lines(folder, STARTS, LOGGED) is None
