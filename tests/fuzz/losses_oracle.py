"""What a call must give: the plain formulas in float64, ordinary autograd, and the rules of the contract.

Weights and margins are formed here once more from the statistics, with the defaults that are documented. How far a
result may be off follows from the precision of its arithmetic and from how strongly the formula amplifies a rounding.
"""

import copy
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from tests.fuzz.losses_cases import Batch, LossCase
from torch import Tensor, nn

import equigrad
from equigrad import BACKGROUND, IGNORE
from equigrad.losses import reference

SLACK = 16
"""Roundings in a row that an entry may go through."""


class Term(NamedTuple):
    """A part of the loss that is reduced on its own."""

    values: Tensor  # (N, ...) float64, differentiable by the logits
    num_counted: float
    gain: float  # of a relative rounding of the logits in the derivative of a sample's value
    factor: float = 1.0


@dataclass
class Expected:
    """What a call must return, leave as gradient, and record."""

    loss: Tensor
    gradient: Tensor
    recorded: tuple[Tensor, Tensor] | None  # increments of the statistics, (C,) each
    loss_tolerance: Tensor
    gradient_tolerance: Tensor
    recorded_tolerance: float
    gradient_as_stored: Tensor  # before it is divided, which half precision may be too small for


class Inputs(NamedTuple):
    """A batch in float64."""

    z: Tensor  # logits of the categories
    labels: Tensor
    quality: Tensor | None
    ignore_index: int
    is_training: bool


Formula = tuple[Tensor, float]
"""One value for each sample, and the gain."""


def sigmoid_weights(
    statistics: equigrad.GradientStatistics,
    positive_boost: float = 4.0,
    mapping: str = "sigmoid",
    steepness: float = 12.0,
    midpoint: float = 0.8,
    reweight_positive: bool = True,
    reweight_negative: bool = True,
) -> tuple[Tensor, Tensor]:
    """q_j and r_j."""
    ratio = statistics.positive / statistics.negative
    mapped = {
        "sigmoid": 1 / (1 + (-steepness * (ratio - midpoint)).exp()),
        "linear": ratio,
        "square": ratio * ratio,
        "sqrt": ratio**0.5,
    }[mapping]
    balanced = torch.where(statistics.negative == 0, 1.0, mapped.clamp(0, 1))
    one = torch.ones_like(balanced)
    return 1 + positive_boost * (1 - balanced) if reweight_positive else one, balanced if reweight_negative else one


def focus_and_weight(
    statistics: equigrad.GradientStatistics, base_focus: float = 2.0, focus_scale: float = 8.0
) -> tuple[Tensor, Tensor]:
    """gamma_j and w_j."""
    ratio = torch.where(statistics.negative == 0, 1.0, statistics.positive / statistics.negative)
    focus = base_focus + focus_scale * (1 - ratio.clamp(max=1))
    return focus, focus / base_focus


def binary_cross_entropy(inputs: Inputs, loss: nn.Module, weight: Any = None) -> Formula:
    z, labels, quality, ignore_index, _ = inputs
    vector = None if weight is None else vector_of(weight)
    return reference.binary_cross_entropy(z, labels, vector, quality, ignore_index=ignore_index), greatest(vector)


def sigmoid_equalization(inputs: Inputs, loss: Any, half_life: Any = None, **options: Any) -> Formula:
    z, labels, quality, ignore_index, _ = inputs
    q, r = sigmoid_weights(loss.statistics, **options)
    return reference.sigmoid_equalization(z, labels, q, r, quality, ignore_index=ignore_index), greatest(q)


def focal(
    inputs: Inputs, loss: nn.Module, focus: float = 2.0, positive_balance: float | None = 0.25, weight: Any = None
) -> Formula:
    z, labels, _, ignore_index, _ = inputs
    vector = None if weight is None else vector_of(weight)
    values = reference.focal(z, labels, focus, positive_balance, vector, ignore_index=ignore_index)
    return values, greatest(vector) * (1 + focus) ** 2


def equalized_focal(
    inputs: Inputs,
    loss: Any,
    positive_balance: float | None = 0.25,
    focusing: bool = True,
    weighting: bool = True,
    half_life: Any = None,
    **options: Any,
) -> Formula:
    z, labels, _, ignore_index, _ = inputs
    focus, weight = focus_and_weight(loss.statistics, **options)
    focus = focus if focusing else torch.full_like(focus, options.get("base_focus", 2.0))
    weight = weight if weighting else torch.ones_like(weight)
    values = reference.equalized_focal(z, labels, focus, weight, positive_balance, ignore_index=ignore_index)
    return values, greatest(weight) * (1 + greatest(focus)) ** 2


def focal_equalization(
    inputs: Inputs,
    loss: Any,
    focus: float = 2.0,
    positive_balance: float | None = 0.25,
    half_life: Any = None,
    **options: Any,
) -> Formula:
    z, labels, _, ignore_index, _ = inputs
    q, r = sigmoid_weights(loss.statistics, **options)
    values = reference.focal_equalization(z, labels, q, r, focus, positive_balance, ignore_index=ignore_index)
    return values, greatest(q) * (1 + focus) ** 2


def quality_focal(inputs: Inputs, loss: nn.Module, focus: float = 2.0) -> Formula:
    z, labels, quality, ignore_index, _ = inputs
    values = reference.quality_focal(z, labels, quality, focus, ignore_index=ignore_index)
    return values, (1 + focus) ** 2 * steepness_of_quality(inputs, focus)


def equalized_quality_focal(inputs: Inputs, loss: Any, half_life: Any = None, **options: Any) -> Formula:
    z, labels, quality, ignore_index, _ = inputs
    focus, weight = focus_and_weight(loss.statistics, **options)
    values = reference.equalized_quality_focal(z, labels, quality, focus, weight, ignore_index=ignore_index)
    gain = greatest(weight) * (1 + greatest(focus)) ** 2 * steepness_of_quality(inputs, float(focus.min()))
    return values, gain


def varifocal(
    inputs: Inputs,
    loss: nn.Module,
    focus: float = 2.0,
    negative_balance: float = 0.75,
    constant_weight: bool = False,
    quality_weight: bool = True,
) -> Formula:
    z, labels, quality, ignore_index, _ = inputs
    arguments = (z, labels, quality, focus, negative_balance, constant_weight, quality_weight)
    values = reference.varifocal(*arguments, ignore_index=ignore_index)
    return values, max(1.0, negative_balance) * (1 + focus) ** 2


def equalized_varifocal(
    inputs: Inputs,
    loss: Any,
    negative_balance: float = 0.75,
    constant_weight: bool = False,
    quality_weight: bool = True,
    half_life: Any = None,
    **options: Any,
) -> Formula:
    z, labels, quality, ignore_index, _ = inputs
    focus, weight = focus_and_weight(loss.statistics, **options)
    arguments = (z, labels, quality, focus, weight, negative_balance, constant_weight, quality_weight)
    values = reference.equalized_varifocal(*arguments, ignore_index=ignore_index)
    return values, max(1.0, negative_balance) * greatest(weight) * (1 + greatest(focus)) ** 2


def steepness_of_quality(inputs: Inputs, focus: float) -> float:
    """|y' - p|^gamma with gamma < 2 has no bounded second derivative where the quality is met."""
    if focus >= 2 or inputs.z.numel() == 0:
        return 1.0
    _, y, _ = reference.samples(inputs.z, inputs.labels, inputs.ignore_index)
    distance = (reference.soft_targets(y, inputs.quality) - inputs.z.detach().movedim(1, -1).sigmoid()).abs()[y > 0]
    return float(distance.clamp(min=1e-30).min() ** (focus - 2)) if distance.numel() else 1.0


def gradient_blocking(inputs: Inputs, loss: nn.Module, category_frequency: Any, threshold: float) -> Formula:
    z, labels, quality, ignore_index, _ = inputs
    is_rare = (vector_of(category_frequency) < threshold).double()
    return reference.gradient_blocking(z, labels, is_rare, quality, ignore_index=ignore_index), 1.0


def federated(inputs: Inputs, loss: Any, category_counts: Any, num_sampled: int = 50, **options: Any) -> Formula:
    z, labels, quality, ignore_index, _ = inputs
    is_sampled = copy.deepcopy(loss).train(inputs.is_training).sample_categories(z, labels)
    _, y, _ = reference.samples(z, labels, ignore_index)
    is_present = y.flatten(0, -2).any(0)
    if inputs.is_training:
        size = max(int(is_present.sum()), min(num_sampled, int(((vector_of(category_counts) > 0) | is_present).sum())))
        assert is_sampled.sum() == size, f"S has {int(is_sampled.sum())} categories instead of {size}"
        assert is_sampled[is_present].all(), "S lacks a category of the batch"
    else:
        assert is_sampled.all(), "S is not every category in evaluation"
    return reference.federated(z, labels, is_sampled, quality, ignore_index=ignore_index), 1.0


def effective_class_margin(
    inputs: Inputs, loss: nn.Module, category_counts: Any, background_ratio: float = 6.3313
) -> Formula:
    z, labels, quality, ignore_index, _ = inputs
    positive = at_least_one(category_counts)
    negative = positive.sum() * (1 + background_ratio) - positive
    values = reference.effective_class_margin(z, labels, positive, negative, quality, ignore_index=ignore_index)
    return values, 4.0 * (1 + greatest((negative / positive).log()))


def cross_entropy(inputs: Inputs, loss: nn.Module, weight: Any = None, label_smoothing: float = 0.0) -> Formula:
    z, labels, _, ignore_index, _ = inputs
    vector = None if weight is None else vector_of(weight)
    values = reference.cross_entropy(z, labels, vector, label_smoothing=label_smoothing, ignore_index=ignore_index)
    return values, greatest(vector)


def softmax_equalization(
    inputs: Inputs,
    loss: Any,
    prior_power: float = 1.0,
    prior_floor: float = 1e-4,
    indicator: str = "positive",
    label_smoothing: float = 0.0,
    half_life: Any = None,
) -> Formula:
    z, labels, _, ignore_index, _ = inputs
    margin = softmax_margin(loss, prior_power, prior_floor, indicator)
    values = reference.softmax_equalization(
        z, labels, margin, label_smoothing=label_smoothing, ignore_index=ignore_index
    )
    return values, 1 + greatest(margin)


def softmax_margin(loss: Any, prior_power: float, prior_floor: float, indicator: str) -> Tensor:
    statistics = loss.statistics
    prior = {
        "positive": statistics.positive,
        "negative": statistics.negative,
        "ratio": torch.where(statistics.negative == 0, 1.0, statistics.positive / statistics.negative),
    }[indicator]
    return prior_power * prior.clamp(min=prior_floor).log()


def balanced_softmax(inputs: Inputs, loss: nn.Module, category_counts: Any, label_smoothing: float = 0.0) -> Formula:
    z, labels, _, ignore_index, _ = inputs
    counts = at_least_one(category_counts)
    values = reference.balanced_softmax(z, labels, counts, label_smoothing=label_smoothing, ignore_index=ignore_index)
    return values, 1 + greatest(counts.log())


def logit_adjustment(
    inputs: Inputs, loss: nn.Module, category_counts: Any, strength: float = 1.0, label_smoothing: float = 0.0
) -> Formula:
    z, labels, _, ignore_index, _ = inputs
    prior = vector_of(category_counts) / vector_of(category_counts).sum()
    values = reference.logit_adjustment(
        z, labels, prior, strength, label_smoothing=label_smoothing, ignore_index=ignore_index
    )
    return values, 28.0


def lade(inputs: Inputs, loss: nn.Module, category_counts: Any, weight: float = 0.1, penalty: float = 0.1) -> Formula:
    z, labels, _, ignore_index, _ = inputs
    prior = vector_of(category_counts) / vector_of(category_counts).sum()
    values = reference.lade(z, labels, prior, weight, penalty, ignore_index=ignore_index)
    # M_j is about as large as the logits, and the regulariser holds its square.
    return values, 22.0 + weight * labels.numel() * (1 + penalty * (1 + magnitude(z, labels, ignore_index)))


def seesaw(inputs: Inputs, loss: Any, mitigation: float = 0.8, compensation: float = 2.0) -> Formula:
    z, labels, _, ignore_index, _ = inputs
    counts = loss.category_counts + (sample_counts(z, labels, ignore_index) if inputs.is_training else 0)
    values = reference.seesaw(z, labels, counts, mitigation, compensation, ignore_index=ignore_index)
    return values, 1 + compensation + mitigation * math.log(2 + labels.numel())


def ldam(
    inputs: Inputs,
    loss: Any,
    category_counts: Any,
    max_margin: float = 0.5,
    scale: float = 30.0,
    deferral: int | None = None,
    beta: float = 0.9999,
) -> Formula:
    z, labels, _, ignore_index, _ = inputs
    counts = at_least_one(category_counts)
    margin = max_margin * (counts.min() / counts) ** 0.25
    weight = torch.ones_like(counts)
    if deferral is not None and loss.num_steps >= deferral:
        weight = (1 - beta) / -torch.expm1(counts * torch.tensor(beta, dtype=torch.float64).log())
        weight = weight / weight[vector_of(category_counts) > 0].mean()
    values = reference.ldam(z, labels, margin, scale, weight, ignore_index=ignore_index)
    return values, greatest(weight) * (1 + scale) ** 2 * (1 + max_margin)


FORMULAS = {
    "BinaryCrossEntropyLoss": binary_cross_entropy,
    "SigmoidEqualizationLoss": sigmoid_equalization,
    "FocalLoss": focal,
    "EqualizedFocalLoss": equalized_focal,
    "QualityFocalLoss": quality_focal,
    "EqualizedQualityFocalLoss": equalized_quality_focal,
    "VarifocalLoss": varifocal,
    "EqualizedVarifocalLoss": equalized_varifocal,
    "FocalEqualizationLoss": focal_equalization,
    "GradientBlockingLoss": gradient_blocking,
    "FederatedLoss": federated,
    "EffectiveClassMarginLoss": effective_class_margin,
    "CrossEntropyLoss": cross_entropy,
    "SoftmaxEqualizationLoss": softmax_equalization,
    "BalancedSoftmaxLoss": balanced_softmax,
    "LogitAdjustmentLoss": logit_adjustment,
    "LADELoss": lade,
    "SeesawLoss": seesaw,
    "LDAMLoss": ldam,
}


def category_loss(criterion: Any) -> Any:
    """The loss inside its wrapper."""
    if isinstance(criterion, equigrad.WithObjectness):
        return criterion.loss
    return criterion.base if isinstance(criterion, equigrad.DistillationLoss) else criterion


def terms(case: LossCase, criterion: Any, batch: Batch, z: Tensor) -> list[Term]:
    """The parts of the loss; the first is the one that statistics record."""
    loss, labels, ignore_index = category_loss(criterion), batch.labels, case.ignore_index
    if case.loss == "GroupedSoftmaxLoss":
        return grouped_terms(copy.deepcopy(loss).train(case.mode == "train"), labels, z)
    num_counted = float((labels != ignore_index).sum()) if case.labels == "indices" else samples_of(case)
    category_logits, found = z, []
    if case.wrapper == "objectness":
        category_logits = z[:, :-1]
        found.append(Term(reference.objectness(z, labels, ignore_index=ignore_index), num_counted, 1.0))
        if case.tested.is_softmax:
            labels = labels.masked_fill(labels == BACKGROUND, ignore_index)
            num_counted = float((labels != ignore_index).sum())
    quality = batch.extra[0] if case.has_quality else None
    inputs = Inputs(category_logits, labels, quality, ignore_index, case.mode == "train")
    values, gain = FORMULAS[case.loss](inputs, loss, **case.options)
    share = 1.0
    if case.wrapper == "distillation":
        found.append(distillation_term(inputs, batch.extra[0], num_counted, **case.wrapper_options))
        share = 1 - found[0].factor
    return [Term(values, num_counted, gain, share), *found]


def distillation_term(
    inputs: Inputs,
    teacher: Tensor,
    num_counted: float,
    weight: float = 0.5,
    temperature: float = 3.0,
    power: float = 0.5,
) -> Term:
    z, labels, _, ignore_index, _ = inputs
    values = reference.distillation(z, labels, teacher, temperature, power, ignore_index=ignore_index)
    return Term(values, num_counted, (1 + temperature) ** 2 * (1 + 1 / temperature) * (1 + power), weight)


def grouped_terms(loss: Any, labels: Tensor, z: Tensor) -> list[Term]:
    sizes = loss.layout.sizes
    targets = loss.group_targets(z, labels)
    found = []
    for logits, target, size in zip(z.split_with_sizes(sizes, 1), targets, sizes, strict=True):
        values = reference.grouped_softmax(logits, [target], [size])
        found.append(Term(values, float((target != IGNORE).sum()), 1.0))
    return found


def expect(case: LossCase, criterion: Any, batch: Batch, logits: Tensor | None = None) -> Expected:
    """What the coming call must do, given the state that the loss has now; `logits` take the place of the batch's."""
    loss = category_loss(criterion)
    z = (batch.logits if logits is None else logits).detach().double().requires_grad_()
    normalizer = None if batch.normalizer is None else float(torch.as_tensor(batch.normalizer).detach())
    parts = terms(case, criterion, batch, z)
    divisors = [
        normalizer if normalizer is not None else max(1.0, part.num_counted) if case.reduction == "mean" else 1.0
        for part in parts
    ]
    total: Tensor = sum(part.factor * part.values / divisor for part, divisor in zip(parts, divisors, strict=True))
    gradient = gradient_of(case.upstream * total.sum(), z)
    recorded = None
    if isinstance(loss, equigrad.EqualizationLoss) and case.mode == "train":
        recorded = recorded_sums(case, loss, batch, parts[0].values, divisors[0], z)
    working = torch.promote_types(batch.logits.dtype, torch.float32)
    size = 1 + magnitude(batch.logits, batch.labels, case.ignore_index)
    rounding = SLACK * torch.finfo(working).eps * size
    entry = rounding * sum(p.factor * p.gain / divisor for p, divisor in zip(parts, divisors, strict=True))
    result = total if case.reduction == "none" else total.sum()
    num_values = z.shape[1] * (1 if case.reduction == "none" else max(1, total.numel()))
    return Expected(
        result.detach(),
        gradient,
        recorded,
        entry * num_values + SLACK * torch.finfo(working).eps * result.detach().abs(),
        case.upstream * entry + stored_rounding(case, batch.logits.dtype, gradient, parts, min(divisors)),
        rounding * parts[0].gain / divisors[0] * max(1, total.numel()),
        gradient * max(1.0, max(divisors) / case.upstream),
    )


def stored_rounding(case: LossCase, dtype: torch.dtype, gradient: Tensor, parts: list[Term], divisor: float) -> Tensor:
    """A gradient in half precision is rounded twice: undivided, and after the upstream factor."""
    info = torch.finfo(dtype)
    smallest = info.smallest_normal * info.eps
    if case.wrapper == "distillation" or case.loss == "LADELoss":  # two parts are added as stored, and may cancel
        smallest += info.eps * sum(part.factor * part.gain for part in parts)
    return 2 * info.eps * gradient.abs() + smallest * (1 + case.upstream / divisor)


def recorded_sums(
    case: LossCase, loss: Any, batch: Batch, values: Tensor, divisor: float, z: Tensor
) -> tuple[Tensor, Tensor]:
    """|d loss / d logits| summed over positive entries and over all others; probabilities as the sum of hard labels."""
    num_classes = case.num_classes
    labels = batch.labels
    if case.wrapper == "objectness" and case.tested.is_softmax:
        labels = labels.masked_fill(labels == BACKGROUND, case.ignore_index)
    logits = z.detach()[:, :num_classes]
    _, y, counted = reference.samples(logits, labels, case.ignore_index)
    smoothing = case.options.get("label_smoothing", 0.0)
    if case.labels == "soft" or smoothing > 0:
        options = {k: v for k, v in case.options.items() if k in ("prior_power", "prior_floor", "indicator")}
        defaults = {"prior_power": 1.0, "prior_floor": 1e-4, "indicator": "positive"}
        probs = (logits.movedim(1, -1) + softmax_margin(loss, **{**defaults, **options})).softmax(-1)
        target = ((1 - smoothing) * y + smoothing / num_classes) * counted.unsqueeze(-1)
        probs = torch.where(counted.unsqueeze(-1) > 0, probs, 0.0)
        positive, negative = target * (1 - probs), (target.sum(-1, keepdim=True) - target) * probs
        return positive.flatten(0, -2).sum(0) / divisor, negative.flatten(0, -2).sum(0) / divisor
    y = (y > 0).double()  # a target above 0 is a positive
    entries = gradient_of(values.sum() / divisor, z)[:, :num_classes].movedim(1, -1).abs()
    return (entries * y).flatten(0, -2).sum(0), (entries * (1 - y)).flatten(0, -2).sum(0)


def gradient_of(value: Tensor, z: Tensor) -> Tensor:
    if not value.requires_grad:
        return torch.zeros_like(z)
    return torch.autograd.grad(value, z, retain_graph=True)[0]


def samples_of(case: LossCase) -> float:
    return float(math.prod(case.shape) / case.num_classes)


def counts_of(case: LossCase, batch: Batch) -> Tensor:
    """Samples of each category, (C,)."""
    return sample_counts(batch.logits[:, : case.num_classes], batch.labels, case.ignore_index)


def sample_counts(logits: Tensor, labels: Tensor, ignore_index: int) -> Tensor:
    _, y, _ = reference.samples(logits.detach().double(), labels, ignore_index)
    return y.flatten(0, -2).sum(0)


def magnitude(logits: Tensor, labels: Tensor, ignore_index: int) -> float:
    """The greatest logit of a sample that counts."""
    z = logits.detach()
    if labels.dtype == torch.int64:
        z = z.masked_fill((labels == ignore_index).unsqueeze(1), 0.0)
    return float(z[z.isfinite()].abs().max()) if z.isfinite().any() else 0.0


def vector_of(numbers: Any) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


def at_least_one(category_counts: Any) -> Tensor:
    """A category without samples counts as if it had one; with shares, as the rarest."""
    vector = vector_of(category_counts)
    return vector.clamp(min=min(1.0, float(vector[vector > 0].min())))


def greatest(vector: Tensor | None) -> float:
    return 1.0 if vector is None else max(1.0, float(vector.abs().max()))
