"""What looks wrong in a run: its progress, its losses, its settings, its statistics and its tail."""

import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np

from equigrad.analysis.doctor.finding import Finding
from equigrad.analysis.doctor.settings import TRAIN_AGAIN, has_one_label, loss_of, part, settings_findings
from equigrad.analysis.doctor.statistics import Gathered, polluted, statistics_findings
from equigrad.analysis.doctor.tail import Tail
from equigrad.analysis.doctor.tail_remedy import tail_remedy
from equigrad.analysis.findings import STARVING, STARVING_RATIO
from equigrad.analysis.history import RunHistory
from equigrad.analysis.json_files import Json
from equigrad.analysis.snapshots import Floats
from equigrad.files import try_lock
from equigrad.run_files import LOCK, standing, unfinished_note

_HOLD_OUT = {
    **dict.fromkeys(("OwnImages", "ManyLabels", "CocoFiles"), "--set data.test=none"),
    "LabelFolders": "--set data.test_images=none --set data.test_labels=none",
}
"""Settings of data that test on a part of the training set."""


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
        gathered = Gathered(
            history, names, _planned_steps(run), largest_positive(settings), tail_remedy=tail_remedy(run.recipe)
        )
        found += statistics_findings(gathered)
    found += [*_samples(run), *_starving(run), *_untested(run)]
    return [replace(finding, remedy=completed(finding.remedy, run.recipe, run.folder)) for finding in found]


def completed(remedy: str, recipe: Json, folder: Path) -> str:
    """A remedy with the folder of the run, and with the run's own settings in a command that trains it again."""
    text, train, change = remedy.replace(" RUN ", f" {shlex.quote(str(folder))} ").partition(TRAIN_AGAIN)
    name, assignments = recipe.get("recipe"), recipe.get("set")
    if not train or not isinstance(name, str) or not isinstance(assignments, list):
        return text + train + change
    changed = shlex.split(change)[1::2]
    latest = {str(assignment).partition("=")[0]: str(assignment) for assignment in [*assignments, *changed]}
    settings = [word for assignment in latest.values() for word in ("--set", assignment)]
    return text + shlex.join(["equigrad", "train", name, *settings, "--run", f"{folder}_again"])


def _progress(run: RunHistory) -> list[Finding]:
    found, note = standing(run.folder), unfinished_note(run.folder)
    if _broken_losses(run):
        return []  # going on would meet the same batch with the same weights
    if _is_training(run.folder):
        evidence = "its folder is locked" if found is None else f"its last checkpoint is of {found}"
        remedy = "wait for its end, then: equigrad doctor RUN again"
        return [Finding("note", "still_training", "the run is still being trained", evidence, remedy)]
    if note is not None and found is not None:
        remedy = note.partition("to continue: ")[2]
        return [Finding("warning", "unfinished", "the run is not finished", str(found), remedy)]
    if run.lost_lines is not None:
        return [Finding("note", "log_lost", "lines of the log are missing", run.lost_lines, "they cannot be recovered")]
    return []


def _is_training(folder: Path) -> bool:
    """Whether a process writes in the folder now."""
    try:
        with (folder / LOCK).open("rb") as file:
            return not try_lock(file.fileno(), shared=True)
    except OSError:  # no such file, or a file system without locks
        return False


def _broken_losses(run: RunHistory) -> list[int]:
    """Steps whose loss was not finite."""
    return [line["step"] for line in run.metrics if "loss" in line and line["loss"] is None]


def _losses(run: RunHistory) -> list[Finding]:
    broken = _broken_losses(run)
    if not broken:
        return []
    optimizer = part(part(run.recipe.get("settings", {}), "training"), "optimizer")
    lr = optimizer.get("lr")
    change = f"training.optimizer.lr={lr / 10:g}" if isinstance(lr, int | float) else "training.max_grad_norm=10"
    return [
        Finding(
            "error",
            "loss_not_finite",
            "the loss is not finite",
            f"{len(broken):,} lines of the log, the first at step {broken[0]:,}",
            f"train with smaller steps: {TRAIN_AGAIN} --set {change}",
        )
    ]


def _planned_steps(run: RunHistory) -> int | None:
    found = standing(run.folder)
    return None if found is None else found.last_step


def largest_positive(settings: Json) -> float | None:
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
    remedy = tail_remedy(run.recipe)
    found: list[Finding] = []
    for path, history in run.recognition.items():
        if "auxiliary" in path:
            continue
        share, seen = history.share[-1], history.seen[-1]
        found += _starving_tail(share, seen, STARVING, "share of own training samples won", remedy)
    if run.recognition:
        return found
    for statistics in run.statistics.values():
        found += _starving_tail(statistics.ratio[-1], statistics.positive[-1], STARVING_RATIO, "gradient ratio", remedy)
    return found


def _starving_tail(indicator: Floats, amounts: Floats, limit: float, what: str, remedy: str) -> list[Finding]:
    known = np.flatnonzero(np.isfinite(indicator) & (amounts > 0))
    order = known[np.argsort(amounts[known], kind="stable")]
    size = len(order) // 3
    if not size:
        return []
    tail, head = indicator[order[:size]], indicator[order[-size:]]
    num_starving = int(np.count_nonzero(tail < limit))
    if 2 * num_starving <= size or np.mean(head) < limit:
        return []
    return [
        Finding(
            "warning",
            "tail_starving",
            "the tail is starving",
            f"{num_starving:,} of the {size:,} rarest categories have a {what} below {limit:g}; "
            f"mean {np.mean(tail):.2f}, head {np.mean(head):.2f}",
            f"equigrad report RUN names the categories; {remedy}",
        )
    ]


def _untested(run: RunHistory) -> list[Finding]:
    if run.evaluation is None:
        return []
    trained = [category for category in run.evaluation.categories if category.count > 0]
    lacking = [category for category in trained if category.num_test == 0]
    if not lacking:
        return []
    rarest = min(lacking, key=lambda category: category.count)
    hold_out = _HOLD_OUT.get(str(part(run.recipe.get("settings", {}), "data").get("type")))
    command = "" if hold_out is None else f", or on a held-out part of the training set: {TRAIN_AGAIN} {hold_out}"
    return [
        Finding(
            "warning",
            "not_tested",
            f"the test set lacks {len(lacking):,} of {len(trained):,} trained categories",
            f"the rarest is {rarest.name}, training samples: {rarest.count:,}",
            f"test on samples of them{command}",
        )
    ]
