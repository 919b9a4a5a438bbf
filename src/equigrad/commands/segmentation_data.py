"""`equigrad data ade20k-lt`: a long-tailed subset of a segmentation set."""

import argparse
from collections.abc import Sequence
from pathlib import Path


def add_parsers(tasks: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """`equigrad data ade20k-lt FOLDER --output LIST`."""
    subset = tasks.add_parser("ade20k-lt", help="a long-tailed subset of ADE20K, or of another segmentation set")
    subset.add_argument("folder", type=Path, metavar="FOLDER", help="with images/training and annotations/training")
    subset.add_argument("--output", type=Path, required=True, metavar="LIST")
    subset.add_argument("--rho", type=float, default=0.01, help="the i-th category keeps exp(-rho i) of its images")
    subset.add_argument("--reading", choices=("quota", "union", "top_up", "drop", "rarest"), default="quota")
    subset.add_argument("--order", choices=("index", "pixels", "images"), default="index", help="from head to tail")
    subset.add_argument("--seed", type=int, default=0)
    subset.set_defaults(function=make_subset)


def make_subset(parsed: argparse.Namespace, command: Sequence[str]) -> None:
    """Choose the images, write their list and say what that does to the categories."""
    from equigrad.data.ade20k_lt import write_long_tailed
    from equigrad.data.category_pixels import show_progress

    text = write_long_tailed(
        parsed.folder,
        parsed.output,
        rate=parsed.rho,
        reading=parsed.reading,
        order=parsed.order,
        seed=parsed.seed,
        progress=show_progress,
    )
    print(text)
