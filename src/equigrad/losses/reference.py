r"""The plain formula of every loss: a few lines of ordinary, differentiable PyTorch each.

This is the definition. The fused passes behind `functional` compute the same numbers faster, and the tests compare them
with these formulas. It is also what a loss returns with `reduction="none"`, and the way to second derivatives.

    values = reference.sigmoid_equalization(logits, labels, positive_weight, negative_weight)

All take logits z (N, C, ...) and labels (N, ...), and return one value for each sample in the labels' shape, 0 for an
ignored one. Beside them they take what their module derives from its statistics or from counts. Vectors are (C,). In
the formulas i is a sample, j a category, y_i^j is 1 for the label's category and 0 elsewhere, and p is the sigmoid or
the softmax of z. Sections are those of the equalization losses' paper; the other losses are cited by their modules.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from equigrad.labels import IGNORE
from equigrad.losses.inputs import PerCategory


class Samples(NamedTuple):
    """Logits and targets with the categories last, so that vectors (C,) broadcast against them."""

    z: Tensor  # (N, ..., C)  at least float32; 0 where the sample is ignored, whatever it held
    y: Tensor  # (N, ..., C)  targets
    counted: Tensor  # (N, ...)  1 where the sample counts, 0 where it is ignored


def samples(logits: Tensor, labels: Tensor, ignore_index: int) -> Samples:
    """Bring logits and labels, class indices or a number for each logit, into the form the formulas use."""
    z = logits.movedim(1, -1).to(torch.promote_types(logits.dtype, torch.float32))
    if labels.shape == logits.shape:
        y = labels.movedim(1, -1).to(z.dtype)
        return Samples(z, y, torch.ones_like(z[..., 0]))
    is_counted = labels != ignore_index
    y = (labels.unsqueeze(-1) == torch.arange(z.shape[-1], device=z.device)) & is_counted.unsqueeze(-1)
    return Samples(torch.where(is_counted.unsqueeze(-1), z, 0.0), y.to(z.dtype), is_counted.to(z.dtype))


def binary_costs(z: Tensor, y: Tensor) -> Tensor:
    """BCE of each entry, -y log p - (1 - y) log(1 - p), (N, ..., C)."""
    return F.binary_cross_entropy_with_logits(z, y, reduction="none")


def focal_costs(z: Tensor, y: Tensor, focus: PerCategory) -> Tensor:
    """Focal loss of each entry, -(1 - p_t)^gamma log p_t, (N, ..., C). y is 0 or 1."""
    towards_target = torch.where(y == 1, z, -z)  # its sigmoid is p_t
    return -(focus * F.logsigmoid(-towards_target)).exp() * F.logsigmoid(towards_target)


def quality_focal_costs(z: Tensor, target: Tensor, focus: PerCategory) -> Tensor:
    """Quality focal loss of each entry, |y' - p|^gamma BCE(p, y'), (N, ..., C)."""
    distance = (target - z.sigmoid()).abs()
    # For gamma < 1 the power has no derivative at 0: autograd gets that of a constant instead of NaN.
    is_met = distance == 0
    modulation = torch.where(is_met, 0.0**focus, distance.masked_fill(is_met, 1.0) ** focus)
    return modulation * binary_costs(z, target)


def varifocal_costs(
    z: Tensor,
    y: Tensor,
    target: Tensor,
    focus: PerCategory,
    negative_balance: float,
    constant_weight: bool,
    quality_weight: bool,
) -> Tensor:
    """Varifocal loss of each entry: y' BCE(p, y') if it is positive, else alpha p^gamma BCE(p, 0), (N, ..., C)."""
    modulation = (focus * F.logsigmoid(z.detach() if constant_weight else z)).exp()
    own_weight = target if quality_weight else torch.ones_like(target)
    costs = F.binary_cross_entropy_with_logits(z, target, reduction="none")
    return torch.where(y > 0, own_weight, negative_balance * modulation) * costs


def sample_weights(y: Tensor, weight: PerCategory | None) -> PerCategory:
    """Weight of a sample by its category, 1 for background; with several categories their mean. (N, ...)."""
    if weight is None:
        return 1.0
    total = y.sum(-1)
    return torch.where(total > 0, (y * weight).sum(-1) / torch.where(total > 0, total, 1.0), 1.0)


def soft_targets(y: Tensor, quality: Tensor | None) -> Tensor:
    """y': the quality of positive entries, 0 elsewhere; y itself without one.

    The quality is (N, ...), or (N, C, ...) with 0/1 targets.
    """
    if quality is None:
        return y
    return y * (quality.movedim(1, -1) if quality.dim() == y.dim() else quality.unsqueeze(-1)).to(y.dtype)


# ---- sigmoid losses; labels may also be BACKGROUND, or 0/1 targets of the logits' shape. With y' in a formula they may
# be soft targets too, y' itself in [0, 1]; y is 1 where y' > 0 then.


def binary_cross_entropy(
    logits: Tensor,
    labels: Tensor,
    weight: PerCategory | None = None,
    quality: Tensor | None = None,
    *,
    ignore_index: int = IGNORE,
) -> Tensor:
    r"""`BinaryCrossEntropyLoss`: $L_i = w_{y_i} \sum_j BCE(p_i^j, y')$, y' the quality of a positive entry, else 0."""
    z, y, counted = samples(logits, labels, ignore_index)
    values = sample_weights(y, weight) * binary_costs(z, soft_targets(y, quality)).sum(-1)
    return (counted * values).to(z.dtype)


def sigmoid_equalization(
    logits: Tensor,
    labels: Tensor,
    positive_weight: PerCategory,
    negative_weight: PerCategory,
    quality: Tensor | None = None,
    *,
    ignore_index: int = IGNORE,
) -> Tensor:
    r"""Sigmoid-EQL, Sec. 4.1: $L_i = \sum_j (q_j y_i^j + r_j (1 - y_i^j)) \, BCE(p_i^j, y')$."""
    z, y, counted = samples(logits, labels, ignore_index)
    is_positive = (y > 0).to(z.dtype)
    weight = positive_weight * is_positive + negative_weight * (1 - is_positive)
    values = (weight * binary_costs(z, soft_targets(y, quality))).sum(-1)
    return (counted * values).to(z.dtype)


def focal(
    logits: Tensor,
    labels: Tensor,
    focus: PerCategory = 2.0,
    positive_balance: float | None = 0.25,
    weight: PerCategory | None = None,
    *,
    ignore_index: int = IGNORE,
) -> Tensor:
    r"""`FocalLoss`: $L_i = w_{y_i} \sum_j -\alpha_t (1 - p_t)^\gamma \log p_t$."""
    z, y, counted = samples(logits, labels, ignore_index)
    values = sample_weights(y, weight) * (balances(y, positive_balance) * focal_costs(z, y, focus)).sum(-1)
    return (counted * values).to(z.dtype)


def equalized_focal(
    logits: Tensor,
    labels: Tensor,
    focus: PerCategory,
    focus_weight: PerCategory,
    positive_balance: float | None = 0.25,
    *,
    ignore_index: int = IGNORE,
) -> Tensor:
    r"""EFL, Sec. 4.3: $L_i = \sum_j -\alpha_t w^j (1 - p_t)^{\gamma^j} \log p_t$."""
    z, y, counted = samples(logits, labels, ignore_index)
    values = (balances(y, positive_balance) * focus_weight * focal_costs(z, y, focus)).sum(-1)
    return (counted * values).to(z.dtype)


def focal_equalization(
    logits: Tensor,
    labels: Tensor,
    positive_weight: PerCategory,
    negative_weight: PerCategory,
    focus: PerCategory = 2.0,
    positive_balance: float | None = 0.25,
    *,
    ignore_index: int = IGNORE,
) -> Tensor:
    r"""FL + EQL, Sec. 5.2: $L_i = \sum_j -(q_j y_i^j + r_j (1 - y_i^j)) \, \alpha_t (1 - p_t)^\gamma \log p_t$."""
    z, y, counted = samples(logits, labels, ignore_index)
    weight = positive_weight * y + negative_weight * (1 - y)
    values = (weight * balances(y, positive_balance) * focal_costs(z, y, focus)).sum(-1)
    return (counted * values).to(z.dtype)


def balances(y: Tensor, positive_balance: float | None) -> PerCategory:
    """alpha_t of each entry: alpha for positives, 1 - alpha for negatives; 1 if it is switched off."""
    return 1.0 if positive_balance is None else positive_balance * y + (1 - positive_balance) * (1 - y)


def quality_focal(
    logits: Tensor,
    labels: Tensor,
    quality: Tensor | None = None,
    focus: PerCategory = 2.0,
    *,
    ignore_index: int = IGNORE,
) -> Tensor:
    r"""`QualityFocalLoss`: $L_i = \sum_j |y' - p|^\gamma \, BCE(p, y')$."""
    z, y, counted = samples(logits, labels, ignore_index)
    values = quality_focal_costs(z, soft_targets(y, quality), focus).sum(-1)
    return (counted * values).to(z.dtype)


def equalized_quality_focal(
    logits: Tensor,
    labels: Tensor,
    quality: Tensor | None,
    focus: PerCategory,
    focus_weight: PerCategory,
    *,
    ignore_index: int = IGNORE,
) -> Tensor:
    r"""EQFL, Sec. 4.3: $L_i = \sum_j w^j |y' - p|^{\gamma^j} \, BCE(p, y')$."""
    z, y, counted = samples(logits, labels, ignore_index)
    values = (focus_weight * quality_focal_costs(z, soft_targets(y, quality), focus)).sum(-1)
    return (counted * values).to(z.dtype)


def varifocal(
    logits: Tensor,
    labels: Tensor,
    quality: Tensor | None = None,
    focus: PerCategory = 2.0,
    negative_balance: float = 0.75,
    constant_weight: bool = False,
    quality_weight: bool = True,
    *,
    ignore_index: int = IGNORE,
) -> Tensor:
    r"""`VarifocalLoss`: $L_i = \sum_j (y' y_i^j + \alpha p^\gamma (1 - y_i^j)) \, BCE(p, y')$."""
    return equalized_varifocal(
        logits,
        labels,
        quality,
        focus,
        1.0,
        negative_balance,
        constant_weight,
        quality_weight,
        ignore_index=ignore_index,
    )


def equalized_varifocal(
    logits: Tensor,
    labels: Tensor,
    quality: Tensor | None,
    focus: PerCategory,
    focus_weight: PerCategory,
    negative_balance: float = 0.75,
    constant_weight: bool = False,
    quality_weight: bool = True,
    *,
    ignore_index: int = IGNORE,
) -> Tensor:
    r"""`EqualizedVarifocalLoss`: $L_i = \sum_j w^j (y' y_i^j + \alpha p^{\gamma^j} (1 - y_i^j)) \, BCE(p, y')$."""
    z, y, counted = samples(logits, labels, ignore_index)
    target = soft_targets(y, quality)
    costs = varifocal_costs(z, y, target, focus, negative_balance, constant_weight, quality_weight)
    values = (focus_weight * costs).sum(-1)
    return (counted * values).to(z.dtype)


def gradient_blocking(
    logits: Tensor, labels: Tensor, is_rare: Tensor, quality: Tensor | None = None, *, ignore_index: int = IGNORE
) -> Tensor:
    r"""Grad-Blocking: $L_i = \sum_j (1 - E_i T_j (1 - y_i^j)) \, BCE(p_i^j, y')$.

    T_j, `is_rare`, is 1 for a rare category; E_i is 1 for a sample with a category and 0 for background.
    """
    z, y, counted = samples(logits, labels, ignore_index)
    is_positive = (y > 0).to(z.dtype)
    is_foreground = (y.sum(-1, keepdim=True) > 0).to(z.dtype)
    costs = binary_costs(z, soft_targets(y, quality))
    values = ((1 - is_foreground * is_rare * (1 - is_positive)) * costs).sum(-1)
    return (counted * values).to(z.dtype)


def federated(
    logits: Tensor, labels: Tensor, is_sampled: Tensor, quality: Tensor | None = None, *, ignore_index: int = IGNORE
) -> Tensor:
    r"""`FederatedLoss`: $L_i = \sum_{j \in S} BCE(p_i^j, y')$; `is_sampled` is 1 for the categories in S."""
    z, y, counted = samples(logits, labels, ignore_index)
    return (counted * (is_sampled * binary_costs(z, soft_targets(y, quality))).sum(-1)).to(z.dtype)


def effective_class_margin(
    logits: Tensor,
    labels: Tensor,
    positive_counts: Tensor,
    negative_counts: Tensor,
    quality: Tensor | None = None,
    *,
    ignore_index: int = IGNORE,
) -> Tensor:
    r"""ECM: $L_i = \sum_j m_j \, BCE(\sigma(2 z_i^j + \tfrac14 \log(n_j^+ / n_j^-)), y')$.

    $m_j = a_j \log(1 + 1 / a_j)$ with $a_j = n_j^- / n_j^+$.
    """
    z, y, counted = samples(logits, labels, ignore_index)
    odds = negative_counts / positive_counts
    costs = binary_costs(2 * z - odds.log().to(z.dtype) / 4, soft_targets(y, quality))
    return (counted * (odds * torch.log1p(1 / odds) * costs).sum(-1)).to(z.dtype)


def objectness(logits: Tensor, labels: Tensor, *, ignore_index: int = IGNORE) -> Tensor:
    r"""What `WithObjectness` adds, Sec. 5.1.2: $BCE(\sigma(z_i^{obj}), o_i)$ of the last column.

    o_i is 1 for a sample with a category and 0 for background. The labels are those of the other columns.
    """
    category_logits, objectness_logits = logits[:, :-1], logits[:, -1:]
    _, y, counted = samples(category_logits, labels, ignore_index)
    z = objectness_logits.movedim(1, -1).to(y.dtype).squeeze(-1)
    return counted * binary_costs(torch.where(counted > 0, z, 0.0), (y.sum(-1) > 0).to(y.dtype))


# ---- softmax losses; no BACKGROUND


def cross_entropy(
    logits: Tensor,
    labels: Tensor,
    weight: PerCategory | None = None,
    *,
    label_smoothing: float = 0.0,
    ignore_index: int = IGNORE,
) -> Tensor:
    r"""`CrossEntropyLoss`: $L_i = -\sum_j w_j y_i^j \log p_i^j$.

    The labels may be soft, probabilities of the logits' shape. A smoothing turns y into (1 - epsilon) y + epsilon / C.
    """
    return softmax_equalization(
        logits, labels, 0.0, weight=weight, label_smoothing=label_smoothing, ignore_index=ignore_index
    )


def softmax_equalization(
    logits: Tensor,
    labels: Tensor,
    margin: PerCategory,
    *,
    weight: PerCategory | None = None,
    label_smoothing: float = 0.0,
    ignore_index: int = IGNORE,
) -> Tensor:
    r"""Softmax-EQL, Sec. 4.2: $L_i = -\sum_j y_i^j \log softmax_j(z_i + m)$, $m_j = \pi \log G_j^{pos}$.

    Labels, smoothing and weight are as in `cross_entropy`, which has m = 0.
    """
    z, y, counted = samples(logits, labels, ignore_index)
    target = (1 - label_smoothing) * y + label_smoothing / z.shape[-1]
    costs = -target * (z + margin).log_softmax(-1)
    values = (costs if weight is None else weight * costs).sum(-1)
    return (counted * values).to(z.dtype)


def balanced_softmax(
    logits: Tensor,
    labels: Tensor,
    category_counts: Tensor,
    *,
    label_smoothing: float = 0.0,
    ignore_index: int = IGNORE,
) -> Tensor:
    r"""`BalancedSoftmaxLoss`: cross-entropy of $z_j + \log n_j$."""
    margin = category_counts.log()
    return softmax_equalization(logits, labels, margin, label_smoothing=label_smoothing, ignore_index=ignore_index)


def logit_adjustment(
    logits: Tensor,
    labels: Tensor,
    category_prior: Tensor,
    strength: float = 1.0,
    *,
    label_smoothing: float = 0.0,
    ignore_index: int = IGNORE,
) -> Tensor:
    r"""`LogitAdjustmentLoss`: cross-entropy of $z_j + \log(\pi_j^\tau + 10^{-12})$."""
    margin = (category_prior**strength + 1e-12).log()
    return softmax_equalization(logits, labels, margin, label_smoothing=label_smoothing, ignore_index=ignore_index)


def lade(
    logits: Tensor,
    labels: Tensor,
    category_prior: Tensor,
    weight: float = 0.1,
    penalty: float = 0.1,
    *,
    ignore_index: int = IGNORE,
) -> Tensor:
    r"""`LADELoss`: $L_i = CE(z_i + \log \pi, y_i) + a R$; R is a property of the whole batch, the same for each sample.

    $$ R = -\sum_j \pi_j \left( \frac{1}{N_j} \sum_{i: y_i = j} z_i^j - M_j - \lambda M_j^2 \right), \quad
       M_j = \log \frac{1}{N} \sum_i \frac{e^{z_i^j}}{C \pi_j} $$
    """
    z, y, counted = samples(logits, labels, ignore_index)
    values = softmax_equalization(logits, labels, (category_prior + 1e-9).log(), ignore_index=ignore_index)
    z, y = z.flatten(0, -2), y.flatten(0, -2)  # (S, C)
    is_counted = counted.flatten().unsqueeze(1) > 0
    own_mean = (y * z).sum(0) / (y.sum(0) + 1e-8)
    total = torch.where(is_counted | ~is_counted.any(), z, -torch.inf).logsumexp(0)
    log_mean = total - counted.sum().clamp(min=1).log() - (category_prior + 1e-9).log() - math.log(z.shape[1])
    regulariser = -(category_prior * (own_mean - log_mean - penalty * log_mean**2)).sum()
    return values + (counted * weight * regulariser).to(values.dtype)


def seesaw(
    logits: Tensor,
    labels: Tensor,
    category_counts: Tensor,
    mitigation: float = 0.8,
    compensation: float = 2.0,
    *,
    ignore_index: int = IGNORE,
) -> Tensor:
    r"""`SeesawLoss`: $L_i = -\log (e^{z_i^y} / \sum_j M_{yj} S_i^j e^{z_i^j})$; M and S are not differentiated.

    $$ M_{yj} = \min(1, n_j / n_y)^p, \quad S_i^j = \max(1, \sigma_i^j / \max(\sigma_i^y, 0.01))^q $$
    """
    z, y, counted = samples(logits, labels, ignore_index)
    counts = category_counts.clamp(min=1).to(z.dtype)
    own_count = torch.where(counted > 0, (y * counts).sum(-1), 1.0).unsqueeze(-1)
    log_mitigation = mitigation * (counts / own_count).clamp(max=1).log()
    log_probs = z.detach().log_softmax(-1)
    own_log_prob = (y * log_probs).sum(-1, keepdim=True).clamp(min=math.log(0.01))
    log_compensation = compensation * (log_probs - own_log_prob).clamp(min=0)
    adjusted = z + (1 - y) * (log_mitigation + log_compensation)
    return counted * -(y * adjusted.log_softmax(-1)).sum(-1)


def ldam(
    logits: Tensor,
    labels: Tensor,
    label_margin: Tensor,
    scale: float = 30.0,
    weight: PerCategory = 1.0,
    *,
    ignore_index: int = IGNORE,
) -> Tensor:
    r"""`LDAMLoss`: $L_i = -w_y \log softmax_y(s (z_i - \Delta_y y_i))$; `label_margin` is Delta_j."""
    z, y, counted = samples(logits, labels, ignore_index)
    log_probs = (scale * (z - label_margin * y)).log_softmax(-1)
    return (counted * -(weight * y * log_probs).sum(-1)).to(z.dtype)


def grouped_softmax(logits: Tensor, group_targets: Sequence[Tensor], group_sizes: Sequence[int]) -> Tensor:
    r"""`GroupedSoftmaxLoss` (BAGS): $L_i = \sum_{g: i \in U_g} -\log p_i^{g, t}$.

    `group_targets` are the target t of each sample in each group, (N, ...), and IGNORE where the group does not use the
    sample; `group_sizes` are the numbers of columns of the groups.
    """
    values = []
    for group, target in zip(logits.split_with_sizes(list(group_sizes), dim=1), group_targets, strict=True):
        z, y, used = samples(group, target, IGNORE)
        values.append(used * -(y * z.log_softmax(-1)).sum(-1))
    return torch.stack(values).sum(0)


def distillation(
    logits: Tensor,
    labels: Tensor,
    teacher_logits: Tensor,
    temperature: float = 3.0,
    power: float = 0.5,
    *,
    ignore_index: int = IGNORE,
) -> Tensor:
    r"""DIVE's part of the teacher: $L_i = T^2 \, KL(t_i \| softmax(z_i / T))$, $t = softmax(\rho z' / T)$.

    The labels only say which samples are ignored. `DistillationLoss` returns (1 - a) base + a times this.
    """
    z, _, counted = samples(logits, labels, ignore_index)
    teacher, _, _ = samples(teacher_logits.detach(), labels, ignore_index)
    log_target = (power / temperature * teacher.to(z.dtype)).log_softmax(-1)
    divergence = (log_target.exp() * (log_target - (z / temperature).log_softmax(-1))).sum(-1)
    return counted * temperature**2 * divergence
