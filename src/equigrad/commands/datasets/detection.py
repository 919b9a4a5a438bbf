"""`equigrad data counts | check | stats` of detection data."""

import argparse
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from equigrad.commands.datasets import conversion
from equigrad.commands.datasets.conversion import images_of
from equigrad.errors import UsageError

if TYPE_CHECKING:
    from equigrad.data.detection.data import DetectionData
    from equigrad.data.detection.sources import Layout, Names
    from equigrad.data.detection.stats import DetectionStats
    from equigrad.data.findings import Finding


def add_parsers(tasks: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """`equigrad data stats DATA` and `equigrad data convert coco|voc|yolo SOURCE OUTPUT`."""
    stats = tasks.add_parser("stats", help="how long the tail of boxes is, without and with repeat-factor sampling")
    stats.add_argument("source", type=Path, metavar="DATA", help="a COCO or LVIS file, a VOC or YOLO folder")
    stats.add_argument(
        "--groups", choices=("file", "images", "quantiles"), default="file", help="what defines the groups"
    )
    stats.add_argument(
        "--repeat-threshold",
        type=float,
        default=0.001,
        help="share of images below which a category is repeated (0.001)",
    )
    stats.add_argument("--all", action="store_true", help="show all categories, not only 20")
    stats.add_argument("--csv", type=Path, metavar="FILE", help="write a row for each category")
    stats.add_argument("--figure", type=Path, metavar="PNG", help="draw the tail")
    conversion.add_folder_options(stats)
    stats.set_defaults(function=show_stats)

    conversion.add_parser(tasks)


def is_detection(source: Path) -> bool:
    """Whether a path has boxes in a form that is known."""
    from equigrad.data.detection.formats.openimages import is_openimages
    from equigrad.data.detection.sources import detection_layout

    return detection_layout(source) is not None or is_openimages(source)


def count_source(parsed: argparse.Namespace) -> None:
    """Print, and write, the images and instances of each category."""
    from equigrad.data.detection.formats.openimages import is_openimages
    from equigrad.data.detection.stats import detection_stats
    from equigrad.evaluation.tables import write_table

    if is_openimages(parsed.source):
        _count_openimages(parsed)
        return
    stats = detection_stats(_read(parsed))
    _show(stats, parsed)
    if parsed.csv:
        print(write_table(stats.categories, parsed.csv))


def _count_openimages(parsed: argparse.Namespace) -> None:
    """The boxes of each category, of the split that is named or of all that are there."""
    from equigrad.commands.datasets.count_tables import count_rows, count_text
    from equigrad.data.detection.formats.openimages import openimages_totals
    from equigrad.evaluation.tables import write_table

    totals = {str(split): found for split, found in openimages_totals(parsed.source).items()}
    if parsed.split is not None and parsed.split not in totals:
        raise UsageError(f"--split {parsed.split}: {parsed.source} has {', '.join(totals)}")
    for split in [parsed.split] if parsed.split else totals:
        names, _, counts = totals[split]
        print(count_text(f"{parsed.source} ({split})", counts, names, show_all=parsed.all, unit="boxes"))
    if parsed.csv:
        if parsed.split is None and len(totals) > 1:
            raise UsageError(f"--csv: name one of {', '.join(totals)} with --split")
        print(write_table(count_rows(counts, names), parsed.csv))


def check_source(parsed: argparse.Namespace) -> None:
    """Print the findings, a line each; ValueError if training would be wrong."""
    from equigrad.data.detection.checks import check_test_set
    from equigrad.data.detection.formats.openimages import is_openimages

    if is_openimages(parsed.source):
        _check_openimages(parsed.source)
        return
    train = _checked(parsed.source, parsed.images, parsed.names, parsed.split, decode=parsed.decode)
    findings = train.findings
    if parsed.test is not None:
        images, names = parsed.test_images, parsed.names
        if _layout(parsed.test) == "coco":
            images = images or train.images
        elif names is None and train.data is not None and _layout(parsed.test) == "voc":
            names = train.data.categories.names  # a VOC folder alone has only those that occur in it
        test = _checked(parsed.test, images, names, None, decode=parsed.decode)
        findings = [*findings, *(replace(item, kind=f"{parsed.test}: {item.kind}") for item in test.findings)]
        if train.data is not None and test.data is not None:
            by_content = not parsed.paths_only
            findings += check_test_set(train.data, test.data, train.images, test.images, by_content=by_content)
    _report(parsed.source, findings, train.data)


class _Checked(NamedTuple):
    findings: "list[Finding]"
    data: "DetectionData | None"  # None if it has errors
    images: Path | None


def _checked(source: Path, images: Path | None, names: "Names | None", split: str | None, *, decode: bool) -> _Checked:
    from equigrad.data.detection.checks import check_detection
    from equigrad.data.detection.sources import as_coco, read_source
    from equigrad.data.findings import errors

    with as_coco(source, _layout(source), names, split) as (file, own_images):
        images = images_of(images, own_images)
        findings = check_detection(file, images, decode=decode)
        if own_images is not None:
            findings = _located(findings, read_source(file, source))
        return _Checked(findings, None if errors(findings) else read_source(file, source), images)


def _report(source: Path, findings: "Sequence[Finding]", data: "DetectionData | None") -> None:
    from equigrad.data.findings import SEVERITIES

    for finding in sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity)):
        print(finding)
    errors, warnings = (sum(finding.severity == severity for finding in findings) for severity in ("error", "warning"))
    counted = f"{errors} kind{'s' * (errors != 1)} of error, {warnings} kind{'s' * (warnings != 1)} of warning"
    if data is not None and (line := _published(data)) is not None:
        print(line)
    if errors:
        raise ValueError(f"{source}: training would be wrong: {counted}")
    print(f"{source}: fit for training: {counted}")


def _located(findings: "list[Finding]", data: "DetectionData") -> "list[Finding]":
    """The findings of a converted folder with the image of each annotation, whose number is in no file of the user."""
    image_of = dict(zip(data.ids.tolist(), data.image_indices.tolist(), strict=True))

    def located(match: re.Match[str]) -> str:
        return f"an object of {data.file_names[image_of[int(match[1])]]}"

    return [replace(item, first=re.sub(r"^annotation (\d+)", located, item.first)) for item in findings]


def _published(data: "DetectionData") -> str | None:
    from equigrad.data.published_totals import Found, published_line

    name = Path(data.source).name
    return published_line(Found("boxes", name, data.categories.names, len(data), data.num_annotations))


def _check_openimages(folder: Path) -> None:
    """Read the rows of each split that is there, and compare its totals with the published ones."""
    from equigrad.data.detection.formats.openimages import BOXES_FILE, openimages_totals
    from equigrad.data.published_totals import Found, published_line

    for split, (names, num_images, box_counts) in openimages_totals(folder).items():
        num_boxes = int(box_counts.sum())
        found = Found("boxes", BOXES_FILE.format(split=split), names, num_images, num_boxes)
        counted = f"{num_images:,} images, {num_boxes:,} boxes, {len(names):,} categories"
        print(published_line(found) or f"{folder} ({split}): {counted}")
    print(f"{folder}: nothing that would make training wrong")


def show_stats(parsed: argparse.Namespace, command: Sequence[str]) -> None:
    """Totals, groups, the head and tail of the categories, and an epoch of repeat-factor sampling."""
    from equigrad.data.detection.stats import detection_stats
    from equigrad.evaluation.tables import write_table

    data = _read(parsed)
    stats = detection_stats(data, groups_by=parsed.groups, num_groups=min(3, len(data.categories)))
    _show(stats, parsed)
    print(f"\n{_sampling_text(stats, parsed.repeat_threshold)}")
    if parsed.csv:
        print(write_table(stats.categories, parsed.csv))
    if parsed.figure:
        from equigrad.analysis.plots import plot_tail

        plot_tail(stats.image_counts, stats.groups, parsed.figure)
        print(parsed.figure)


def _sampling_text(stats: "DetectionStats", threshold: float) -> str:
    """An epoch of repeat-factor sampling, and the threshold that fits the data in the words of a command."""
    import torch

    from equigrad.sampling import CategoryPresence, RepeatFactorSampler, suggest_threshold
    from equigrad.terminal import printable

    images, categories = map(torch.from_numpy, stats.presence)
    presence = CategoryPresence(images, categories, stats.num_images, len(stats.categories))
    preview = RepeatFactorSampler(presence, threshold=threshold).preview(
        category_names=[printable(name) for name in stats.names]
    )
    lines = [f"repeat-factor sampling, --repeat-threshold {threshold:g}:", str(replace(preview, note=""))]
    if not presence.is_empty.all():
        fitting = f"{suggest_threshold(presence):.3g}"
        words = f"--set sampler=repeat_factor --set repeat_threshold={fitting}"
        lines += ["", f"to repeat the rarer half of the categories: equigrad train own_data:detection … {words}"]
    return "\n".join(lines)


def _layout(source: Path) -> "Layout":
    from equigrad.data.detection.sources import detection_layout

    layout = detection_layout(source)
    if layout is None:
        raise ValueError(f"{source}: expected a COCO or LVIS file (.json), or a VOC or YOLO folder")
    return layout


def _read(parsed: argparse.Namespace) -> "DetectionData":
    from equigrad.data.detection.sources import as_coco, read_source

    with as_coco(parsed.source, _layout(parsed.source), parsed.names, parsed.split) as (file, _):
        return read_source(file, parsed.source)


def _show(stats: "DetectionStats", parsed: argparse.Namespace) -> None:
    from equigrad.commands.datasets.count_tables import NUM_SHOWN, hidden_rows

    print(stats.table(None if parsed.all else NUM_SHOWN // 2))
    if not parsed.all and len(stats.categories) > NUM_SHOWN:
        print(f"\n{hidden_rows(NUM_SHOWN, len(stats.categories))}")
