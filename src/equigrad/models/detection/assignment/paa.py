"""PAA: the losses of an object's candidates are a mixture of good and bad ones; the good ones are its positives."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from equigrad.models.detection.assignment.max_iou import Assignment, MaxIoUAssigner, assign

MAX_STEPS = 100  # these three: published, the defaults of scikit-learn
TOLERANCE = 1e-3  # change of the mean log likelihood at which a fit ends
LEAST_VARIANCE = 1e-6
ROUNDING = 1e-9  # two losses of a component lie at equal distances from its mean: the lower one counts, not rounding


class PAAAssigner:
    """Probabilistic anchor assignment (Kim and Lee 2020).

        candidates = assigner.candidates(anchors_per_level, boxes, labels)
        losses = ...  # classification + box loss of each of candidates.positives, against its object
        assignment = assigner(candidates, losses, [len(anchors) for anchors in anchors_per_level], labels)

    On each level the `num_candidates` candidates with the lowest loss stay. To their losses a mixture of two normal
    distributions is fitted, object by object. Those with a loss up to the most likely one of the better component are
    positives (Fig. 3 c of the paper, and the authors' code); everything else is background, nothing is ignored.

    Args:
        num_candidates: k, a level.
        least_overlap: IoU of a candidate. The anchor that fits an object best is one in any case.
    """

    def __init__(self, num_candidates: int = 9, least_overlap: float = 0.1) -> None:
        if num_candidates < 1:
            raise ValueError(f"num_candidates must be at least 1, got {num_candidates}")
        self.num_candidates = num_candidates
        self.candidates = MaxIoUAssigner(least_overlap, least_overlap)

    @torch.no_grad()
    def __call__(
        self, candidates: Assignment, losses: Tensor, level_sizes: Sequence[int], labels: Tensor
    ) -> Assignment:
        """The final assignment.

        Args:
            candidates: from `self.candidates`.
            losses: (N,) of the N `candidates.positives`.
            level_sizes: number of anchors of each level.
            labels: (G,) of the objects.
        """
        anchors = candidates.positives
        if losses.shape != anchors.shape:
            raise ValueError(f"losses must be ({len(anchors)},), one for each candidate, got {tuple(losses.shape)}")
        # On the CPU in float64, as published: a few dozen numbers an object, and the same answer on every device.
        levels = torch.bucketize(anchors.cpu(), torch.tensor(level_sizes).cumsum(0), right=True)
        chosen = self._choose(candidates.matched[anchors].cpu(), levels, losses.detach().cpu().double())
        chosen = anchors[chosen.to(anchors.device)]
        matched = torch.full_like(candidates.matched, -1)
        matched[chosen] = candidates.matched[chosen]
        return assign(matched, labels)

    def _choose(self, objects: Tensor, levels: Tensor, losses: Tensor) -> Tensor:
        """Indices of the positives among candidates with objects, levels and losses, (N,) each."""
        if not len(losses):
            return torch.empty(0, dtype=torch.int64)
        order, rank = _sort_within(objects * (levels.max() + 1) + levels, losses)
        kept = order[rank < self.num_candidates].sort().values
        order, rank = _sort_within(objects[kept], losses[kept])
        kept, rows = kept[order], (rank == 0).cumsum(0) - 1
        values = losses.new_full((int(rows.max()) + 1, int(rank.max()) + 1), torch.nan)
        values[rows, rank] = losses[kept]
        return kept[rank < count_good(values)[rows]]


def _sort_within(groups: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Order (N,) by group, then by value, then as they come; and the rank (N,) of each, in that order, in its group."""
    order = values.argsort(stable=True)
    order = order[groups[order].argsort(stable=True)]
    ordered = groups[order]
    return order, torch.arange(len(order)) - torch.searchsorted(ordered, ordered)


def count_good(values: Tensor) -> Tensor:
    """How many of the values (R, K) of each row, ascending and filled up with NaN, are good.

    Among the values of the lower component, find the one that is most likely under the mixture: all values up to it are
    good. If the lower component has no values, all are good, so that the object keeps its recall (authors' code).
    """
    present = ~values.isnan()
    joint = fit_mixture(values).log_joint(values)
    is_good = (joint.argmax(1) == 0) & present
    likelihood = joint.logsumexp(1).masked_fill(~is_good, -torch.inf)
    is_likeliest = likelihood >= likelihood.amax(1, keepdim=True) - ROUNDING
    return torch.where(is_good.any(1), is_likeliest.int().argmax(1) + 1, present.sum(1))


class Mixture(NamedTuple):
    """Two normal distributions for each of R rows, (R, 2, 1) each; the first one started at the lowest value."""

    weights: Tensor
    means: Tensor
    variances: Tensor

    def log_joint(self, values: Tensor) -> Tensor:
        """Log density (R, 2, K) of values (R, K) and component."""
        distances = (values[:, None] - self.means).square() / self.variances
        return self.weights.log() - 0.5 * (distances + self.variances.log() + math.log(2 * math.pi))


def fit_mixture(values: Tensor) -> Mixture:
    """Expectation maximisation on the values (R, K) of every row, missing ones NaN, all rows at once.

    Starts at the lowest and the highest value with variance 1 and equal weights, as published. A row stays as it is
    once its likelihood has converged.
    """
    present = ~values.isnan()
    filled = values.nan_to_num(0.0)
    lowest, highest = (values.nan_to_num(fill) for fill in (torch.inf, -torch.inf))
    means = torch.stack([lowest.amin(1), highest.amax(1)], 1)[..., None]
    mixture = Mixture(torch.full_like(means, 0.5), means, torch.ones_like(means))
    likelihood = torch.full_like(values[:, 0], -torch.inf)
    moving = torch.ones_like(likelihood, dtype=torch.bool)
    for _ in range(MAX_STEPS):
        joint = mixture.log_joint(filled)
        total = joint.logsumexp(1)
        shares = (joint - total[:, None]).exp() * present[:, None]
        update = _maximise(filled, shares)
        mixture = Mixture(
            *(torch.where(moving[:, None, None], new, old) for new, old in zip(update, mixture, strict=True))
        )
        reached = (total * present).sum(1) / present.sum(1)
        moving &= (reached - likelihood).abs() >= TOLERANCE
        likelihood = reached
        if not moving.any():
            break
    return mixture


def _maximise(values: Tensor, shares: Tensor) -> Mixture:
    """The mixture that fits values (R, K) best if components have shares (R, 2, K) of them."""
    mass = shares.sum(-1, keepdim=True) + 10 * torch.finfo(values.dtype).eps
    means = (shares * values[:, None]).sum(-1, keepdim=True) / mass
    variances = (shares * (values[:, None] - means).square()).sum(-1, keepdim=True) / mass + LEAST_VARIANCE
    return Mixture(mass / mass.sum(1, keepdim=True), means, variances)
