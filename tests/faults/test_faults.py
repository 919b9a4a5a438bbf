"""Every kind of fault once, with another seed than the hundred of docs/faults.md, which `make faults` repeats."""

import pytest
from tests.faults.__main__ import main
from tests.faults.kinds import KINDS

from quick_processes import run_program

NUM_PARTS = 3  # for the workers of the tests to share
SIZE = -(-len(KINDS) // NUM_PARTS)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(NUM_PARTS))
def test_faults_at_random_moments_lose_nothing(part, tmp_path):
    words = ["--faults", str(SIZE), "--first", str(part * SIZE), "--seed", "1"]
    code = run_program(main, words, output=tmp_path / "output.txt")
    shown = (tmp_path / "output.txt").read_text()
    assert code == 0, shown
    assert f"{SIZE} faults, seed 1" in shown
