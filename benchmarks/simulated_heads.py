"""A last layer trained on made features, and how well it finds the categories of a balanced test set."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from made_features import NUM_FEATURES, Drawn, Mixture
from numpy.typing import NDArray
from torch import Tensor, nn

import equigrad
from equigrad.analysis.evaluation_file import CategoryResult, Evaluation
from equigrad.data.frequency import Counts
from equigrad.labels import BACKGROUND
from equigrad.models.detection.two_stage.roi_scores import SoftmaxBackgroundScores
from equigrad.models.scores import Scores

Floats = NDArray[np.float64]
KEPT = 300  # detections of an image, as on LVIS
IMAGE = (20, 80)  # objects and background rows of a test image


@dataclass(frozen=True)
class Head:
    """What is trained on the features.

    Args:
        loss: from the counts of the categories to the loss.
        scores: from logits to probabilities.
        cosine: a cosine classifier in place of a linear one.
        by_positives: the loss is divided by the objects of a batch, as in dense detection.
        optimizer: of the layer.
        lr: None is that of the mixture.
        frequencies: from the counts to how often a sampler draws each category; None draws by the counts.
    """

    loss: Callable[[Counts], nn.Module]
    scores: Scores = equigrad.SoftmaxScores()  # noqa: RUF009
    cosine: bool = False
    by_positives: bool = False
    optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.SGD
    lr: float | None = None
    frequencies: Callable[[Tensor], Tensor] | None = None

    def layer(self, num_classes: int, prior: float) -> nn.Module:
        """From features to logits, before the first step."""
        num_logits = self.scores.num_logits(num_classes)
        if self.cosine:
            return equigrad.CosineClassifier(NUM_FEATURES, num_logits)
        layer = nn.Linear(NUM_FEATURES, num_logits)
        nn.init.normal_(layer.weight, std=0.01)
        is_sigmoid = isinstance(self.scores, equigrad.SigmoidScores | equigrad.SigmoidObjectnessScores)
        nn.init.constant_(layer.bias, equigrad.bias_for_prior(prior) if is_sigmoid else 0.0)
        return layer


def softmax_eql(power: float, half_life: float | None = None) -> Head:
    """Power 0 is cross-entropy that watches its gradients."""
    return Head(lambda counts: equigrad.SoftmaxEqualizationLoss(len(counts), prior_power=power, half_life=half_life))


def grad_blocking(threshold: int) -> Head:
    """The first equalization loss, which knows the counts."""
    return Head(lambda counts: equigrad.GradientBlockingLoss(counts.tolist(), threshold=threshold), _SIGMOID)


def _sigmoid_eql(counts: Counts) -> equigrad.SigmoidEqualizationLoss:
    return equigrad.SigmoidEqualizationLoss(len(counts))


def _bce(counts: Counts) -> equigrad.SigmoidEqualizationLoss:
    return equigrad.SigmoidEqualizationLoss(len(counts), reweight_positive=False, reweight_negative=False)


def _with_objectness(power: float) -> Head:
    return Head(
        lambda counts: equigrad.WithObjectness(equigrad.SoftmaxEqualizationLoss(len(counts), prior_power=power)),
        equigrad.SoftmaxObjectnessScores(),
    )


def _efl(focus_scale: float) -> Head:
    return Head(
        lambda counts: equigrad.EqualizedFocalLoss(len(counts), focus_scale=focus_scale), _SIGMOID, by_positives=True
    )


_SIGMOID, _OBJECTNESS = equigrad.SigmoidScores(), equigrad.SigmoidObjectnessScores()
CE, SOFTMAX_EQL = softmax_eql(0.0), softmax_eql(1.0)
BALANCED_SOFTMAX = Head(lambda counts: equigrad.BalancedSoftmaxLoss(counts.tolist()))
LOGIT_ADJUSTMENT = Head(lambda counts: equigrad.LogitAdjustmentLoss(counts.tolist(), strength=1.5))
CE_BACKGROUND = Head(lambda counts: equigrad.CrossEntropyLoss(), SoftmaxBackgroundScores())
CE_OBJECTNESS, SOFTMAX_EQL_OBJECTNESS = _with_objectness(0.0), _with_objectness(1.0)
BCE, SIGMOID_EQL = Head(_bce, _SIGMOID), Head(_sigmoid_eql, _SIGMOID)
BCE_OBJECTNESS = Head(lambda counts: equigrad.WithObjectness(_bce(counts)), _OBJECTNESS)
SIGMOID_EQL_OBJECTNESS = Head(lambda counts: equigrad.WithObjectness(_sigmoid_eql(counts)), _OBJECTNESS)
FL, EFL = _efl(0.0), _efl(8.0)


def train(head: Head, data: Drawn) -> tuple[nn.Module, Any]:
    """The layer and its loss after all steps."""
    mixture = data.mixture
    num_classes = len(data.centres)
    criterion, layer = head.loss(data.known_counts), head.layer(num_classes, mixture.prior)
    lr = mixture.lr if head.lr is None else head.lr
    options = {"momentum": 0.9} if head.optimizer is torch.optim.SGD else {}
    optimizer = head.optimizer(layer.parameters(), lr=lr, **options)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, mixture.steps)
    for _ in range(mixture.steps):
        features, labels = data.batch()
        if isinstance(head.scores, SoftmaxBackgroundScores):
            labels = labels.where(labels != BACKGROUND, num_classes)
        normalizer = max(int((labels >= 0).sum()), 1) if head.by_positives else len(labels)
        optimizer.zero_grad()
        criterion(layer(features), labels, normalizer=normalizer).backward()
        optimizer.step()
        schedule.step()
    return layer, criterion


def measure(head: Head, data: Drawn, seed: int) -> tuple[Evaluation, float | None]:
    """Train and test: what a run would have left, and the median gradient ratio of the rarest group."""
    torch.manual_seed(seed)
    if head.frequencies is not None:
        data.draw_by(head.frequencies(torch.as_tensor(data.mixture.category_counts)))
    layer, criterion = train(head, data)
    test = accuracies if data.mixture.task == "classification" else precisions
    with torch.no_grad():
        values = test(lambda features: head.scores(layer.eval()(features)), data)
    return evaluation(values, data.mixture), median_ratio(criterion, data.mixture)


def accuracies(predict: Callable[[Tensor], Tensor], data: Drawn) -> Floats:
    """(C,) share of the test samples of each category that it wins."""
    labels = torch.arange(len(data.centres))
    won = [predict(data.features(labels)).argmax(1) == labels for _ in range(data.mixture.test_count)]
    return torch.stack(won).double().mean(0).numpy()


def precisions(predict: Callable[[Tensor], Tensor], data: Drawn) -> Floats:
    """(C,) average precision over test images of objects and background, of which the best scores are kept."""
    num_classes, test_count = len(data.centres), data.mixture.test_count
    labels = torch.arange(num_classes).repeat(test_count)
    labels = labels[torch.randperm(len(labels), generator=data.generator)]
    found = []
    for objects in labels.split(IMAGE[0]):
        rows = torch.cat([data.features(objects), data.background(IMAGE[1])])
        truth = torch.cat([objects, torch.full((IMAGE[1],), BACKGROUND)])
        kept = predict(rows).flatten().topk(KEPT)
        row, category = kept.indices // num_classes, kept.indices % num_classes
        found.append(torch.stack([category.double(), kept.values.double(), (truth[row] == category).double()]))
    return average_precision(*torch.cat(found, 1).numpy(), np.full(num_classes, test_count))


def average_precision(categories: Floats, scores: Floats, correct: Floats, num_objects: NDArray[Any]) -> Floats:
    """(C,) mean, over the objects of a category, of the precision at the score of each; one not found counts 0."""
    order = np.lexsort((-scores, categories))
    ranked, hits = categories[order].astype(int), correct[order]
    first = np.searchsorted(ranked, np.arange(len(num_objects)))
    rank = np.arange(len(ranked)) - first[ranked] + 1
    total = hits.cumsum()
    before = np.concatenate([[0.0], total])[first]
    precision = np.where(hits > 0, (total - before[ranked]) / rank, 0.0)
    return np.asarray(np.bincount(ranked, precision, len(num_objects)) / num_objects)


def median_ratio(criterion: Any, mixture: Mixture) -> float | None:
    """Of the rarest group, or None from a loss without statistics."""
    inner = criterion.loss if isinstance(criterion, equigrad.WithObjectness) else criterion
    if not hasattr(inner, "statistics"):
        return None
    ratio = inner.statistics.ratio.numpy()[np.isin(mixture.groups, ("Few", "rare"))]
    known = ratio[np.isfinite(ratio)]
    return float(np.median(known)) if len(known) else None


def evaluation(values: Floats, mixture: Mixture) -> Evaluation:
    """What a run would have left in its folder."""
    if mixture.task == "classification":
        metric, whole, names = "accuracy", ("Overall", "mean_class_accuracy"), {n: n for n in ("Many", "Medium", "Few")}
    else:
        metric, whole, names = "AP", ("AP",), {"frequent": "APf", "common": "APc", "rare": "APr"}
    facts = zip(values, mixture.category_counts, mixture.groups, strict=True)
    categories = tuple(
        CategoryResult(f"category {index}", int(count), {metric: float(value)}, str(group), mixture.test_count)
        for index, (value, count, group) in enumerate(facts)
    )
    parts = dict.fromkeys(whole, values) | {name: values[mixture.groups == group] for group, name in names.items()}
    result = {name: float(part.mean()) if len(part) else None for name, part in parts.items()}
    return Evaluation(result, categories)
