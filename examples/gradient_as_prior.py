"""Does the accumulated positive gradient follow the count? What this means for the margin of Softmax-EQL.

    python examples/gradient_as_prior.py train.txt test.txt --root images.zip

Before anything is learnt, every sample gives its category a positive gradient of about 1: their sum is a count. Later a
sample gives 1 - p, and little where much has been seen. This prints how the logarithm of the sum follows that of the
count over training (slope, correlation), and draws the accuracy against the slope of the whole margin for Softmax-EQL
and, as a reference that uses the counts, logit adjustment. Arguments are those of `compare_losses.py`.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from compare_losses import GROUPS, add_data_arguments, evaluate, features, measure, save, train
from comparison_rows import Row, adjustment, sigmoid, softmax_eql, softmax_eql_first_epoch
from matplotlib.figure import Figure
from torch import Tensor

import equigrad
from equigrad.data.feature_cache import FeatureDataset
from equigrad.data.frequency import shot_split
from equigrad.evaluation.tables import write_table
from equigrad.models.classification.classifier import Classifier
from equigrad.tasks.losses import CategoryCounts, SigmoidEql, SoftmaxEql
from equigrad.tasks.methods import Method

EPOCHS_SHOWN = (1, 2, 3, 5, 10, 20, 30, 60)
CURVES: dict[str, tuple[Callable[[float], Row], Sequence[float]]] = {
    "Logit Adjustment (uses the counts)": (adjustment, (0.5, 0.75, 1.0, 1.25, 1.5, 2.0)),
    "Softmax-EQL": (softmax_eql, (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0)),
    "Softmax-EQL, statistics of epoch 1": (softmax_eql_first_epoch, (0.5, 1.0, 1.5, 2.0, 2.5)),
}


def slope_and_correlation(gradient: Tensor, reference: Tensor) -> tuple[float, float]:
    """Of log gradient over log reference, over the categories that have both."""
    has_both = (gradient > 0) & (reference > 0)
    x, y = reference[has_both].double().log(), gradient[has_both].double().log()
    covariance = torch.cov(torch.stack([x, y]))
    slope = covariance[0, 1] / covariance[0, 0]
    return float(slope), float(slope * (covariance[0, 0] / covariance[1, 1]).sqrt())


def untrained_gradient(data: FeatureDataset) -> Tensor:
    """G_j^pos of one pass before the first step, (C,): no counts are asked for."""
    torch.manual_seed(0)
    criterion = equigrad.SoftmaxEqualizationLoss(data.num_classes, prior_power=0.0)
    logits = torch.nn.Linear(data.num_features, data.num_classes)(data.features)
    criterion(logits, data.labels)
    return criterion.statistics.positive


def gradients_over_training(row: Row, data: FeatureDataset, epochs: int) -> dict[int, Tensor]:
    """G_j^pos after each epoch, (C,)."""
    history: dict[int, Tensor] = {}

    def record(model: Classifier, epoch: int) -> None:
        history[epoch] = model.classification_loss.statistics.positive.clone()

    train(replace(row, after_epoch=record), data, seed=0, epochs=epochs)
    return history


def print_slopes(history: dict[int, Tensor], counts: Tensor, untrained: Tensor) -> None:
    print("                log G against log n          against log G before training")
    print("epochs          slope   correlation          slope   1 / slope")
    for epoch, gradient in {0: untrained, **history}.items():
        if epoch in (0, *EPOCHS_SHOWN, len(history)):
            slope, correlation = slope_and_correlation(gradient, counts)
            blind, _ = slope_and_correlation(gradient, untrained)
            print(f"{epoch:6}{slope:15.3f}{correlation:14.3f}{blind:15.3f}{1 / blind:12.2f}")


def curve_points(data: FeatureDataset, test: FeatureDataset, seeds: int, epochs: int) -> list[dict[str, Any]]:
    """Test accuracy of every power, and how steep its margin is over log n."""
    points = []
    for name, (make, powers) in CURVES.items():
        for power in powers:
            row = make(power)
            numbers = measure(row, data, test, seeds, epochs)
            slope = prior_slope(train(row, data, 0, epochs), data.category_counts)
            points.append(
                {"curve": name, "power": power, "prior_slope": slope, "margin_slope": power * slope, **numbers}
            )
            cells = "  ".join(f"{group} {numbers[group]:.1f}" for group in GROUPS)
            print(f"{name:36}power {power:<5g}slope {slope:.3f}  margin slope {power * slope:.2f}  {cells}", flush=True)
    return points


def prior_slope(model: Classifier, counts: Tensor) -> float:
    """Slope of log prior over log n; a loss without statistics uses the counts themselves, with slope 1."""
    statistics = getattr(model.classification_loss, "statistics", None)
    return 1.0 if statistics is None else slope_and_correlation(statistics.positive, counts)[0]


def variants(final_gradient: Tensor) -> dict[str, Row]:
    """What else might matter to the two losses: one setting at a time."""

    def softmax(**settings: Any) -> Row:
        return Row(Method(SoftmaxEql(**settings)))

    def with_final_gradient(counts: CategoryCounts) -> equigrad.LogitAdjustmentLoss:
        return equigrad.LogitAdjustmentLoss(final_gradient, strength=2.5)

    softmax_settings = [
        *({"prior_power": 2.0, "half_life": steps} for steps in (32, 320)),
        *({"prior_power": 2.0, "prior_floor": floor} for floor in (1e-8, 0.1)),
        *({"prior_power": power, "indicator": "negative"} for power in (1.0, 2.0)),
        {"prior_power": 2.0, "indicator": "ratio"},
    ]
    sigmoid_settings = [
        {"reweight_positive": False, "reweight_negative": False},  # BCE
        *({"positive_boost": boost} for boost in (0.0, 4.0, 16.0, 64.0)),
        *({"midpoint": midpoint} for midpoint in (0.5, 1.0)),
        *({"steepness": steepness} for steepness in (24.0, 48.0)),
    ]
    return {
        "Softmax-EQL, final margin from the first step, power 2.5": Row(Method(SoftmaxEql()), loss=with_final_gradient),
        **{f"Softmax-EQL {settings}": softmax(**settings) for settings in softmax_settings},
        **{f"Sigmoid-EQL {settings}": sigmoid(SigmoidEql(**settings)) for settings in sigmoid_settings},
    }


def print_variants(data: FeatureDataset, test: FeatureDataset, final_gradient: Tensor, epochs: int) -> None:
    """Accuracy of one seed, and for the sigmoid losses the median gradient ratio of each group."""
    groups = shot_split(data.category_counts.numpy())
    for name, row in variants(final_gradient).items():
        model = train(row, data, seed=0, epochs=epochs)
        result = evaluate(model, data.category_counts, test)
        text = f"Overall {100 * result['Overall']:.1f}  Few {100 * result['Few']:.1f}"
        if isinstance(model.classification_loss, equigrad.SigmoidEqualizationLoss):
            ratio = model.classification_loss.statistics.ratio
            medians = [f"{group} {ratio[members].median():.2f}" for group, members in groups.items() if len(members)]
            text += f"  gradient ratio: {', '.join(medians)}"
        print(f"{name:90}{text}", flush=True)


def draw(
    points: Sequence[dict[str, Any]], history: dict[int, Tensor], untrained: Tensor, counts: Tensor, file: Path
) -> None:
    """Gradient over count, and accuracy over the slope of the margin."""
    figure = Figure(figsize=(13, 4), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    shown = {"before training": untrained, "epoch 1": history[1], f"epoch {len(history)}": history[len(history)]}
    for (name, gradient), colour in zip(shown.items(), ("#111827", "#1d4ed8", "#c2410c"), strict=True):
        slope, _ = slope_and_correlation(gradient, counts)
        relative = gradient / gradient.max()
        left.loglog(counts, relative, "o", ms=3, color=colour, label=f"{name}: slope {slope:.2f}")
    left.set(title="Positive gradient so far (largest = 1)", xlabel="training images of the category")
    left.legend(frameon=False)
    for axes, group in ((middle, "Overall"), (right, "Few")):
        for name, colour in zip(CURVES, ("#9a9a9a", "#c2410c", "#1d4ed8"), strict=True):
            curve = [point for point in points if point["curve"] == name]
            axes.plot([p["margin_slope"] for p in curve], [p[group] for p in curve], "o-", color=colour, label=name)
        axes.axvline(1, color="#111827", lw=0.8, ls=":")
        axes.set(title=f"Test accuracy, {group.lower()}, %", xlabel="slope of the margin against log n")
    right.legend(frameon=False, fontsize=8)
    for axes in (left, middle, right):
        axes.spines[["top", "right"]].set_visible(False)
    save(figure, file)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_data_arguments(parser)
    parser.add_argument("--variants", action="store_true", help="other settings of the two losses, in place of curves")
    arguments = parser.parse_args()
    try:
        data, test = features(arguments.train, arguments.test, arguments.root, arguments.output)
        counts, untrained = data.category_counts, untrained_gradient(data)
        history = gradients_over_training(softmax_eql(1.0), data, arguments.epochs)
        print_slopes(history, counts, untrained)
        if arguments.variants:
            print_variants(data, test, history[arguments.epochs], arguments.epochs)
            return
        points = curve_points(data, test, arguments.seeds, arguments.epochs)
        write_table(points, arguments.output / "margin_slopes.csv")
        draw(points, history, untrained, counts, arguments.output / "margin_slopes.png")
    except (ValueError, OSError) as error:
        sys.exit(f"error: {error}")
    print(f"margin_slopes.csv and margin_slopes.png are in {arguments.output}")


if __name__ == "__main__":
    main()
