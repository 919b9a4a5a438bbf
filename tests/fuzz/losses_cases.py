"""Calls of the losses as plain data: what is drawn at random, printed when it fails, and built again from that."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from random import Random
from typing import Any

import torch
from torch import Tensor, nn

import equigrad
from equigrad import BACKGROUND, IGNORE

Draw = Callable[[Random, int], Any]
"""A legal value of a hyper-parameter of a loss over C categories."""


def non_negative(random: Random, num_classes: int) -> float:
    return random.choice([0, 1, random.uniform(0, 3), 10 ** random.uniform(-3, 2.5)])


def positive(random: Random, num_classes: int) -> float:
    return random.choice([1, random.uniform(0.1, 3), 10 ** random.uniform(-2, 2)])


def fraction(random: Random, num_classes: int) -> float:
    return random.choice([0, 0.5, 1, random.random()])


def below_one(random: Random, num_classes: int) -> float:
    return random.choice([0, 0.1, 0.9999, 0.999 * random.random()])


def flag(random: Random, num_classes: int) -> bool:
    return random.random() < 0.5


def one_of(*values: Any) -> Draw:
    return lambda random, num_classes: random.choice(values)


def optional(draw: Draw) -> Draw:
    return lambda random, num_classes: None if random.random() < 0.3 else draw(random, num_classes)


def counts(random: Random, num_classes: int) -> list[float]:
    """Long-tailed, equal, shares, huge, or with categories that have no sample; never all 0."""
    kind = random.randrange(5)
    if kind == 0:
        return [random.randint(1, 5)] * num_classes
    if kind == 1:
        return [random.uniform(1e-4, 1) for _ in range(num_classes)]
    long_tail = [int(10 ** random.uniform(0, 9 if kind == 2 else 4)) for _ in range(num_classes)]
    if kind == 3:
        long_tail = [0 if random.random() < 0.3 else count for count in long_tail]
        long_tail[random.randrange(num_classes)] = 7
    return long_tail


def weights(random: Random, num_classes: int) -> list[float]:
    """Not all 0."""
    drawn = [random.choice([0.0, 1, random.uniform(0, 3), 10 ** random.uniform(-3, 2)]) for _ in range(num_classes)]
    drawn[random.randrange(num_classes)] = 1.5
    return drawn


EQUALIZATION: dict[str, Draw] = {"half_life": optional(positive)}
SIGMOID_WEIGHTS: dict[str, Draw] = {
    "positive_boost": non_negative,
    "mapping": one_of("sigmoid", "linear", "square", "sqrt"),
    "steepness": non_negative,
    "midpoint": non_negative,
    "reweight_positive": flag,
    "reweight_negative": flag,
    **EQUALIZATION,
}
FOCUS: dict[str, Draw] = {"base_focus": positive, "focus_scale": non_negative, **EQUALIZATION}

VARIFOCAL: dict[str, Draw] = {"negative_balance": non_negative, "constant_weight": flag, "quality_weight": flag}


@dataclass(frozen=True)
class Tested:
    """A loss that is fuzzed: how it is built, and which forms of labels it takes."""

    loss_class: type[nn.Module]
    options: dict[str, Draw] = field(default_factory=dict)
    counts: str | None = None  # the hyper-parameter with a number for each category
    is_softmax: bool = False
    takes_soft: bool = False  # probabilities
    takes_targets: bool = False  # soft targets, or a quality beside hard ones
    needs_quality: bool = False  # beside class indices


TESTED = {
    tested.loss_class.__name__: tested
    for tested in (
        Tested(equigrad.BinaryCrossEntropyLoss, {"weight": optional(weights)}, takes_targets=True),
        Tested(equigrad.SigmoidEqualizationLoss, SIGMOID_WEIGHTS, takes_targets=True),
        Tested(
            equigrad.FocalLoss,
            {"focus": non_negative, "positive_balance": optional(fraction), "weight": optional(weights)},
        ),
        Tested(
            equigrad.EqualizedFocalLoss,
            {"positive_balance": optional(fraction), "focusing": flag, "weighting": flag, **FOCUS},
        ),
        Tested(equigrad.QualityFocalLoss, {"focus": non_negative}, takes_targets=True, needs_quality=True),
        Tested(equigrad.EqualizedQualityFocalLoss, FOCUS, takes_targets=True, needs_quality=True),
        Tested(equigrad.VarifocalLoss, {"focus": non_negative, **VARIFOCAL}, takes_targets=True, needs_quality=True),
        Tested(equigrad.EqualizedVarifocalLoss, {**FOCUS, **VARIFOCAL}, takes_targets=True, needs_quality=True),
        Tested(
            equigrad.FocalEqualizationLoss,
            {"focus": non_negative, "positive_balance": optional(fraction), **SIGMOID_WEIGHTS},
        ),
        Tested(equigrad.GradientBlockingLoss, {"threshold": non_negative}, "category_frequency", takes_targets=True),
        Tested(
            equigrad.FederatedLoss,
            {"num_sampled": one_of(0, 1, 3, 50), "power": non_negative, "seed": one_of(0, 1, -5, 2**40)},
            "category_counts",
            takes_targets=True,
        ),
        Tested(
            equigrad.EffectiveClassMarginLoss, {"background_ratio": positive}, "category_counts", takes_targets=True
        ),
        Tested(
            equigrad.CrossEntropyLoss,
            {"weight": optional(weights), "label_smoothing": below_one},
            is_softmax=True,
            takes_soft=True,
        ),
        Tested(
            equigrad.SoftmaxEqualizationLoss,
            {
                "prior_power": non_negative,
                "prior_floor": positive,
                "indicator": one_of("positive", "negative", "ratio"),
                "label_smoothing": below_one,
                **EQUALIZATION,
            },
            is_softmax=True,
            takes_soft=True,
        ),
        Tested(
            equigrad.BalancedSoftmaxLoss,
            {"label_smoothing": below_one},
            "category_counts",
            is_softmax=True,
            takes_soft=True,
        ),
        Tested(
            equigrad.LogitAdjustmentLoss,
            {"strength": non_negative, "label_smoothing": below_one},
            "category_counts",
            is_softmax=True,
            takes_soft=True,
        ),
        Tested(
            equigrad.LADELoss, {"weight": non_negative, "penalty": non_negative}, "category_counts", is_softmax=True
        ),
        Tested(equigrad.SeesawLoss, {"mitigation": non_negative, "compensation": non_negative}, is_softmax=True),
        Tested(
            equigrad.LDAMLoss,
            {
                "max_margin": non_negative,
                "scale": positive,
                "deferral": one_of(None, 0, 1, 2),
                "beta": below_one,
            },
            "category_counts",
            is_softmax=True,
        ),
        Tested(
            equigrad.GroupedSoftmaxLoss,
            {
                "bounds": one_of((), (5,), (10, 100), (1.5, 2.5, 1e4)),
                "others_ratio": optional(non_negative),
                "background": flag,
                "seed": one_of(0, 1, -5, 2**40),
            },
            "category_counts",
        ),
    )
}

TAKES_NUM_CLASSES = (equigrad.EqualizationLoss, equigrad.SeesawLoss)


@dataclass(frozen=True)
class LossCase:
    """A few training steps of one loss. The text that `repr` gives builds it again."""

    loss: str
    shape: tuple[int, ...] = (2, 2)  # (N, C, d1, ...), C categories
    options: dict[str, Any] = field(default_factory=dict)
    wrapper: str | None = None  # "objectness" or "distillation"
    wrapper_options: dict[str, Any] = field(default_factory=dict)
    labels: str = "indices"  # "multi-label", "soft" (probabilities) or "soft targets"
    with_quality: bool = False  # where the loss does not need one
    label_type: str = "float32"  # of a number for each logit, and of the quality
    has_background: bool = False
    has_ignored: bool = False
    ignore_index: int = IGNORE
    ignored_content: float = 0.0  # what the logits of ignored samples hold
    reduction: str = "mean"
    normalizer: str | None = None
    dtype: str = "float64"
    layout: str = "contiguous"
    scale: float = 1.0  # of the logits
    mode: str = "train"
    steps: int = 1
    upstream: float = 1.0
    misuse: str | None = None  # what makes the first call illegal
    poison: float | None = None  # a logit of the last call but one
    seed: int = 0

    def __repr__(self) -> str:
        changed = [f for f in fields(self) if f.name == "loss" or getattr(self, f.name) != _default(f)]
        return f"LossCase({', '.join(f'{f.name}={_source(getattr(self, f.name))}' for f in changed)})"

    @property
    def tested(self) -> Tested:
        return TESTED[self.loss]

    @property
    def num_classes(self) -> int:
        return self.shape[1]

    @property
    def has_quality(self) -> bool:
        if not self.tested.takes_targets or self.labels == "soft targets":
            return False
        return self.with_quality or self.tested.needs_quality

    @property
    def num_logits(self) -> int:
        """Columns that the head has."""
        if self.loss == "GroupedSoftmaxLoss":
            return self.build().num_logits
        return self.num_classes + (self.wrapper == "objectness")

    @property
    def takes_background(self) -> bool:
        if self.loss == "GroupedSoftmaxLoss":
            return self.options.get("background", True)
        return not self.tested.is_softmax or self.wrapper == "objectness"

    def build(self) -> nn.Module:
        """The loss with its wrapper, in training mode."""
        options = {"reduction": self.reduction, "ignore_index": self.ignore_index, **self.options}
        arguments = (self.num_classes,) if issubclass(self.tested.loss_class, TAKES_NUM_CLASSES) else ()
        loss = self.tested.loss_class(*arguments, **options)
        if self.wrapper == "objectness":
            return equigrad.WithObjectness(loss)
        if self.wrapper == "distillation":
            return equigrad.DistillationLoss(loss, **self.wrapper_options)
        return loss


@dataclass
class Batch:
    """The arguments of one call."""

    logits: Tensor
    labels: Tensor
    extra: list[Tensor]  # the quality or the logits of a teacher
    normalizer: Any


def make_batch(case: LossCase, step: int) -> Batch:
    """The batch of a step; the seed of the case and the step say which."""
    generator = torch.Generator().manual_seed(case.seed * 1000 + step)
    num_samples, _, *positions = case.shape
    sample_shape = (num_samples, *positions)
    logit_shape = (num_samples, case.num_logits, *positions)
    values = case.scale * torch.randn(logit_shape, generator=generator, dtype=torch.float64)
    if case.layout == "expanded":
        values = values[:1].expand(logit_shape)
    if case.labels == "indices":
        lowest = BACKGROUND if case.has_background else 0
        labels = torch.randint(lowest, case.num_classes, sample_shape, generator=generator)
        if lowest <= case.ignore_index < case.num_classes and not case.has_ignored:
            labels[labels == case.ignore_index] = case.num_classes - 1  # not meant to be ignored
        if case.has_ignored:
            labels[torch.rand(sample_shape, generator=generator) < 0.3] = case.ignore_index
            is_ignored = (labels == case.ignore_index).unsqueeze(1)
            if case.layout != "expanded":
                values = values.masked_fill(is_ignored, case.ignored_content)
    elif case.labels == "multi-label":
        labels = torch.rand((num_samples, case.num_classes, *positions), generator=generator) < 0.3
        labels = labels.to(getattr(torch, case.label_type))
    elif case.labels == "soft targets":
        labels = torch.rand((num_samples, case.num_classes, *positions), generator=generator, dtype=torch.float64)
        labels = labels.where(labels < 0.4, 0.0).mul(2.5).to(getattr(torch, case.label_type))
    else:
        labels = torch.randn((num_samples, case.num_classes, *positions), generator=generator, dtype=torch.float64)
        labels = (3 * labels).softmax(1).to(getattr(torch, case.label_type))
    if case.labels == "soft targets" or (case.has_quality and case.labels == "multi-label"):
        labels[:1, :1] = 0  # targets above 0 everywhere are refused
    float_type = getattr(torch, "float32" if case.label_type == "bool" else case.label_type)
    extra = []
    if case.has_quality:
        quality = torch.rand(sample_shape, generator=generator, dtype=torch.float64)
        extra.append(quality.where(quality > 0.1, 0.0).where(quality < 0.9, 1.0).to(float_type))
    if case.wrapper == "distillation":
        extra.append(3 * torch.randn(logit_shape, generator=generator).to(float_type))
    if case.poison is not None and step == case.steps - 2 and values.numel():
        values = values.clone()
        values.view(-1)[torch.randint(values.numel(), (), generator=generator)] = case.poison
    logits = in_layout(values.to(getattr(torch, case.dtype)), case.layout)
    return Batch(logits.requires_grad_(), labels, extra, make_normalizer(case.normalizer))


def in_layout(values: Tensor, layout: str) -> Tensor:
    """The same values, another way in memory."""
    if layout == "channels last":
        return values.movedim(1, -1).contiguous().movedim(-1, 1)
    if layout == "transposed":
        order = list(range(values.dim()))[::-1]
        return values.permute(order).contiguous().permute(order)
    if layout == "strided":
        wide = values.new_full((*values.shape[:-1], 2 * values.shape[-1]), 123.0)
        wide[..., ::2] = values
        return wide[..., ::2]
    if layout == "offset":
        buffer = values.new_full((values.numel() + 3,), 123.0)
        buffer[3:] = values.reshape(-1)
        return buffer[3:].view(values.shape)
    if layout == "expanded":
        return values[:1].contiguous().expand(values.shape)
    return values.contiguous()


def make_normalizer(form: str | None) -> Any:
    if form is None:
        return None
    return {
        "int": 3,
        "float": 2.5,
        "float64": torch.tensor(7.25, dtype=torch.float64),
        "float32": torch.tensor(0.5),
        "int64": torch.tensor(4),
        "one element": torch.tensor([1.5]),
        "differentiable": torch.tensor(1.5, requires_grad=True),
    }[form]


NORMALIZERS = ("int", "float", "float64", "float32", "int64", "one element", "differentiable")
LAYOUTS = ("contiguous", "channels last", "transposed", "strided", "offset", "expanded")
DTYPES = ("float64", "float32", "float16", "bfloat16")


def draw_case(random: Random) -> LossCase:
    """A few legal calls."""
    name = random.choice(list(TESTED))
    tested = TESTED[name]
    shape = draw_shape(random)
    num_classes = shape[1]
    options = {key: draw(random, num_classes) for key, draw in tested.options.items() if random.random() < 0.4}
    if name == "GradientBlockingLoss":
        options["threshold"] = non_negative(random, num_classes)  # has no default
    if tested.counts is not None:
        options[tested.counts] = counts(random, num_classes)
    is_grouped = name == "GroupedSoftmaxLoss"
    wrapper, wrapper_options = None, {}
    if not is_grouped and random.random() < 0.2:
        wrapper = random.choice(["objectness", "distillation"]) if tested.is_softmax else "objectness"
    if wrapper == "distillation":
        draws = {"weight": fraction, "temperature": positive, "power": non_negative}
        wrapper_options = {key: draw(random, 0) for key, draw in draws.items() if random.random() < 0.5}
    labels, label_type = "indices", random.choice(DTYPES)
    if tested.takes_soft and wrapper != "objectness" and random.random() < 0.3:
        labels = "soft"
    elif tested.takes_targets and random.random() < 0.3:
        labels = "soft targets"
    elif not (tested.is_softmax or is_grouped) and random.random() < 0.3:
        labels, label_type = "multi-label", random.choice([*DTYPES, "bool"])
    ignore_index = random.choice([IGNORE, IGNORE, IGNORE, 255, -1, -7, num_classes])
    reduction = random.choice(["mean", "mean", "sum", "none"])
    dtype = random.choice(DTYPES)
    case = LossCase(
        name,
        shape,
        options,
        wrapper,
        wrapper_options,
        labels,
        with_quality=tested.takes_targets and labels != "soft targets" and flag(random, 0),
        label_type=label_type,
        has_ignored=labels == "indices" and flag(random, 0),
        ignore_index=ignore_index,
        ignored_content=random.choice([0.0, 1e4, math.inf, -math.inf, math.nan]),
        reduction=reduction,
        normalizer=random.choice(NORMALIZERS) if reduction != "none" and random.random() < 0.3 else None,
        dtype=dtype,
        layout=random.choice(LAYOUTS),
        scale=random.choice([1.0, 1.0, 5.0, 100.0, 1e4]),
        mode=random.choice(["train", "train", "train", "train", "eval", "no_grad"]),
        steps=random.randint(1, 3),
        upstream=random.choice([1.0, 0.5, 3.0, 1024.0]),
        seed=random.randrange(2**20),
    )
    may_have_background = labels == "indices" and case.takes_background and ignore_index != BACKGROUND
    return replace(case, has_background=may_have_background and flag(random, 0))


def draw_shape(random: Random) -> tuple[int, ...]:
    """Mostly tiny: a wrong formula is wrong there too. Some are large enough for several blocks of a pass."""
    kind = random.random()
    if kind < 0.005:
        return random.choice([(20_000, 5), (3, 4, 150, 130), (9_000, 1), (700, 200)])
    num_samples, num_classes = random.choice([0, 1, 2, 5, 13]), random.choice([1, 2, 3, 4, 7, 20])
    positions = random.choice([(), (), (), (1,), (6,), (3, 4), (2, 0), (2, 1, 3)])
    return (num_samples, num_classes, *positions)


def draw_poisoned(random: Random) -> LossCase:
    """A case with statistics whose last batch but one has a logit that is not finite."""
    while True:
        case = draw_case(random)
        has_samples = math.prod(case.shape) > 0 and case.layout != "expanded"
        if issubclass(case.tested.loss_class, equigrad.EqualizationLoss) and has_samples:
            poison = random.choice([math.inf, -math.inf, math.nan])
            return replace(case, poison=poison, steps=random.randint(2, 4), mode="train", has_ignored=False)


def simpler(case: LossCase) -> list[LossCase]:
    """The case with one thing made smaller or set back to its default, each that is possible."""
    found = []
    num_samples, num_classes, *positions = case.shape
    if positions:
        found.append(_with_shape(case, (num_samples, num_classes)))
        found += [
            _with_shape(case, (*case.shape[:i], case.shape[i] // 2, *case.shape[i + 1 :]))
            for i in range(2, len(case.shape))
            if case.shape[i] > 1
        ]
    if num_samples > 1:
        found.append(_with_shape(case, (num_samples // 2, num_classes, *positions)))
        found.append(_with_shape(case, (num_samples - 1, num_classes, *positions)))
    if num_classes > 1:
        found.append(_with_shape(case, (num_samples, max(1, num_classes // 2), *positions)))
        found.append(_with_shape(case, (num_samples, num_classes - 1, *positions)))
    required = {case.tested.counts, "threshold"}
    for name in case.options:
        if name not in required:
            found.append(replace(case, options={k: v for k, v in case.options.items() if k != name}))
    for name in case.wrapper_options:
        remaining = {k: v for k, v in case.wrapper_options.items() if k != name}
        found.append(replace(case, wrapper_options=remaining))
    if case.steps > (1 if case.poison is None else 2):
        found.append(replace(case, steps=case.steps - 1))
    kept = {"loss", "shape", "options", "wrapper_options", "steps", "misuse", "poison"}
    for f in fields(case):
        if f.name not in kept and getattr(case, f.name) != _default(f):
            found.append(replace(case, **{f.name: _default(f)}))
    return found


def _with_shape(case: LossCase, shape: tuple[int, ...]) -> LossCase:
    """Fewer categories have fewer counts and weights."""
    options = {k: v[: shape[1]] if isinstance(v, list) else v for k, v in case.options.items()}
    return replace(case, shape=shape, options=options)


def _default(f: Any) -> Any:
    return {} if f.name in ("options", "wrapper_options") else f.default


def _source(value: Any) -> str:
    """Text that evaluates to the value, where `repr` of a float does not."""
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value)
