"""A rank that fails or dies ends the others, with one line that names it."""

import re
import signal
from dataclasses import replace

import pytest

from engine.test_resume import assert_same_run
from engine.toy import Options, start_ranks
from quick_processes import PATIENCE


def outcome(ranks, output):
    """Exit codes, and what was said on stderr or about the end of a rank."""
    for rank in ranks:
        rank.join(PATIENCE)
    progress = re.compile(r"(step|training:|device:|[\d.e-]+ s per step:) ")
    lines = [line for line in output.read_text().splitlines() if not progress.match(line)]
    return [rank.exitcode for rank in ranks], lines


@pytest.fixture
def options(tmp_path):
    return Options(tmp_path / "run", stochastic=False, num_workers=0, batch_size=12)


def test_a_killed_rank_ends_the_others_with_one_line_that_names_it(options, tmp_path):
    output = tmp_path / "output.txt"
    ranks = start_ranks([options, options, replace(options, kill_at=7)], output)
    codes, (line,) = outcome(ranks, output)
    assert codes == [1, 1, -signal.SIGKILL]
    assert line.startswith(f"error: rank 2 (process {ranks[2].pid} on ")
    assert line.endswith(") has died; --resume continues without loss")


def test_a_rank_that_fails_speaks_for_itself_and_the_others_are_silent(options, tmp_path):
    output = tmp_path / "output.txt"
    ranks = start_ranks([options, replace(options, fail_at=7), options], output)
    codes, lines = outcome(ranks, output)
    assert (codes, lines) == ([1, 1, 1], ["error: rank 1: a broken batch"])


def test_the_death_of_the_first_rank_is_told_though_the_store_dies_with_it(options, tmp_path):
    output = tmp_path / "output.txt"
    codes, (line,) = outcome(start_ranks([replace(options, kill_at=7), options], output), output)
    assert codes == [-signal.SIGKILL, 1]
    assert "rank 0" in line


def test_an_error_of_all_ranks_is_shown_once_and_a_run_of_ranks_that_died_goes_on(options, tmp_path):
    output = tmp_path / "output.txt"
    codes, _ = outcome(start_ranks([options, replace(options, kill_at=7)], output), output)
    assert codes == [1, -signal.SIGKILL]
    refused = tmp_path / "refused.txt"
    codes, (line,) = outcome(start_ranks([options] * 2, refused), refused)
    assert codes == [1, 1]
    assert line.startswith(f"error: the run folder {tmp_path / 'run'} is not empty")
    codes, _ = outcome(start_ranks([replace(options, resume=True)] * 2, output), output)
    assert codes == [0, 0]
    undisturbed = replace(options, folder=tmp_path / "undisturbed")
    assert outcome(start_ranks([undisturbed] * 2, output), output)[0] == [0, 0]
    assert_same_run(tmp_path / "run", tmp_path / "undisturbed")
