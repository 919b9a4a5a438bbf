"""Lines that a run has logged and its `metrics.jsonl` no longer has.

A run logs every `log_every` steps and at its last one. What it has reached is known from the names of its checkpoints.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from equigrad.run_files import EVALUATION, METRICS, checkpoint_files, step_in_name

_MAX_LINES = 10_000_000  # more than a log has: such steps come from a name or a file that is not of a run


def lost_lines(folder: Path, starts: Iterable[Mapping[str, Any]], logged: Iterable[Any]) -> str | None:
    """One line on what is missing; None if nothing is, or if the version of the run does not record it.

    Args:
        folder: the run folder.
        starts: starts and resumptions of the run, as in `recipe.json`.
        logged: steps of the lines.
    """
    log = folder / METRICS
    missing = _missing_steps(folder, starts, logged)
    if missing:
        lines = "line is" if len(missing) == 1 else "lines are"
        return f"{log}: {len(missing)} logged {lines} missing, from step {min(missing)}"
    if log.is_file() and log.read_bytes()[-1:] not in (b"", b"\n"):
        return f"{log}: ends in half a line: the run was killed, or the file was cut"
    return None


def _missing_steps(folder: Path, starts: Iterable[Mapping[str, Any]], logged: Iterable[Any]) -> list[int]:
    end = max((step_in_name(file) or 0 for file in checkpoint_files(folder)), default=0)
    if not (folder / EVALUATION).exists():
        end -= 1  # the line of a step with an evaluation is written after its checkpoint
    missing: list[int] = []
    found = set(logged)
    for start in reversed(list(starts)):
        first, every, last = (start.get(name) for name in ("step", "log_every", "last_step"))
        if not (isinstance(first, int) and isinstance(every, int) and isinstance(last, int) and every > 0):
            return []
        if (end - first) // every > _MAX_LINES:
            return []
        due = {*range(first - first % every + every, end + 1, every), *([last] if first < last <= end else [])}
        missing += due - found
        end = min(end, first)
    return missing
