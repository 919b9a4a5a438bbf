"""Looks at data, a run or a checkpoint for `equigrad doctor`, and hands the facts to `analysis.doctor`."""

import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeGuard

import numpy as np
import torch
from torch import Tensor

from equigrad.analysis.doctor.data import Commands, Fault, data_findings
from equigrad.analysis.doctor.diagnosis import Diagnosis
from equigrad.analysis.doctor.finding import Finding
from equigrad.analysis.doctor.run import completed, largest_positive, run_findings, tail_of_run
from equigrad.analysis.doctor.settings import compensates, loss_of, settings_findings, task_of
from equigrad.analysis.doctor.statistics import Gathered, statistics_findings
from equigrad.analysis.doctor.tail import Tail
from equigrad.analysis.doctor.tail_remedy import tail_remedy
from equigrad.analysis.history import RunHistory
from equigrad.analysis.json_files import Json
from equigrad.analysis.snapshots import StatisticsOverTime
from equigrad.data.detection.checks import check_detection, check_test_set
from equigrad.data.detection.formats.coco_json import read_coco
from equigrad.data.findings import Finding as DataFinding, errors
from equigrad.data.frequency import Counts
from equigrad.data.images.checks import check_classification
from equigrad.data.images.lists import ImageList
from equigrad.data.images.multi_label import read_multi_label
from equigrad.data.images.readers import read_images
from equigrad.data.images.stores import check_exists
from equigrad.data.segmentation.category_pixels import LabelReading, scan_label_maps, show_progress
from equigrad.data.segmentation.readers import read_label_folders
from equigrad.engine.checkpoint import load_checkpoint
from equigrad.run_files import CHECKPOINTS, RECIPE, read_recipe, standing
from equigrad.tasks.classification.data import ManyLabels, OwnImages
from equigrad.tasks.comparison.sources import NamedFiles, Source, TaskName, assignments_of, find_source
from equigrad.tasks.detection.data import CocoFiles
from equigrad.tasks.segmentation.data import LabelFolders

_WEIGHT_FILES = (".pt", ".pth", ".ckpt", ".bin", ".tar")


def diagnose(subject: Path, named: NamedFiles, task: TaskName | None = None) -> Diagnosis:
    """Find out what a path is, and what looks wrong with it.

    Raises:
        ValueError, OSError: one line on what cannot be read.
    """
    check_exists(subject, "data, run or checkpoint")
    if subject.is_dir() and (subject / RECIPE).is_file():
        return _run(subject)
    if subject.is_dir() and (runs := sorted(subject.glob(f"*/{RECIPE}")) + sorted(subject.glob(f"*/*/{RECIPE}"))):
        raise ValueError(f"{subject}: holds runs and no data; name one of them, such as {runs[0].parent}")
    if subject.is_file() and subject.suffix in _WEIGHT_FILES:
        return _checkpoint(subject)
    if subject.suffix == ".json" and task in (None, "detection", "instance_segmentation"):
        return _objects(subject, named, task)
    _, source = find_source(subject, named, task)
    if isinstance(source, LabelFolders):
        return _label_maps(subject, named, source)
    assert isinstance(source, OwnImages | ManyLabels)
    return _images(subject, named, source)


def _run(folder: Path) -> Diagnosis:
    run = RunHistory.load(folder)
    return _trained(folder, "run", run.recipe.get("settings", {}), tail_of_run(run), run_findings(run))


def _trained(
    subject: Path, kind: Literal["run", "checkpoint"], settings: Json, tail: Tail | None, findings: list[Finding]
) -> Diagnosis:
    precision = settings.get("precision")
    return Diagnosis(
        str(subject),
        kind,
        task_of(settings),
        tail,
        findings,
        precision=precision if isinstance(precision, str) else None,
        loss=_loss_name(loss_of(settings)),
    )


def _loss_name(loss: dict[str, Any]) -> str | None:
    """An equalization loss at zero strength is the plain loss that keeps the statistics."""
    name = loss.get("type")
    if not isinstance(name, str):
        return None
    return name if compensates(loss) else f"{name}, which compensates nothing here"


def _images(data: Path, named: NamedFiles, source: OwnImages | ManyLabels) -> Diagnosis:
    train, test = _read(source)
    faults = _faults(check_classification(train, test, by_content=False))
    counts = _in_range(train)
    tested = counts >= 2 if test is None else _in_range(test) > 0  # a part of each category is held out
    words = ["equigrad", "data", "check", str(source.train)]
    words += [] if source.root is None else ["--root", str(source.root)]
    words += [] if source.test is None else ["--test", str(source.test)]
    tail = Tail(counts, counts, tested.astype(np.int64))
    # The counts show that better: a list may name categories that no image has.
    faults = [fault for fault in faults if "single category" not in fault.kind]
    train_only = replace(source, test=None)
    task = "classification" if isinstance(source, OwnImages) else "multi_label"
    commands = Commands(shlex.join(words), _training(task, train_only))
    findings = data_findings(tail, train.class_names, faults, commands)
    return Diagnosis(str(data), "data", task, tail, findings, _compared(data, named))


def _read(source: OwnImages | ManyLabels) -> tuple[ImageList, ImageList | None]:
    read: Callable[..., ImageList] = read_multi_label if isinstance(source, ManyLabels) else read_images
    train = read(source.train, source.root)
    if source.test is None:
        return train, None
    split = {} if isinstance(source, ManyLabels) else {"split": "test"}
    return train, read(source.test, source.root, class_names=train.class_names, **split)


def _objects(file: Path, named: NamedFiles, task: TaskName | None) -> Diagnosis:
    images = named.images or file.parent / "images"
    folder = images if images.exists() else None
    options = [] if folder is None else ["--images", str(folder)]
    check = shlex.join(["equigrad", "data", "check", str(file), *options])
    commands = Commands(check, _training(task or "detection", CocoFiles(file, None, images)))
    faults = _faults(check_detection(file, folder))
    if faults:
        return Diagnosis(str(file), "data", task, None, data_findings(None, (), faults, commands))
    train = read_coco(file)
    tested = np.ones(train.num_classes, dtype=np.int64)
    if named.test is not None:
        test = read_coco(named.test)
        faults = _faults(check_test_set(train, test, folder, folder, by_content=False))
        with suppress(ValueError):  # which is among the faults
            tested = test.in_categories_of(train).category_counts
    if task is None:
        task = "detection" if train.segmentations is None else "instance_segmentation"
    tail = Tail(train.category_counts, train.instance_counts, tested, "objects")
    findings = data_findings(tail, train.categories.names, faults, commands)
    return Diagnosis(str(file), "data", task, tail, findings, _compared(file, named))


def _label_maps(data: Path, named: NamedFiles, source: LabelFolders) -> Diagnosis:
    def scan(images: Path, labels: Path) -> tuple[list[LabelReading], tuple[str, ...]]:
        found = read_label_folders(images, labels, source.names, root=source.root, ignored=source.ignored)
        return scan_label_maps(found, progress=show_progress), found.class_names

    train, names = scan(source.images, source.labels)
    test = None
    if source.test_images is not None and source.test_labels is not None:
        test, _ = scan(source.test_images, source.test_labels)
    wrong = [reading.fault for reading in [*train, *(test or [])] if reading.fault]
    faults = [Fault("label maps that cannot be used", len(wrong), wrong[0])] if wrong else []
    pixels = np.array([reading.pixels[:-1] for reading in train])
    tested = np.ones(len(names), dtype=np.int64)
    if test is not None:
        tested = np.sum([reading.pixels[:-1] for reading in test], axis=0)
    folders = [str(source.root / source.images), "--labels", str(source.root / source.labels)]
    check = shlex.join(["equigrad", "data", "check", *folders, "--names", str(source.names)])
    train_only = replace(source, test_images=None, test_labels=None)
    commands = Commands(check, _training("semantic_segmentation", train_only))
    tail = Tail((pixels > 0).sum(0), pixels.sum(0), tested, "pixels")
    findings = data_findings(tail, names, faults, commands)
    return Diagnosis(str(data), "data", "semantic_segmentation", tail, findings, _compared(data, named))


def _checkpoint(file: Path) -> Diagnosis:
    content = load_checkpoint(file)
    found = dict(_statistics_in(content))
    if not found:
        raise ValueError(
            f"{file}: no gradient statistics in it, expected tensors such as criterion.statistics.positive; save the "
            "state_dict of the loss with that of the model"
        )
    run = file.absolute().parent.parent  # of a checkpoint that a run wrote
    recipe = read_recipe(run) if file.absolute().parent.name == CHECKPOINTS and (run / RECIPE).is_file() else {}
    settings, planned, step = recipe.get("settings", {}), standing(run) if recipe else None, content.get("step")
    findings = settings_findings(settings)
    for path, (positive, negative, skipped) in found.items():
        broken = _damaged_sums(path, positive, negative)
        findings += broken
        if not any(finding.severity == "error" for finding in broken):
            sums = (values.detach().double().numpy()[None] for values in (positive, negative))
            history = StatisticsOverTime(np.array([step if type(step) is int else 0]), *sums)
            gathered = Gathered(history, num_skipped=skipped)
            if recipe:
                num_steps = None if planned is None else planned.last_step
                largest = largest_positive(settings)
                gathered = replace(
                    gathered, num_steps=num_steps, largest_positive=largest, tail_remedy=tail_remedy(recipe)
                )
            findings += statistics_findings(gathered)
    findings = [replace(finding, remedy=completed(finding.remedy, recipe, run)) for finding in findings]
    return _trained(file, "checkpoint", settings, None, findings)


def _statistics_in(content: Mapping[Any, Any], path: str = "") -> Iterator[tuple[str, tuple[Tensor, Tensor, int]]]:
    """Positive and negative sums, and skipped batches, by path; averaged weights have the same ones again."""
    for key, value in content.items():
        name = f"{path}{key}"
        if isinstance(value, Mapping) and key != "ema":
            yield from _statistics_in(value, f"{name}.")
        elif isinstance(key, str) and (key == "positive" or key.endswith(".positive")):
            stem = key.removesuffix("positive")
            other, skipped = content.get(f"{stem}negative"), content.get(f"{stem}skipped")
            if _are_sums(value) and _are_sums(other):
                yield name.removesuffix(".positive"), (value, other, _number(skipped))


def _are_sums(values: Any) -> TypeGuard[Tensor]:
    return isinstance(values, Tensor) and values.ndim == 1 and values.is_floating_point()


def _number(value: Any) -> int:
    return int(value) if isinstance(value, Tensor) and value.dtype == torch.int64 and value.numel() == 1 else 0


def _damaged_sums(path: str, positive: Tensor, negative: Tensor) -> list[Finding]:
    sums = torch.cat([positive.double(), negative.double()])
    if len(positive) != len(negative) or not bool((sums.isfinite() & (sums >= 0)).all()):
        evidence = f"{path}: {len(positive):,} and {len(negative):,} sums, {int((~sums.isfinite()).sum()):,} not finite"
        remedy = "start from an earlier checkpoint, or forget them: criterion.statistics.reset()"
        text = "the statistics are damaged"
        return [Finding("error", "statistics_not_finite", text, evidence, remedy)]
    if positive.dtype in (torch.float16, torch.bfloat16):
        evidence = f"{path} is {str(positive.dtype).removeprefix('torch.')}, expected float64"
        remedy = "save the loss before weights are rounded; its own sums stay float64 under model.half()"
        return [Finding("warning", "statistics_rounded", "the statistics were rounded", evidence, remedy)]
    return []


def _in_range(images: ImageList) -> Counts:
    if images.labels.ndim == 2:
        return images.category_counts
    labels = images.labels[~images.is_out_of_range()]
    return np.bincount(labels, minlength=images.num_classes).astype(np.int64)


def _faults(findings: list[DataFinding]) -> list[Fault]:
    return [Fault(finding.kind, finding.count, finding.first) for finding in errors(findings)]


def _training(task: str, source: Source) -> str:
    settings = [word for assignment in assignments_of(source) for word in ("--set", assignment)]
    return shlex.join(["equigrad", "train", f"own_data:{task}", *settings])


def _compared(data: Path, named: NamedFiles) -> str:
    """The data as words of `equigrad compare`."""
    options = {name: value for name, value in vars(named).items() if value is not None}
    return shlex.join([str(data), *(word for name, value in options.items() for word in (f"--{name}", str(value)))])
