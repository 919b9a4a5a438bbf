"""What looks wrong in a run: its progress, its losses, its settings, its statistics and its tail."""

import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np

from equigrad.analysis.doctor.finding import Finding
from equigrad.analysis.doctor.settings import TRAIN_AGAIN, compensates, has_one_label, loss_of, settings_findings
from equigrad.analysis.doctor.statistics import Gathered, polluted, statistics_findings
from equigrad.analysis.doctor.tail import Tail
from equigrad.analysis.findings import STARVING, STARVING_RATIO
from equigrad.analysis.history import Floats, Json, RunHistory
from equigrad.files import try_lock
from equigrad.run_files import LOCK, standing, unfinished_note


def tail_of_run(run: RunHistory) -> Tail | None:
    """Training and test images of its categories; None before its evaluation, and where it counts pixels."""
    counts_pixels = run.recipe.get("settings", {}).get("type") == "SegmentationRecipe"
    if run.evaluation is None or not run.evaluation.categories or counts_pixels:
        return None
    _, counts = run.evaluation.names_and_counts()
    tested = np.array([category.num_test != 0 for category in run.evaluation.categories], dtype=np.int64)
    return Tail(counts, counts, tested)


def run_findings(run: RunHistory) -> list[Finding]:
    """All that looks wrong."""
    settings = run.recipe.get("settings", {})
    found = [*_progress(run), *_losses(run), *settings_findings(settings)]
    for history in run.statistics.values():
        names = None if run.evaluation is None else run.evaluation.names_and_counts()[0] or None
        found += statistics_findings(Gathered(history, names, _planned_steps(run), _largest_positive(settings)))
    found += [*_samples(run), *_starving(run), *_untested(run)]
    again = _command(run)
    folder = shlex.quote(str(run.folder))
    return [
        replace(finding, remedy=finding.remedy.replace(TRAIN_AGAIN, again).replace(" RUN ", f" {folder} "))
        for finding in found
    ]


def _command(run: RunHistory) -> str:
    """How the run was started, for a folder of its own; what follows changes it."""
    words = next(iter(run.commands), [])
    if words[:2] != ["equigrad", "train"]:
        return TRAIN_AGAIN
    if "--run" in words[:-1]:
        index = words.index("--run")
        words = words[:index] + words[index + 2 :]
    return shlex.join([*words, "--run", f"{run.folder}_again"])


def _progress(run: RunHistory) -> list[Finding]:
    found, note = standing(run.folder), unfinished_note(run.folder)
    if _is_training(run.folder):
        evidence = "its folder is locked" if found is None else f"its last checkpoint is of {found}"
        remedy = "wait for its end, then: equigrad doctor RUN again"
        return [Finding("note", "still_training", "the run is still being trained", evidence, remedy)]
    if note is not None and found is not None:
        remedy = note.partition("to go on: ")[2]
        return [Finding("warning", "unfinished", "the run is not finished", str(found), remedy)]
    if run.lost_lines is not None:
        return [Finding("note", "log_lost", "the log has lost lines", run.lost_lines, "nothing brings them back")]
    return []


def _is_training(folder: Path) -> bool:
    """Whether a process writes in the folder now."""
    try:
        with (folder / LOCK).open("rb") as file:
            return not try_lock(file.fileno(), shared=True)
    except OSError:  # no such file, or a file system without locks
        return False


def _losses(run: RunHistory) -> list[Finding]:
    broken = [line["step"] for line in run.metrics if "loss" in line and line["loss"] is None]
    if not broken:
        return []
    return [
        Finding(
            "error",
            "loss_not_finite",
            "the loss is not finite",
            f"{len(broken):,} lines of the log, the first at step {broken[0]:,}",
            f"{TRAIN_AGAIN} --set training.max_grad_norm=10, or with half the learning rate (--lr)",
        )
    ]


def _planned_steps(run: RunHistory) -> int | None:
    found = standing(run.folder)
    return None if found is None else found.last_step


def _largest_positive(settings: Json) -> float | None:
    """Of a classifier: the mean of |p - 1| is at most 1, times the largest weight of a positive sample."""
    if not has_one_label(settings) or settings.get("init") is not None:
        return None  # statistics may have come with the weights
    loss = loss_of(settings)
    match loss.get("type"):
        case "SoftmaxEql":
            return 1.0
        case "SigmoidEql":
            boost = loss.get("positive_boost")
            return 1.0 + boost if isinstance(boost, int | float) else None
        case _:
            return None


def _samples(run: RunHistory) -> list[Finding]:
    """A classifier sees no more samples than its batches have."""
    settings = run.recipe.get("settings", {})
    training = settings.get("training")
    batch = training.get("batch_size") if isinstance(training, dict) else None
    if not has_one_label(settings) or not isinstance(batch, int):
        return []
    for history in run.recognition.values():
        seen, last = float(history.seen[-1].sum()), int(history.steps[-1])
        if seen > last * batch + 0.5:
            return [polluted(f"{seen:,.0f} samples in {last:,} steps of {batch:,}")]
    return []


def _starving(run: RunHistory) -> list[Finding]:
    """Most of the rarest third loses its own training samples to others, while the head wins its own."""
    settings = run.recipe.get("settings", {})
    found: list[Finding] = []
    for path, history in run.recognition.items():
        if "auxiliary" in path:
            continue
        share, seen = history.share[-1], history.seen[-1]
        found += _starving_tail(share, seen, STARVING, "share of own training samples won", settings)
    if run.recognition:
        return found
    for statistics in run.statistics.values():
        found += _starving_tail(
            statistics.ratio[-1], statistics.positive[-1], STARVING_RATIO, "gradient ratio", settings
        )
    return found


def _starving_tail(indicator: Floats, amounts: Floats, limit: float, what: str, settings: Json) -> list[Finding]:
    known = np.flatnonzero(np.isfinite(indicator) & (amounts > 0))
    order = known[np.argsort(amounts[known], kind="stable")]
    size = len(order) // 3
    if not size:
        return []
    tail, head = indicator[order[:size]], indicator[order[-size:]]
    num_starving = int(np.count_nonzero(tail < limit))
    if 2 * num_starving <= size or np.mean(head) < limit:
        return []
    is_equalized = compensates(loss_of(settings))
    remedy = "train longer" if is_equalized else f"train with {_equalized(settings)}"
    return [
        Finding(
            "warning",
            "tail_starving",
            "the tail is starving",
            f"{num_starving:,} of the {size:,} rarest categories have a {what} below {limit:g}; "
            f"mean {np.mean(tail):.2f}, head {np.mean(head):.2f}",
            f"{remedy}; equigrad report RUN names the categories",
        )
    ]


def _equalized(settings: Json) -> str:
    """The method that equalizes what a plain loss computes, as `--method` and recipes name it."""
    kind = loss_of(settings).get("type")
    equalized = {
        "SigmoidEql": "sigmoid_eql",
        "Efl": "efl",
        "Eqfl": "eqfl",
        "QualityFocal": "eqfl",
        "FocalEql": "fl_eql",
    }
    return f"the method {equalized.get(str(kind), 'softmax_eql')}"


def _untested(run: RunHistory) -> list[Finding]:
    if run.evaluation is None:
        return []
    trained = [category for category in run.evaluation.categories if category.count > 0]
    lacking = [category for category in trained if category.num_test == 0]
    if not lacking:
        return []
    rarest = min(lacking, key=lambda category: category.count)
    return [
        Finding(
            "warning",
            "not_tested",
            f"the test set lacks {len(lacking):,} of {len(trained):,} trained categories",
            f"the rarest is {rarest.name}, training samples: {rarest.count:,}",
            f"test on a held-out part: {TRAIN_AGAIN} --set data.test=none",
        )
    ]
