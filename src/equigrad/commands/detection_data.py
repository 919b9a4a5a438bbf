"""`equigrad data check | stats | convert` of detection data."""

import argparse
from collections.abc import Sequence
from pathlib import Path


def add_parsers(tasks: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """`equigrad data stats FILE` and `equigrad data convert voc|yolo FOLDER OUTPUT`."""
    stats = tasks.add_parser("stats", help="how long the tail of a COCO or LVIS file is, and what RFS makes of it")
    stats.add_argument("file", type=Path, metavar="FILE")
    stats.add_argument("--groups", choices=("file", "images", "quantiles"), default="file", help="what groups go by")
    stats.add_argument("--csv", type=Path, metavar="FILE", help="write a row for each category")
    stats.add_argument("--figure", type=Path, metavar="PNG", help="draw the tail")
    stats.set_defaults(function=show_stats)

    convert = tasks.add_parser("convert", help="a COCO file from a VOC or YOLO folder")
    convert.add_argument("layout", choices=("voc", "yolo"))
    convert.add_argument("folder", type=Path, metavar="FOLDER")
    convert.add_argument("output", type=Path, metavar="OUTPUT")
    convert.add_argument("--names", type=Path, metavar="FILE", help="of a YOLO data set: data.yaml or a name a line")
    convert.add_argument("--split", help="of a VOC data set: ImageSets/Main/SPLIT.txt")
    convert.set_defaults(function=convert_folder)


def check_file(file: Path, images: Path | None, *, decode: bool) -> None:
    """Print the findings, a line each; ValueError if training would be wrong."""
    from equigrad.data.detection.checks import check_detection

    findings = check_detection(file, images, decode=decode)
    for finding in findings:
        print(finding)
    errors, warnings = (sum(finding.severity == severity for finding in findings) for severity in ("error", "warning"))
    counted = f"{errors} kind{'s' * (errors != 1)} of error, {warnings} kind{'s' * (warnings != 1)} of warning"
    if errors:
        raise ValueError(f"{file}: training would be wrong: {counted}")
    print(f"{file}: fit for training: {counted}")


def show_stats(parsed: argparse.Namespace, command: Sequence[str]) -> None:
    """Totals, groups, the head and tail of the categories, and an epoch of repeat-factor sampling."""
    import torch

    from equigrad.analysis.plots import plot_tail
    from equigrad.data.detection.formats.coco_json import read_coco
    from equigrad.data.detection.stats import detection_stats
    from equigrad.evaluation.tables import write_table
    from equigrad.sampling import CategoryPresence, RepeatFactorSampler
    from equigrad.terminal import printable

    data = read_coco(parsed.file)
    stats = detection_stats(data, groups_by=parsed.groups, num_groups=min(3, len(data.categories)))
    print(stats)
    images, categories = map(torch.from_numpy, stats.presence)
    presence = CategoryPresence(images, categories, stats.num_images, len(stats.categories))
    print(f"\n{RepeatFactorSampler(presence).preview(category_names=[printable(name) for name in stats.names])}")
    if parsed.csv:
        print(write_table(stats.categories, parsed.csv))
    if parsed.figure:
        plot_tail(stats.image_counts, stats.groups, parsed.figure)
        print(parsed.figure)


def convert_folder(parsed: argparse.Namespace, command: Sequence[str]) -> None:
    """Write a COCO file, read it back, and say what is in it."""
    from equigrad.data.detection.formats.coco_json import read_coco
    from equigrad.data.detection.formats.voc import convert_voc
    from equigrad.data.detection.formats.yolo import convert_yolo

    if parsed.layout == "voc":
        if parsed.names is not None:
            raise ValueError("--names: a VOC folder has its names in the XML files; only yolo takes a file of names")
        written = convert_voc(parsed.folder, parsed.output, split=parsed.split)
    else:
        if parsed.split is not None:
            raise ValueError("--split: only voc has lists of splits; name the folder of the split, FOLDER/images/train")
        written = convert_yolo(parsed.folder, parsed.output, parsed.names)
    print(read_coco(written).describe())
