"""Calls that a loss must refuse."""

import math
from dataclasses import replace
from random import Random
from typing import Any

import torch
from tests.fuzz.losses_cases import Batch, LossCase

import equigrad

NO_NUMBERS = ("1", True, [1.0], math.nan, math.inf)
NO_VECTORS = ([], [[1.0]], "many", [math.nan], [-1.0], [0.0])
NO_INTS = (1.5, "1", True, None)
# Values that no loss takes for a hyper-parameter; of the others negative numbers and NO_NUMBERS.
ILLEGAL: dict[str, tuple[Any, ...]] = {
    "reduction": ("average", "", None),
    "ignore_index": NO_INTS,
    "seed": NO_INTS,
    "num_sampled": (-1, *NO_INTS),
    "mapping": ("cubic", 3, None),
    "indicator": ("both", None),
    "label_smoothing": (1, -0.1, *NO_NUMBERS),
    "negative_balance": (-0.1, *NO_NUMBERS),
    "beta": (1, -0.1, *NO_NUMBERS),
    "positive_balance": (1.5, -0.1, *NO_NUMBERS),
    "base_focus": (0, *NO_NUMBERS),
    "prior_floor": (0, *NO_NUMBERS),
    "half_life": (0, *NO_NUMBERS),
    "scale": (0, *NO_NUMBERS),
    "bounds": ((3, 2), (1, 1), (math.nan,), ((1, 2), (3, 4))),
    "category_counts": NO_VECTORS,
    "category_frequency": NO_VECTORS,
    "num_classes": (0, -1, 2.0, True, "3", None),
}
UNCHECKED = {
    *("reweight_positive", "reweight_negative", "focusing", "weighting", "background"),
    *("constant_weight", "quality_weight"),
}  # any truth value

NO_NORMALIZERS = (
    *(0, -1.0, math.nan, math.inf, "1", True, [1.0]),
    *(torch.tensor(0.0), torch.tensor(-2), torch.tensor(math.nan), torch.tensor([1.0, 2.0]), torch.tensor([])),
)

MISUSES = (
    *("option", "label too large", "label too small", "labels of another type", "labels of another shape"),
    *("value for a logit", "normalizer", "logits of another type", "logits of another shape", "quality", "teacher"),
    "smoothed targets",
)


def illegal_option(case: LossCase) -> dict[str, Any]:
    """A hyper-parameter with a value that no loss takes."""
    random = Random(case.seed)
    names = [*(set(case.tested.options) - UNCHECKED), case.tested.counts or "reduction", "reduction", "ignore_index"]
    name = random.choice(sorted(names))
    is_vector = name == "weight" and case.loss != "LADELoss"
    values = NO_VECTORS if is_vector else ILLEGAL.get(name, (-1.0, *NO_NUMBERS))
    return {name: random.choice(values)}


def spoil(case: LossCase, batch: Batch) -> Batch | None:
    """The batch with what the case says is wrong; None if such a batch cannot be wrong in that way."""
    random = Random(case.seed)
    labels, logits = batch.labels, batch.logits
    is_matrix = case.labels != "indices"
    if case.misuse in ("label too large", "label too small"):
        wrong = case.num_classes + random.choice([0, 1, 10**9])
        if case.misuse == "label too small":
            wrong = random.choice([-2, -101, -(10**9)] if case.takes_background else [-1, -2, -(10**9)])
        if is_matrix or labels.numel() == 0 or wrong == case.ignore_index:
            return None
        labels = labels.clone()
        labels.view(-1)[random.randrange(labels.numel())] = wrong
        return replace(batch, labels=labels)
    if case.misuse == "labels of another type":
        another = random.choice([labels.int(), labels.to(torch.uint8), labels.tolist(), None])
        return replace(batch, labels=another)
    if case.misuse == "labels of another shape":
        longer = torch.cat([labels, labels.new_zeros(1, *labels.shape[1:])])
        return replace(batch, labels=random.choice([labels.unsqueeze(0), longer]))
    if case.misuse == "value for a logit":
        if not is_matrix or labels.numel() == 0 or labels.dtype == torch.bool:
            return None
        labels = labels.clone()
        labels.view(-1)[random.randrange(labels.numel())] = random.choice([math.nan, math.inf, -0.5, 2.0])
        return replace(batch, labels=labels)
    if case.misuse == "normalizer":
        if case.reduction == "none":
            return replace(batch, normalizer=2.0)
        return replace(batch, normalizer=random.choice(NO_NORMALIZERS))
    if case.misuse == "logits of another type":
        return replace(batch, logits=random.choice([logits.detach().nan_to_num(0).long(), logits.tolist(), None]))
    if case.misuse == "logits of another shape":
        return spoil_shape(case, batch, random)
    if case.misuse == "quality" and case.has_quality and batch.extra[0].numel():
        wrong = spoiled_quality(batch.extra[0], random)
        is_needed = case.tested.needs_quality and case.labels == "indices"
        return None if wrong is None and not is_needed else replace(batch, extra=[wrong])
    if case.misuse == "smoothed targets":
        has_statistics = issubclass(case.tested.loss_class, equigrad.EqualizationLoss)
        if case.labels != "soft targets" or not has_statistics or case.num_classes <= 2 or labels.numel() == 0:
            return None
        return replace(batch, labels=labels.clamp(min=0.01))
    if case.misuse == "teacher" and case.wrapper == "distillation":
        teacher = batch.extra[0]
        wrong = random.choice([teacher.long(), teacher[:, :0], teacher.unsqueeze(0), None])
        return replace(batch, extra=[wrong])
    return None


def spoil_shape(case: LossCase, batch: Batch, random: Random) -> Batch | None:
    """A loss that knows C refuses another number of columns; every loss refuses a vector."""
    logits = batch.logits.detach()
    if random.random() < 0.5:
        return replace(batch, logits=logits.flatten())
    knows_columns = (
        case.tested.counts is not None
        or ("weight" in case.options and case.options["weight"] is not None)
        or issubclass(case.tested.loss_class, (equigrad.EqualizationLoss, equigrad.SeesawLoss))
    )
    if not knows_columns or case.labels != "indices":
        return None
    return replace(batch, logits=torch.cat([logits, logits[:, :1]], 1).requires_grad_())


def spoiled_quality(quality: torch.Tensor, random: Random) -> Any:
    wrong = quality.clone()
    wrong.view(-1)[random.randrange(wrong.numel())] = random.choice([-0.5, 1.5, math.nan, math.inf])
    return random.choice([wrong, wrong, quality.long(), quality[None, None], quality.tolist(), None])
