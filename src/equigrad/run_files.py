"""Names of the files in a run folder, for all that write or read them, and how far the run in a folder has come."""

import json
import shlex
from pathlib import Path
from typing import Any, NamedTuple

from equigrad.errors import EngineError, one_line

RECIPE = "recipe.json"  # settings, versions, seed and commands
METRICS = "metrics.jsonl"  # the numbers of every logged step
TENSORBOARD = "tensorboard"  # the same for TensorBoard
STATISTICS = "statistics.npz"  # gradient statistics over time
CHECKPOINTS = "checkpoints"  # state to resume from
BEST = Path(CHECKPOINTS, "best.pt")  # state at the best evaluation
CATEGORIES = "categories.json"  # names, groups and counts of the training categories
EVALUATION = "evaluation.json"  # metrics of the test set and of each category
PREDICTIONS = "predictions"  # folder of what the model says about the test set
TEST_PREDICTIONS = Path(PREDICTIONS, "test.npz")  # of classifiers and segmenters
LABEL_MAPS = Path(PREDICTIONS, "label_maps")  # of segmenters
COMPARISONS = "comparisons"  # folder of pictures of this run beside others
REPORT = "report.html"  # the page of the run
LOCK = ".lock"  # held by the process that writes in the folder; says which

FORMAT = 2
"""Version of `recipe.json`; it changes when older readers would misunderstand the file."""


class Standing(NamedTuple):
    """How far a run has come."""

    step: int  # of its last checkpoint
    last_step: int
    is_finished: bool  # trained and evaluated

    def __str__(self) -> str:
        missing = "" if self.is_finished or self.step < self.last_step else ", without its evaluation"
        return f"step {self.step:,} of {self.last_step:,}{missing}"


def read_recipe(folder: Path) -> dict[str, Any]:
    """`recipe.json` of a run; EngineError with one line if it is missing or cannot be understood."""
    file = folder / RECIPE
    if not folder.is_dir():
        raise EngineError(f"{folder}: no such run; expected a folder that `equigrad train` made")
    if not file.is_file():
        raise EngineError(f"{folder}: not the folder of a run, it has no {RECIPE}")
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise EngineError(f"{file}: not JSON ({one_line(error)})") from None
    if not isinstance(content, dict) or "format" not in content:
        raise EngineError(f"{file}: no format version; runs of earlier versions must be trained again")
    if content["format"] != FORMAT:
        raise EngineError(f"{file}: format {content['format']!r} is not known here, expected {FORMAT}")
    if not isinstance(content.get("starts"), list) or not isinstance(content.get("settings"), dict):
        raise EngineError(f"{file}: expected the fields starts and settings")
    return content


def checkpoint_file(folder: Path, step: int) -> Path:
    """Where a run keeps the checkpoint of a step."""
    return folder / CHECKPOINTS / f"step_{step:08d}.pt"


def checkpoint_files(folder: Path) -> list[Path]:
    """The checkpoints of a run, oldest first."""
    return sorted((folder / CHECKPOINTS).glob("step_*.pt"))


def step_in_name(checkpoint: Path) -> int | None:
    """The step that the name of a checkpoint states; None if it states none."""
    return parsed_number(checkpoint.stem.removeprefix("step_"))


def parsed_number(text: str) -> int | None:
    """A number of 1 to 15 digits; None for any other text, since names of files in a run folder are not trusted."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None


def standing(folder: Path) -> Standing | None:
    """How far the run in a folder has come; None if its files do not say."""
    try:
        start = read_recipe(folder)["starts"][-1]
        last_step = start["last_step"]
    except (EngineError, IndexError, KeyError, TypeError):
        return None
    steps = [step_in_name(file) for file in checkpoint_files(folder)]
    known = [step for step in steps if step is not None]
    if not isinstance(last_step, int) or len(known) < len(steps):
        return None
    step = max(known, default=0)
    return Standing(step, last_step, step >= last_step and (folder / EVALUATION).exists())


def unfinished_note(folder: Path) -> str | None:
    """One line on a run that has steps left, with the command that continues it; None for any other folder."""
    found = standing(folder)
    if found is None or found.step >= found.last_step:
        return None
    command = shlex.join(
        ["equigrad", "train", str(read_recipe(folder).get("recipe")), "--run", str(folder), "--resume"]
    )
    return f"{folder}: the run is not finished, {found}; to continue: {command}"
