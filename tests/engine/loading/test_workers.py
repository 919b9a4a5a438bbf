import pytest

from equigrad.engine import EngineError
from equigrad.engine.loading.workers import naming_dead_workers


def test_the_death_of_a_worker_is_found_behind_the_error_that_came_of_it():
    def saving_is_interrupted():
        try:
            raise RuntimeError("DataLoader worker (pid 7) is killed by signal: Killed. ")
        except RuntimeError:
            raise RuntimeError("unexpected pos 64 vs 0")  # noqa: B904 (as the writer of checkpoints does)

    line = r"^DataLoader worker \(pid 7\) is killed by signal: Killed; if memory ran out, .*; --resume continues$"
    with pytest.raises(EngineError, match=line), naming_dead_workers():
        saving_is_interrupted()
    with pytest.raises(RuntimeError, match="another"), naming_dead_workers():
        raise RuntimeError("another")
