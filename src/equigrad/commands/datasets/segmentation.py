"""`equigrad data` of segmentation: counts and checks of label maps, and ADE20K-LT."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from equigrad.errors import UsageError

if TYPE_CHECKING:
    from equigrad.data.findings import Finding
    from equigrad.data.segmentation.data import SegmentationData


@dataclass(frozen=True)
class PixelRow:
    """How many pixels and images a category has."""

    label: int
    name: str
    pixels: int
    images: int


def add_parsers(tasks: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """`equigrad data ade20k-lt FOLDER --output LIST`."""
    subset = tasks.add_parser("ade20k-lt", help="choose a long-tailed subset of ADE20K or other label maps")
    subset.add_argument(
        "folder", type=Path, metavar="FOLDER", help="folder with images/training and annotations/training"
    )
    subset.add_argument("--output", type=Path, required=True, metavar="LIST")
    subset.add_argument("--images", type=Path, help="folder of images in FOLDER, for another layout")
    subset.add_argument("--labels", type=Path, help="folder of index PNGs in FOLDER, for another layout")
    _add_values(subset)
    subset.add_argument("--rho", type=float, default=0.01, help="category i keeps exp(-rho i) of its images")
    subset.add_argument("--reading", choices=("quota", "union", "top_up", "drop", "rarest"), default="quota")
    subset.add_argument(
        "--order",
        choices=("index", "pixels", "images"),
        default="index",
        help="order of the categories from head to tail",
    )
    subset.add_argument("--seed", type=int, default=0)
    subset.set_defaults(function=make_subset)


def add_label_folders(parser: argparse.ArgumentParser, images: str) -> None:
    """The options that make a folder of images a segmentation set."""
    parser.add_argument(
        "--labels", type=Path, metavar="FOLDER", help=f"folder of index PNGs; their images are in {images}"
    )
    _add_values(parser)


def _add_values(parser: argparse.ArgumentParser) -> None:
    """What the values of label maps mean."""
    parser.add_argument(
        "--names", type=Path, metavar="FILE", help="names of the categories: .txt, one per line, or .csv: id, name"
    )
    parser.add_argument("--ignored", type=int, nargs="+", default=[255], help="values of ignored pixels (255)")


def count_folders(parsed: argparse.Namespace) -> None:
    """Print, and write, the pixels and images of each category."""
    from equigrad.data.segmentation.category_pixels import count_pixels, show_progress
    from equigrad.data.segmentation.checks import describe
    from equigrad.evaluation.tables import write_table

    data = _read(parsed, parsed.source, parsed.labels)
    pixels = count_pixels(data, progress=show_progress)
    print(describe(data, pixels))
    if parsed.csv:
        counted = zip(data.class_names, pixels.pixel_counts.tolist(), pixels.image_counts.tolist(), strict=True)
        rows = [PixelRow(label, *cells) for label, cells in enumerate(counted)]
        print(write_table(rows, parsed.csv))


def check_folders(parsed: argparse.Namespace) -> "tuple[list[Finding], SegmentationData, SegmentationData | None]":
    """What was found, and the training and test set."""
    from equigrad.data.segmentation.category_pixels import show_progress
    from equigrad.data.segmentation.checks import check_segmentation

    if (parsed.test is None) != (parsed.test_labels is None):
        raise UsageError("give both --test and --test-labels, or neither")
    train = _read(parsed, parsed.source, parsed.labels)
    test = None if parsed.test is None else _read(parsed, parsed.test, parsed.test_labels)
    findings = check_segmentation(
        train, test, by_content=not parsed.paths_only, decode=parsed.decode, progress=show_progress
    )
    return findings, train, test


def _read(parsed: argparse.Namespace, images: Path, labels: Path) -> "SegmentationData":
    from equigrad.data.segmentation.readers import read_label_folders

    if parsed.names is None:
        raise UsageError("--labels needs --names FILE, which names the categories")
    return read_label_folders(images, labels, parsed.names, root=parsed.root or ".", ignored=parsed.ignored)


def make_subset(parsed: argparse.Namespace, command: Sequence[str]) -> None:
    """Choose the images, write their list and say what that does to the categories."""
    from equigrad.data.segmentation.ade20k_lt import write_long_tailed
    from equigrad.data.segmentation.category_pixels import show_progress

    text = write_long_tailed(
        _whole_set(parsed),
        parsed.output,
        rate=parsed.rho,
        reading=parsed.reading,
        order=parsed.order,
        seed=parsed.seed,
        progress=show_progress,
    )
    print(text)


def _whole_set(parsed: argparse.Namespace) -> "SegmentationData":
    """ADE20K's training set, one in its layout with names of its own, or one of any folders."""
    from equigrad.data.segmentation.readers import read_ade20k, read_label_folders, read_scene_parsing

    layout = (parsed.images, parsed.labels, parsed.names)
    if all(layout):
        return read_label_folders(*layout, root=parsed.folder, ignored=parsed.ignored)
    if any(layout):
        raise UsageError("another layout than ADE20K's needs all of --images, --labels and --names")
    has_own_names = (parsed.folder / "objectInfo.csv").is_file()
    return read_scene_parsing(parsed.folder, "training") if has_own_names else read_ade20k(parsed.folder, "training")
