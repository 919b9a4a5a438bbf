"""Run folders with real files, in the format the engine and the evaluators write."""

import json
from pathlib import Path
from typing import Any

import numpy as np

NAMES = ("person", "car", "dog", "harp", "unicycle", "yoke")
COUNTS = (900, 400, 80, 30, 5, 2)
GROUPS = ("frequent", "frequent", "common", "common", "rare", "rare")
STEPS = (0, 50, 100)
PATH = "criterion.statistics"


def statistics(final_ratio: Any, steps: Any = STEPS) -> dict[str, Any]:
    """Negative gradient of 1 a step for each category, and as much positive gradient as the ratio asks for."""
    steps = np.asarray(steps)
    negative = steps[:, None] * np.ones(len(final_ratio))
    return {"steps": steps, f"{PATH}.positive": negative * np.asarray(final_ratio), f"{PATH}.negative": negative}


def recognition(share: Any, steps: Any = STEPS, path: str = "criterion") -> dict[str, Any]:
    """A sample of each category a step, of which the share is won; for `statistics.npz`."""
    seen = np.asarray(steps)[:, None] * np.ones(len(share))
    return {f"{path}.seen": seen, f"{path}.compared": seen, f"{path}.won": seen * np.asarray(share)}


def evaluation(values: Any, result: Any = None, metric: str = "AP", names: Any = NAMES) -> dict[str, Any]:
    """Of the six categories above, or of others with the same counts."""
    fields = zip(names, COUNTS, GROUPS, values, strict=True)
    categories = [{"name": name, "count": count, "group": group, metric: value} for name, count, group, value in fields]
    return {"result": result or {"AP": 0.3, "APr": 0.01, "APc": 0.2, "APf": 0.5}, "categories": categories}


def recipe(loss: str = "BCE", **rest: Any) -> dict[str, Any]:
    start = {
        "step": 0,
        "command": ["equigrad", "train", f"toy:{loss}", "--set", "name=two words"],
        "time": "2026-01-02T03:04:05+0000",
        "versions": {"python": "3.11.2", "torch": "2.9.0"},
        "settings": {"type": "TrainSettings", "batch_size": 8, "loss": {"type": loss}},
    }
    return {"seed": 7, **start, "starts": [start], **rest}


def predictions(labels: Any, said: Any, confidences: Any = None) -> dict[str, Any]:
    """What a classifier said about its test images; for `predictions/test.npz`."""
    scores = np.ones(len(labels)) if confidences is None else np.asarray(confidences)
    return {"labels": np.asarray(labels), "top": np.asarray(said)[:, None], "scores": scores[:, None]}


def write_run(folder: Path, *, ratio: Any = (1, 0.9, 0.6, 0.4, 0.1, 0.01), **content: Any) -> Path:
    """A run; `recipe`, `metrics`, `statistics` and `evaluation` replace what is written, None leaves a file out.

    With `predictions`, it also has those of the test set.
    """
    folder.mkdir(parents=True)
    files = {
        "recipe": recipe(folder.name),
        "metrics": [{"step": 50, "loss": 2.0}, {"step": 100, "loss": 1.0, "seconds_per_step": 0.02}],
        "statistics": statistics(ratio),
        "evaluation": evaluation([0.6, 0.5, 0.4, 0.2, 0.1, None]),
        **content,
    }
    for name in ("recipe", "evaluation"):
        if files[name] is not None:
            (folder / f"{name}.json").write_text(json.dumps(files[name]))
    if files["metrics"] is not None:
        (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in files["metrics"]))
    if files["statistics"] is not None:
        np.savez(folder / "statistics.npz", **files["statistics"])
    if "predictions" in files:
        (folder / "predictions").mkdir()
        np.savez(folder / "predictions" / "test.npz", **files["predictions"])
    return folder
