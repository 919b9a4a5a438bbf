"""One of each loss over four categories, and a batch that suits it."""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

import equigrad
from equigrad import BACKGROUND, IGNORE

COUNTS = [100, 40, 8, 1]
FREQUENCY = [0.5, 0.1, 0.01, 0.001]


@dataclass(frozen=True)
class Case:
    loss_class: type[nn.Module]
    arguments: tuple[Any, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    num_logits: int = 4
    is_softmax: bool = False
    takes_quality: bool = False
    wrapper: type[nn.Module] | None = None

    def build(self, **options: Any) -> nn.Module:
        """The loss, mid-training if it has statistics: head balanced, tail starved of positive gradient."""
        loss = self.loss_class(*self.arguments, **{**self.options, **options})
        if isinstance(loss, equigrad.EqualizationLoss):
            loss.statistics.positive.copy_(torch.tensor([100.0, 85.0, 75.0, 10.0]))
            loss.statistics.negative.fill_(100.0)
        return loss if self.wrapper is None else self.wrapper(loss)

    def batch(self, *shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> "Batch":
        shape = shape or (13,)
        generator = torch.Generator().manual_seed(seed)
        logits = 2 * torch.randn(shape[0], self.num_logits, *shape[1:], generator=generator, dtype=torch.float64)
        labels = torch.randint(BACKGROUND, 4, shape, generator=generator)
        labels.view(-1)[1::5] = IGNORE
        if self.is_softmax:
            labels[labels == BACKGROUND] = 1
        extra = []
        if self.takes_quality:
            extra.append(torch.rand(shape, generator=generator, dtype=torch.float64))
        if self.wrapper is equigrad.DistillationLoss:
            extra.append(torch.randn(logits.shape, generator=generator, dtype=torch.float64))
        return Batch(logits.to(dtype).requires_grad_(), labels, extra)


@dataclass
class Batch:
    logits: Tensor
    labels: Tensor
    extra: list[Tensor]  # quality or teacher logits

    def __iter__(self):
        return iter((self.logits, self.labels, *self.extra))


CASES = {
    "BCE": Case(equigrad.BinaryCrossEntropyLoss),
    "weighted BCE": Case(equigrad.BinaryCrossEntropyLoss, options={"weight": [0.5, 1.0, 2.0, 3.0]}),
    "Sigmoid-EQL": Case(equigrad.SigmoidEqualizationLoss, (4,)),
    "focal": Case(equigrad.FocalLoss),
    "weighted focal": Case(equigrad.FocalLoss, options={"weight": [0.5, 1.0, 2.0, 3.0]}),
    "EFL": Case(equigrad.EqualizedFocalLoss, (4,)),
    "QFL": Case(equigrad.QualityFocalLoss, takes_quality=True),
    "EQFL": Case(equigrad.EqualizedQualityFocalLoss, (4,), takes_quality=True),
    "BCE of qualities": Case(equigrad.BinaryCrossEntropyLoss, takes_quality=True),
    "Sigmoid-EQL of qualities": Case(equigrad.SigmoidEqualizationLoss, (4,), takes_quality=True),
    "Grad-Blocking of qualities": Case(
        equigrad.GradientBlockingLoss, (FREQUENCY,), {"threshold": 0.05}, takes_quality=True
    ),
    "federated of qualities": Case(equigrad.FederatedLoss, (COUNTS,), {"num_sampled": 2}, takes_quality=True),
    "ECM of qualities": Case(equigrad.EffectiveClassMarginLoss, (COUNTS,), takes_quality=True),
    "VFL": Case(equigrad.VarifocalLoss, takes_quality=True),
    "VFL, constant weight": Case(equigrad.VarifocalLoss, options={"constant_weight": True}, takes_quality=True),
    "EVFL": Case(equigrad.EqualizedVarifocalLoss, (4,), takes_quality=True),
    "EVFL, constant weight": Case(equigrad.EqualizedVarifocalLoss, (4,), {"constant_weight": True}, takes_quality=True),
    "VFL, plain positives": Case(equigrad.VarifocalLoss, options={"quality_weight": False}, takes_quality=True),
    "FL + EQL": Case(equigrad.FocalEqualizationLoss, (4,)),
    "Grad-Blocking": Case(equigrad.GradientBlockingLoss, (FREQUENCY,), {"threshold": 0.05}),
    "federated": Case(equigrad.FederatedLoss, (COUNTS,), {"num_sampled": 2}),
    "ECM": Case(equigrad.EffectiveClassMarginLoss, (COUNTS,)),
    "CE": Case(equigrad.CrossEntropyLoss, is_softmax=True),
    "weighted CE": Case(equigrad.CrossEntropyLoss, options={"weight": [0.5, 1.0, 2.0, 3.0]}, is_softmax=True),
    "Softmax-EQL": Case(equigrad.SoftmaxEqualizationLoss, (4,), is_softmax=True),
    "Balanced Softmax": Case(equigrad.BalancedSoftmaxLoss, (COUNTS,), is_softmax=True),
    "Logit Adjustment": Case(equigrad.LogitAdjustmentLoss, (COUNTS,), {"strength": 1.5}, is_softmax=True),
    "LADE": Case(equigrad.LADELoss, (COUNTS,), is_softmax=True),
    "Seesaw": Case(equigrad.SeesawLoss, (4,), is_softmax=True),
    "LDAM": Case(equigrad.LDAMLoss, (COUNTS,), {"scale": 5.0, "deferral": 0, "beta": 0.9}, is_softmax=True),
    "BAGS": Case(equigrad.GroupedSoftmaxLoss, (COUNTS,), {"bounds": (10, 50)}, num_logits=9),
    "DIVE": Case(equigrad.SoftmaxEqualizationLoss, (4,), is_softmax=True, wrapper=equigrad.DistillationLoss),
    "Sigmoid-EQL + objectness": Case(
        equigrad.SigmoidEqualizationLoss, (4,), num_logits=5, wrapper=equigrad.WithObjectness
    ),
    "Softmax-EQL + objectness": Case(
        equigrad.SoftmaxEqualizationLoss, (4,), num_logits=5, wrapper=equigrad.WithObjectness
    ),
}
