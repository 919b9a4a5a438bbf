"""The paper's claim in two minutes: a linear classifier in a training loop of your own, on the long tail of LVIS v1.

    python examples/own_loop.py
    python examples/own_loop.py --figure ratio.png     # needs matplotlib

Features are Gaussian clouds, one for each of the 1203 categories, drawn with the real instance counts of LVIS v1; the
test set has as many samples of every category. Only the loss differs between the runs.
"""

import argparse
import time

import torch
from torch import Tensor, nn

import equigrad
from equigrad.data.frequency import load_frequencies, lvis_split

NUM_FEATURES = 128
BATCH_SIZE = 512
TEST_SAMPLES = 10  # of every category
CENTRE_SPREAD = 0.3  # of the centres, in standard deviations of the samples around them: neighbours overlap
LEARNING_RATE = 2.0  # the same for all: features and gradients are small


def losses(num_classes: int) -> dict[str, nn.Module]:
    """Without re-weighting and with prior power 0, the same losses are BCE and CE that watch the gradients."""
    return {
        "BCE": equigrad.SigmoidEqualizationLoss(num_classes, reweight_positive=False, reweight_negative=False),
        "Sigmoid-EQL": equigrad.SigmoidEqualizationLoss(num_classes),
        "CE": equigrad.SoftmaxEqualizationLoss(num_classes, prior_power=0.0),
        "Softmax-EQL": equigrad.SoftmaxEqualizationLoss(num_classes),
    }


def draw(centres: Tensor, labels: Tensor) -> Tensor:
    return centres[labels] + torch.randn(len(labels), centres.shape[1])


def train(criterion: nn.Module, centres: Tensor, frequencies: Tensor, steps: int) -> nn.Linear:
    """The loop you have already: the loss is one line in it and keeps its statistics by itself."""
    classifier = nn.Linear(centres.shape[1], centres.shape[0])
    if isinstance(criterion, equigrad.SigmoidEqualizationLoss):
        nn.init.constant_(classifier.bias, equigrad.bias_for_prior(0.001))
    optimizer = torch.optim.SGD(classifier.parameters(), lr=LEARNING_RATE, momentum=0.9)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        labels = torch.multinomial(frequencies, BATCH_SIZE, replacement=True)
        loss = criterion(classifier(draw(centres, labels)), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return classifier


@torch.no_grad()
def accuracy_of_categories(classifier: nn.Linear, centres: Tensor) -> Tensor:
    """(C,) over test samples that are drawn alike for every loss."""
    torch.manual_seed(1)
    labels = torch.arange(len(centres))
    correct = [classifier(draw(centres, labels)).argmax(1) == labels for _ in range(TEST_SAMPLES)]
    return torch.stack(correct).float().mean(0)


def draw_figure(path: str, ratios: dict[str, Tensor], accuracies: dict[str, Tensor], order: Tensor) -> None:
    """Gradient ratio and accuracy along the categories, most frequent first, as medians and means of 40 neighbours."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.4), layout="constrained")
    colours = {"BCE": "#9a9a9a", "Sigmoid-EQL": "#c2410c", "CE": "#9a9a9a", "Softmax-EQL": "#1d4ed8"}
    for name in ("BCE", "Sigmoid-EQL"):
        smooth = ratios[name][order].unfold(0, 40, 1).median(1).values
        left.plot(smooth, color=colours[name], label=name)
    for name, accuracy in accuracies.items():
        style = ":" if name in ("CE", "Softmax-EQL") else "-"
        right.plot(accuracy[order].unfold(0, 40, 1).mean(1), style, color=colours[name], label=name)
    left.set(title="Positive / negative gradient received", ylim=(0, 1.1))
    right.set(title="Accuracy on a balanced test set")
    for axes in (left, right):
        axes.set(xlabel="LVIS v1 categories, most frequent first")
        axes.legend(frameon=False)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--figure", metavar="FILE", help="draw gradient ratio and accuracy of all categories")
    arguments = parser.parse_args()
    lvis = load_frequencies("lvis_v1")
    groups = {name: torch.as_tensor(indices) for name, indices in lvis_split(lvis.image_counts).items()}
    groups = {name: groups[name] for name in ("frequent", "common", "rare")}
    assert lvis.instance_counts is not None
    frequencies = torch.as_tensor(lvis.instance_counts).double()

    sizes = ", ".join(f"{len(indices)} {name}" for name, indices in groups.items())
    print(f"LVIS v1: {len(lvis)} categories ({sizes}); {arguments.steps} steps of {BATCH_SIZE} samples a loss\n")
    print(f"{'':13}{'accuracy':^27}  {'median gradient ratio':^27}")
    print(f"{'loss':13}" + f"{'frequent':>9}{'common':>9}{'rare':>9}  " * 2)
    ratios, accuracies = {}, {}
    for name, criterion in losses(len(lvis)).items():
        torch.manual_seed(0)
        start = time.perf_counter()
        centres = torch.randn(len(lvis), NUM_FEATURES) * CENTRE_SPREAD
        classifier = train(criterion, centres, frequencies, arguments.steps)
        accuracy = accuracies[name] = accuracy_of_categories(classifier, centres)
        ratio = ratios[name] = criterion.statistics.ratio
        cells = [f"{accuracy[indices].mean():9.3f}" for indices in groups.values()]
        cells += ["  ", *(f"{ratio[indices].median():9.2f}" for indices in groups.values())]
        print(f"{name:13}{''.join(cells)}   ({time.perf_counter() - start:.0f} s)", flush=True)
    if arguments.figure:
        draw_figure(arguments.figure, ratios, accuracies, frequencies.argsort(descending=True))
        print(f"\nfigure: {arguments.figure}")


if __name__ == "__main__":
    main()
