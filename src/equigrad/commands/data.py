"""`equigrad data`: counts, checks and long-tailed subsets of images with labels; checks of other annotations."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from equigrad.commands.datasets import detection, segmentation
from equigrad.errors import UsageError

if TYPE_CHECKING:
    from equigrad.data.findings import Finding
    from equigrad.data.images.lists import ImageList
    from equigrad.data.segmentation.data import SegmentationData

    _Images = ImageList | SegmentationData

_FORMS = (
    "a list of lines `path label`, a folder (or .zip, or photos.zip/train) with a folder of images per category, "
    ".npz arrays, or the folder of CIFAR's binary version"
)
_ALSO_BOXES = (
    f"{_FORMS}; a CSV file with the columns image and categories; with boxes: a COCO or LVIS file (.json), a VOC or "
    "YOLO folder"
)


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """`equigrad data counts | check | long-tail | stats | convert | ade20k-lt`."""
    data = commands.add_parser("data", help="count categories, check and convert data, choose long-tailed subsets")
    tasks = data.add_subparsers(title="commands", required=True, metavar="COMMAND")

    counts = tasks.add_parser("counts", help="count images, boxes or pixels of each category")
    _add_source(counts)
    counts.add_argument("--all", action="store_true", help="show all categories, not only 20")
    counts.add_argument("--csv", type=Path, metavar="FILE", help="write a row for each category")
    counts.set_defaults(function=count)

    check = tasks.add_parser("check", help="find what would make a training wrong")
    _add_source(check, "TRAIN")
    check.add_argument("--test", type=Path, metavar="TEST", help="the test set, in any of the forms")
    check.add_argument("--test-labels", type=Path, metavar="FOLDER", help="label maps of TEST, if TRAIN has --labels")
    check.add_argument(
        "--images", type=Path, metavar="FOLDER", help="folder or .zip with the images of a COCO or LVIS file"
    )
    check.add_argument("--test-images", type=Path, metavar="FOLDER", help="the same for TEST; by default --images")
    check.add_argument("--decode", action="store_true", help="read every image to find damaged ones")
    check.add_argument("--paths-only", action="store_true", help="do not compare contents of training and test images")
    check.set_defaults(function=check_data)

    tail = tasks.add_parser("long-tail", help="choose a long-tailed subset")
    _add_images(tail)
    tail.add_argument(
        "--output", type=Path, required=True, metavar="FILE", help="the list, or an .npz file for arrays and CIFAR"
    )
    tail.add_argument("--imbalance-factor", type=float, default=100.0, help="largest count divided by smallest (100)")
    tail.add_argument("--profile", choices=("exponential", "pareto"), default="exponential")
    tail.add_argument("--max-count", type=int, help="images of the most frequent category; by default all")
    tail.add_argument(
        "--order",
        choices=("count", "label", "random"),
        default="count",
        help="how the categories are ordered from head to tail",
    )
    tail.add_argument("--seed", type=int, default=0)
    tail.add_argument("--force", action="store_true", help="replace existing files")
    tail.set_defaults(function=make_long_tail)

    detection.add_parsers(tasks)
    segmentation.add_parsers(tasks)


def _add_source(parser: argparse.ArgumentParser, name: str = "DATA") -> None:
    _add_images(parser, name, _ALSO_BOXES)
    segmentation.add_label_folders(parser, name)


def _add_images(parser: argparse.ArgumentParser, name: str = "DATA", forms: str = _FORMS) -> None:
    parser.add_argument("source", type=Path, metavar=name, help=forms)
    parser.add_argument(
        "--root", type=Path, help="folder that the paths of a list are relative to; by default its folder"
    )
    parser.add_argument("--split", help="CIFAR: train or test; VOC folder: ImageSets/Main/SPLIT.txt")


def count(parsed: argparse.Namespace, command: Sequence[str]) -> None:
    """Print, and write, the counts."""
    from equigrad.commands.datasets.count_tables import count_rows, count_text
    from equigrad.evaluation.tables import write_table

    if parsed.labels is not None:
        segmentation.count_folders(parsed)
        return
    if detection.is_detection(parsed.source):
        detection.count_source(parsed)
        return
    images = _read(parsed)
    counts = images.category_counts
    print(count_text(images.source, counts, images.class_names, show_all=parsed.all, total=len(images)))
    if parsed.csv:
        print(write_table(count_rows(images.category_counts, images.class_names), parsed.csv))


def check_data(parsed: argparse.Namespace, command: Sequence[str]) -> None:
    """Print what was found; ValueError if training would be wrong."""
    from equigrad.data.images.checks import check_classification
    from equigrad.data.images.multi_label import is_multi_label, read_multi_label
    from equigrad.data.images.readers import read_images

    if parsed.labels is not None:
        _report(parsed.source, *segmentation.check_folders(parsed))
        return
    if detection.is_detection(parsed.source):
        detection.check_source(parsed)
        return
    train = _read(parsed)
    test: ImageList | None = None
    if parsed.test is not None and is_multi_label(parsed.source):
        test = read_multi_label(parsed.test, parsed.root, class_names=train.class_names)
    elif parsed.test is not None:
        test = read_images(parsed.test, parsed.root, split="test", class_names=train.class_names)
    findings = check_classification(train, test, by_content=not parsed.paths_only, decode=parsed.decode)
    _report(parsed.source, findings, train, test)


def _report(source: Path, findings: "Sequence[Finding]", train: "_Images", test: "_Images | None") -> None:
    from equigrad.data.findings import errors
    from equigrad.terminal import printable

    for finding in findings:
        print(finding)
    if faults := errors(findings):
        kinds = "1 kind of fault" if len(faults) == 1 else f"{len(faults)} kinds of faults"
        raise ValueError(f"{source}: {kinds} would make training or evaluation wrong")
    sets = [images for images in (train, test) if images is not None]
    for line in filter(None, map(_published, sets)):
        print(line)
    sizes = " and ".join(f"{len(images):,} images of {printable(images.source)}" for images in sets)
    print(f"{sizes}, {train.num_classes:,} categories: nothing that would make training wrong")


def _published(images: "_Images") -> str | None:
    """Whether this is a published benchmark, or what differs from it."""
    from equigrad.data.images.lists import ImageList
    from equigrad.data.published_totals import Found, published_line

    name, counts = Path(images.source).name, None
    if isinstance(images, ImageList):
        counts = images.category_counts
    return published_line(
        Found("label maps" if counts is None else "labels", name, images.class_names, len(images), image_counts=counts)
    )


def make_long_tail(parsed: argparse.Namespace, command: Sequence[str]) -> None:
    """Choose the subset, write it and print its counts."""
    from equigrad.commands.datasets.count_tables import count_text
    from equigrad.commands.datasets.subset_files import check_target, write_subset
    from equigrad.data.long_tail import long_tailed

    images = _read(parsed)
    if images.labels.ndim == 2:
        raise ValueError(f"{parsed.source}: a long-tailed subset needs images with one category each")
    check_target(images, parsed.output, force=parsed.force)
    subset = long_tailed(
        images,
        parsed.imbalance_factor,
        profile=parsed.profile,
        max_count=parsed.max_count,
        order=parsed.order,
        seed=parsed.seed,
    )
    write_subset(subset, parsed.output)
    print(count_text(str(parsed.output), subset.category_counts, subset.class_names))
    root = "" if parsed.output.suffix == ".npz" else f" --set data.root={parsed.root or images.store.root}"
    print(f"\nequigrad train own_data:classification --set data.train={parsed.output}{root} --set data.test=TEST")


def _read(parsed: argparse.Namespace) -> "ImageList":
    from equigrad.data.images.multi_label import is_multi_label, read_multi_label
    from equigrad.data.images.readers import read_images

    if parsed.split not in (None, "train", "test"):
        raise UsageError(f"--split: expected train or test, as CIFAR has, got {parsed.split!r:.40}")
    if is_multi_label(parsed.source):
        return read_multi_label(parsed.source, parsed.root)
    return read_images(parsed.source, parsed.root, split=parsed.split or "train")
