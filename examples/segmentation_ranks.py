"""How far a segmenter is from the right category: its rank among all categories, for head, medium and tail.

    equigrad train tiny:segmentation --set method=ce --run runs/ce
    python examples/segmentation_ranks.py runs/ce

Accuracy says nothing about a category that is never predicted. Here the categories are ranked by logit in every test
pixel, and the rank of the true one is measured; rank 1 is the prediction. The script prints the shares of pixels
where it is first and among the first 5, its mean rank, and how far its logit is below the greatest, each as a mean over
the categories of a group.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from segmentation_overlays import trained
from torch import Tensor

from equigrad.analysis.evaluation_file import Evaluation

GROUPS = ("head", "medium", "tail")


@torch.inference_mode()
def ranks(folder: Path) -> Tensor:
    """Share of rank 1 and of ranks 1 to 5, mean rank, distance in logits, (C, 4); nan if a category does not occur."""
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
        rank = 1 + (logits > own_logit).sum(0).double()
        below = (logits.amax(0) - own_logit[0]).double()
        sums.index_add_(0, own, torch.stack([(rank == 1).double(), (rank <= 5).double(), rank, below], 1))
        counts += own.bincount(minlength=data.num_classes)
    return sums / counts[:, None]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN")
    arguments = parser.parse_args()
    print("| run | group | first, % | among the first 5, % | mean rank | below the greatest logit |")
    print("|---|---|---|---|---|---|")
    try:
        for folder in arguments.runs:
            found = ranks(folder)
            groups = [category.group for category in Evaluation.load(folder).categories]
            for group in GROUPS:
                members = [label for label, name in enumerate(groups) if name == group]
                first, first_5, rank, below = found[members].nanmean(0).tolist()
                shares = f"{100 * first:.1f} | {100 * first_5:.1f}"
                print(f"| {folder.name} | {group} | {shares} | {rank:.1f} | {below:.2f} |", flush=True)
    except (ValueError, OSError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
