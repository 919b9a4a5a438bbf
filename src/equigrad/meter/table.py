"""What the numbers of a category mean: its state, as a row of the meter's table."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from equigrad.meter.recognition import Recognition
from equigrad.meter.senders import SenderTable
from equigrad.meter.watched_statistics import GradientSums

State = Literal["never seen", "starving", "drowned", "suspicious labels", "saturated", "balanced"]

STARVING = 0.5
"""A category that wins less than this share of its own training samples is starving."""

DROWNED = 0.2
"""Below this ratio a category gets more than five times as much negative as positive gradient."""

_SATURATED = 0.01  # of the positive gradient of a sample, in that of the median category
_TRUSTED = 0.9  # a share of samples won that shows that samples of such frequency can be learnt


@dataclass(frozen=True)
class CategoryRow:
    """One category.

    Args:
        index: its column in the logits.
        category: its name.
        seen: its samples so far; the sum of its targets if these are soft.
        positive: gradient from its own samples.
        negative: gradient from all others.
        ratio: positive over negative; None as long as there is no negative gradient.
        recognition: share of its recent samples that it wins; None before its first.
        state: what that means; see docs/meter.md.
        drowned_by: categories whose samples push it down most, and their share of its negative gradient; empty unless
            it is starving or drowned.
    """

    index: int
    category: str
    seen: float
    positive: float
    negative: float
    ratio: float | None
    recognition: float | None
    state: State
    drowned_by: tuple[tuple[str, float], ...]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON and data frames."""
        return asdict(self)


def category_rows(
    names: Sequence[str],
    sums: GradientSums,
    recognition: Recognition,
    senders: SenderTable | None,
    *,
    num_senders: int,
) -> list[CategoryRow]:
    """A row for each category, in the order of the logits."""
    positive, negative = sums.positive.cpu(), sums.negative.cpu()
    seen, share = recognition.seen.cpu(), recognition.share.cpu()
    states = category_states(seen, share, positive, negative)
    rows = []
    for index, state in enumerate(states):
        pushed = senders is not None and state in ("starving", "drowned")
        received = max(float(sums.negative[index]), float(torch.finfo(torch.float64).tiny))
        found = senders.largest(index, num_senders) if senders is not None and pushed else []
        rows.append(
            CategoryRow(
                index=index,
                category=names[index],
                seen=float(seen[index]),
                positive=float(positive[index]),
                negative=float(negative[index]),
                ratio=float(positive[index] / negative[index]) if negative[index] > 0 else None,
                recognition=float(share[index]) if seen[index] > 0 else None,
                state=state,
                drowned_by=tuple((names[sender], amount / received) for sender, amount in found),
            )
        )
    return rows


def category_states(seen: Tensor, share: Tensor, positive: Tensor, negative: Tensor) -> list[State]:
    """The state of each category from (C,) samples seen, share of them won, and gradients.

    The first that applies: a category is never seen; has enough samples but does not win them, unlike others of its
    frequency; is starving; is drowned; is saturated, with hardly any gradient left; or is balanced.
    """
    is_seen = seen > 0
    per_sample = torch.where(is_seen, positive / seen.clamp(min=1e-12), torch.nan)
    is_starving = is_seen & (share < STARVING)
    rules: list[tuple[State, Tensor]] = [
        ("never seen", ~is_seen),
        ("suspicious labels", is_starving & _should_be_learnt(seen, share)),
        ("starving", is_starving),
        ("drowned", (negative > 0) & (positive < DROWNED * negative)),
        ("saturated", (share > 0.99) & (per_sample < _SATURATED * per_sample.nanmedian())),
    ]
    states: list[State] = ["balanced"] * len(seen)
    for state, applies in reversed(rules):
        for index in applies.nonzero().flatten().tolist():
            states[index] = state
    return states


def _should_be_learnt(seen: Tensor, share: Tensor) -> Tensor:
    """(C,) whether a category is in the more frequent half, and most categories with at most its samples are learnt.

    Having fewer samples did not keep those from being learnt, so the number of samples is not what is wrong.
    """
    order = seen.argsort(stable=True)
    known = order[seen[order] > 0]
    expected = torch.zeros(len(seen), dtype=torch.bool)
    is_learnt = (share[known] >= _TRUSTED).double()
    # Of the categories that are less frequent, those in the last quarter of all before this one.
    for rank in range(len(known) // 2, len(known)):
        before = is_learnt[max(rank - max(len(known) // 4, 3), 0) : rank]
        expected[known[rank]] = len(before) >= 3 and bool(before.mean() >= 0.75)
    return expected
