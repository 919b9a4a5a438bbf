"""How far a segmenter is from the right category: its place among all categories, for head, medium and tail.

    equigrad train tiny:segmentation --set method=ce --run runs/ce
    python examples/segmentation_ranks.py runs/ce

Accuracy says nothing about a category that is never predicted. Here every test pixel gives its true category a place by
logit, 1 being the answer. Printed are the shares of pixels where it is the first and among the first 5, its mean place,
and by how much its logit is below the greatest, each as a mean over the categories of a group.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from segmentation_overlays import trained
from torch import Tensor

from equigrad.analysis.history import Evaluation

GROUPS = ("head", "medium", "tail")


@torch.inference_mode()
def places(folder: Path) -> Tensor:
    """Shares of first places and of the first 5, mean place, distance in logits, (C, 4); nan if it does not occur."""
    recipe, model = trained(folder)
    _, test_set = recipe.data.load()
    data = test_set.data
    sums, counts = torch.zeros(data.num_classes, 4, dtype=torch.float64), torch.zeros(data.num_classes)
    for index in range(len(data)):
        labels = torch.from_numpy(data.read_labels(index)).long()
        images = torch.from_numpy(np.array(data.read_image(index))).permute(2, 0, 1)[None]
        logits = F.interpolate(model.logits(images), size=labels.shape, mode="bilinear")[0]
        is_sample = labels >= 0
        own = labels[is_sample]
        logits = logits[:, is_sample]  # (C, P)
        own_logit = logits.gather(0, own[None])
        place = 1 + (logits > own_logit).sum(0).double()
        below = (logits.amax(0) - own_logit[0]).double()
        sums.index_add_(0, own, torch.stack([(place == 1).double(), (place <= 5).double(), place, below], 1))
        counts += own.bincount(minlength=data.num_classes)
    return sums / counts[:, None]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN")
    arguments = parser.parse_args()
    print("| run | group | first, % | among the first 5, % | mean place | below the greatest logit |")
    print("|---|---|---|---|---|---|")
    try:
        for folder in arguments.runs:
            found = places(folder)
            groups = [category.group for category in Evaluation.load(folder).categories]
            for group in GROUPS:
                members = [label for label, name in enumerate(groups) if name == group]
                first, first_5, place, below = found[members].nanmean(0).tolist()
                shares = f"{100 * first:.1f} | {100 * first_5:.1f}"
                print(f"| {folder.name} | {group} | {shares} | {place:.1f} | {below:.2f} |", flush=True)
    except (ValueError, OSError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
