"""Calibration after training: NorCal and post-hoc logit adjustment, on saved predictions or inside a trained head.

Both lower the scores of the categories that training favoured. How much it did is the `prior`: training counts n_j, or
instead the positive gradient of each category (`prior=loss.statistics.positive`).

    probs = norcal(logits, image_counts, power=0.6)            # saved logits (N, C + 1), background last
    logits = adjust_logits(logits, category_counts)            # saved logits (N, C)
    head.scores = NorCalScores(image_counts, power=0.6)        # a trained softmax detector
    results = norcal_results(json.load(file), image_counts_by_id, power=0.6)    # saved detections, scores only
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from equigrad.models.scores import Scores

# Keeps the logarithm of a category that never occurs finite, as published: it gains log(1e12) = 27.6.
ADJUSTMENT_FLOOR = 1e-12


def norcal(
    logits_or_probs: Tensor,
    prior: Sequence[float] | Tensor,
    *,
    power: float,
    form: Literal["exp", "probability"] = "exp",
    renormalize: bool = True,
    background: bool = True,
) -> Tensor:
    r"""NorCal: divide the foreground by a power of its frequency, leave the background, and normalise again.

    $$ s_j = \frac{\exp(z_j) / n_j^\gamma}{\exp(z_{bg}) + \sum_k \exp(z_k) / n_k^\gamma} $$

    A category whose prior is 0 counts as the rarest one above 0. The background is not divided, so the unit of the
    prior matters: multiplying it by k acts like adding gamma log k to the background logit.

    Args:
        logits_or_probs: (N, C + 1, ...), categories in dimension 1 and background in its last column.
        prior: n_j, (C,), not negative; NorCal counts training images that contain the category.
        power: gamma; 0 changes nothing, larger favours rare categories more.
        form: `"exp"` if given logits, `"probability"` if given the probabilities of a softmax.
        renormalize: divide by the row's sum, which makes both forms equal. Without it `"exp"` overflows for logits
            above the logarithm of the largest number (88 in float32).
        background: False if there is no background column; the prior then covers all columns.

    Returns:
        Scores of the input's shape, the background's included.
    """
    _check_power("power", power)
    _check_logits("logits_or_probs", logits_or_probs)
    checked = _checked_prior(prior, logits_or_probs.shape[1] - int(background))
    log_divisors = _log_divisors(checked, power, background=background)
    log_scores = _log_scores(logits_or_probs, form)
    calibrated = log_scores - _per_column(log_divisors, log_scores)
    scores = calibrated.softmax(dim=1) if renormalize else calibrated.exp()
    return scores.to(logits_or_probs.dtype)


def adjust_logits(logits: Tensor, prior: Sequence[float] | Tensor, *, strength: float = 1.0) -> Tensor:
    r"""Post-hoc logit adjustment: logits of a model trained with cross-entropy, adjusted to balanced categories.

    $$ z_j - \log(\pi_j^\tau + 10^{-12}), \quad \pi_j = n_j / \sum_k n_k $$

    The unit of the prior does not matter. A category whose prior is 0 gains 27.6 and so
    comes before nearly all others.

    Args:
        logits: (N, C, ...), categories in dimension 1.
        prior: n_j, (C,), not negative.
        strength: tau; 0 changes nothing.
    """
    _check_power("strength", strength)
    _check_logits("logits", logits)
    return logits - _per_column(_margins(_checked_prior(prior, logits.shape[1]), strength), logits)


class NorCalScores:
    """Scores of a softmax head with a background column, calibrated by `norcal`; replaces the scores of the head.

    Args:
        prior: n_j, (C,), copied as it is now.
        power: gamma.
    """

    def __init__(self, prior: Sequence[float] | Tensor, *, power: float) -> None:
        _check_power("power", power)
        self.prior = _checked_prior(prior).cpu().clone()
        # Made and checked once: an exported model holds the numbers alone.
        self.log_divisors = _log_divisors(self.prior, power, background=True)

    def num_logits(self, num_classes: int) -> int:
        """The categories and the background."""
        _checked_prior(self.prior, num_classes)
        return num_classes + 1

    def __call__(self, logits: Tensor) -> Tensor:
        """Calibrated scores (N, C, ...) of logits (N, C + 1, ...): the foreground only, as a head expects."""
        _check_columns(logits, len(self.log_divisors))
        log_scores = _log_scores(logits, "exp")
        scores = (log_scores - _per_column(self.log_divisors, log_scores)).softmax(dim=1)
        return scores.to(logits.dtype)[:, :-1]


class AdjustedScores:
    """Scores of logits that `adjust_logits` has adjusted.

    Args:
        scores: the head's own scores. The first C logits must be those of the categories; further columns
            (background, objectness) reach it unchanged.
        prior: n_j, (C,), copied as it is now.
        strength: tau.
    """

    def __init__(self, scores: Scores, prior: Sequence[float] | Tensor, *, strength: float = 1.0) -> None:
        _check_power("strength", strength)
        self.scores = scores
        self.prior = _checked_prior(prior).cpu().clone()
        self.margins = _margins(self.prior, strength)

    def num_logits(self, num_classes: int) -> int:
        """As many as the scores inside need."""
        _checked_prior(self.prior, num_classes)
        return self.scores.num_logits(num_classes)

    def __call__(self, logits: Tensor) -> Tensor:
        """Scores (N, C) of logits (N, num_logits)."""
        _check_columns(logits, self.scores.num_logits(len(self.prior)))
        margins = F.pad(self.margins, (0, logits.shape[1] - len(self.margins)))
        return self.scores(logits - _per_column(margins, logits))


def norcal_detections(scores: Tensor, labels: Tensor, prior: Sequence[float] | Tensor, *, power: float) -> Tensor:
    r"""NorCal for detections of which only the score and the category are known.

    $$ s \, (\min_k n_k / n_j)^\gamma $$

    The factor does not depend on other detections, so images may be calibrated one by one, and scores in [0, 1] stay
    there. Without the background's score no renormalisation is possible: the order *within* a category stays, and AP
    moves only through what a limit on the detections per image keeps. For the full effect save logits, use `norcal`.

    Args:
        scores: s, of any shape.
        labels: category of each score, 0 ... C-1, same shape.
        prior: n_j, (C,); a 0 counts as the smallest number above 0.
        power: gamma.
    """
    _check_power("power", power)
    if labels.shape != scores.shape:
        raise ValueError(f"labels must be {tuple(scores.shape)} like scores, got {tuple(labels.shape)}")
    counts = _floored(_checked_prior(prior)).to(scores.device)
    if labels.numel() and not 0 <= int(labels.min()) <= int(labels.max()) < len(counts):
        expected = f"0 ... {len(counts) - 1}, one per entry of prior"
        raise ValueError(f"labels must be in {expected}, got {int(labels.min())} ... {int(labels.max())}")
    factors = (counts.min() / counts) ** power
    return scores * factors[labels].to(scores.dtype)


def norcal_results(
    results: Sequence[Mapping[str, Any]], prior: Mapping[int, float], *, power: float
) -> list[dict[str, Any]]:
    """`norcal_detections` for COCO's result format: a list of {"category_id": ..., "score": ..., ...}.

    Args:
        results: detections; they are copied, and all fields but the score are kept.
        prior: n_j by category id.
        power: gamma.
    """
    column_of = {category_id: column for column, category_id in enumerate(prior)}
    unknown = {result["category_id"] for result in results} - column_of.keys()
    if unknown:
        raise ValueError(f"prior must have every category_id of the results, missing {sorted(unknown)[:5]}")
    scores = torch.tensor([result["score"] for result in results], dtype=torch.float64)
    labels = torch.tensor([column_of[result["category_id"]] for result in results], dtype=torch.int64)
    calibrated = norcal_detections(scores, labels, list(prior.values()), power=power).tolist()
    return [{**result, "score": score} for result, score in zip(results, calibrated, strict=True)]


def _checked_prior(prior: Sequence[float] | Tensor, num_classes: int | None = None) -> Tensor:
    values = torch.as_tensor(prior, dtype=torch.float64).detach()
    if values.dim() != 1 or (num_classes is not None and len(values) != num_classes):
        expected = "C" if num_classes is None else num_classes
        raise ValueError(f"prior must be ({expected},), one number per category, got {tuple(values.shape)}")
    if not bool((values.isfinite() & (values >= 0)).all()):
        raise ValueError(f"prior must be finite and not negative, got {values.tolist()}")
    if not bool(values.any()):
        raise ValueError(f"prior must have an entry above 0, got {len(values)} zeros")
    return values


def _floored(prior: Tensor) -> Tensor:
    """Zeros raised to the smallest entry above 0: a floor that fits counts and gradients of any unit."""
    return prior.clamp(min=prior[prior > 0].min())


def _margins(prior: Tensor, strength: float) -> Tensor:
    """What logit adjustment takes from the logits, (C,)."""
    return ((prior / prior.sum()) ** strength + ADJUSTMENT_FLOOR).log()


def _log_divisors(prior: Tensor, power: float, *, background: bool) -> Tensor:
    """What NorCal takes from the logits; the background, the last column, is divided by exp(0)."""
    return F.pad(power * _floored(prior).log(), (0, int(background)))


def _check_power(name: str, value: float) -> None:
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"{name} must be finite and not negative, got {value}")


def _check_logits(name: str, logits: Tensor) -> None:
    if logits.dim() < 2 or not logits.is_floating_point():
        raise ValueError(f"{name} must be floating point (N, C, ...), got {logits.dtype} {tuple(logits.shape)}")


def _check_columns(logits: Tensor, num_logits: int) -> None:
    _check_logits("logits", logits)
    if logits.shape[1] != num_logits:
        raise ValueError(f"logits must have {num_logits} columns, got {tuple(logits.shape)}")


def _log_scores(logits_or_probs: Tensor, form: str) -> Tensor:
    # Half precision holds neither small probabilities nor their logarithms well.
    values = logits_or_probs.to(torch.promote_types(logits_or_probs.dtype, torch.float32))
    if form == "exp":
        return values
    if form != "probability":
        raise ValueError(f'form must be "exp" or "probability", got {form!r}')
    if bool(((values < 0) | (values > 1.001)).any()):
        raise ValueError('form="probability" expects probabilities in [0, 1]; logits need form="exp"')
    return values.clamp(min=torch.finfo(values.dtype).tiny).log()  # a row of zeros stays finite


def _per_column(vector: Tensor, like: Tensor) -> Tensor:
    """(C,) as (C, 1, ...), to meet dimension 1 of (N, C, ...)."""
    return vector.to(like).reshape(-1, *[1] * (like.dim() - 2))
