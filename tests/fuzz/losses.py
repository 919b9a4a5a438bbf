"""Random calls of every loss against the plain formula in float64: value, gradient, statistics, refusals.

    python -m tests.fuzz --only losses --cases 1000000 --seed 1

A failure is printed as the smallest case that still fails. To run it again:

    python -c "from tests.fuzz.losses import *; print(check(LossCase(...)))"
"""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import torch
from tests.fuzz.losses_cases import Batch, LossCase, draw_case, draw_poisoned, make_batch, simpler
from tests.fuzz.losses_misuse import MISUSES, illegal_option, spoil
from tests.fuzz.losses_oracle import Expected, category_loss, counts_of, expect
from tests.fuzz.summary import Outcome, Summary
from torch import Tensor

import equigrad

__all__ = ["LossCase", "check", "run", "run_poisoned"]


def run(cases: int, seed: int) -> Summary:
    """Try so many cases; the seed says which. Some must be refused, some have a logit that is not finite."""
    return _run(cases, seed, draw_any)


def run_poisoned(cases: int, seed: int) -> Summary:
    """Try so many cases with a logit that is not finite."""
    return _run(cases, seed, draw_poisoned)


def draw_any(random: Random) -> LossCase:
    kind = random.random()
    if kind < 1 / 8:
        return replace(draw_case(random), misuse=random.choice(MISUSES))
    return draw_poisoned(random) if kind > 0.9 else draw_case(random)


def _run(cases: int, seed: int, draw: Callable[[Random], LossCase]) -> Summary:
    summary = Summary()
    shrunk = set()
    for number in range(cases):
        case = draw(Random(f"{seed} {number}"))
        outcome = check(case)
        summary.cases += 1
        if outcome.is_failure:
            if (case.loss, outcome.verdict) not in shrunk:  # one fault fails many cases, and shrinking takes long
                shrunk.add((case.loss, outcome.verdict))
                case, outcome = shrink(case, outcome)
            summary.failures.append(f"{outcome.verdict}: {outcome.detail}\n{case!r}")
        else:
            summary.right += outcome.verdict == "right"
            summary.refused += outcome.verdict == "refused"
    return summary


def shrink(case: LossCase, outcome: Outcome) -> tuple[LossCase, Outcome]:
    """Make the case simpler as long as the same thing is wrong with it."""
    while True:
        for candidate in simpler(case):
            found = check(candidate)
            if found.verdict == outcome.verdict:
                case, outcome = candidate, found
                break
        else:
            return case, outcome


def check(case: LossCase) -> Outcome:
    """Run a case."""
    try:
        if case.misuse is not None:
            return check_refusal(case)
        if case.poison is not None:
            return check_poisoned(case)
        return check_steps(case)
    except Exception as error:  # any error of a legal call is a finding, and one that is neither kind of refusal
        return Outcome(f"{type(error).__name__} raised", str(error))


def check_steps(case: LossCase) -> Outcome:
    """Every step gives value, gradient and statistics of the plain formula."""
    criterion = case.build().train(case.mode != "eval")
    for step in range(case.steps):
        batch = make_batch(case, step)
        found = compare_call(case, criterion, batch)
        if found:
            return Outcome(found[0], f"in step {step}, {found[1]}")
    return Outcome("right")


def compare_call(case: LossCase, criterion: Any, batch: Batch) -> tuple[str, str] | None:
    """Call the loss; what differs from the plain formula and by how much, if anything."""
    loss = category_loss(criterion)
    expected = expect(case, criterion, batch)
    before = {name: value.clone() for name, value in loss.state_dict().items()}
    with torch.set_grad_enabled(case.mode != "no_grad"):
        value = criterion(batch.logits, batch.labels, *batch.extra, normalizer=batch.normalizer)
    if value.dtype != torch.promote_types(batch.logits.dtype, torch.float32):
        return "dtype of the value", str(value.dtype)
    if value.shape != expected.loss.shape:
        return "shape of the value", str(tuple(value.shape))
    if difference := differs(value, expected.loss, expected.loss_tolerance):
        return "value", difference
    if case.mode == "no_grad":
        return ("value has a graph", "") if value.requires_grad else compare_state(case, loss, before, batch, expected)
    (gradient,) = torch.autograd.grad(value, batch.logits, torch.full_like(value, case.upstream))
    if gradient.dtype != batch.logits.dtype or gradient.shape != batch.logits.shape:
        return "gradient", f"{gradient.dtype} of shape {tuple(gradient.shape)}"
    fits = ~(expected.gradient_as_stored.abs() > 0.99 * torch.finfo(gradient.dtype).max)
    if difference := differs(gradient[fits], expected.gradient[fits], expected.gradient_tolerance[fits]):
        return "gradient", difference
    return compare_state(case, loss, before, batch, expected)


def compare_state(
    case: LossCase, loss: Any, before: dict[str, Tensor], batch: Batch, expected: Expected
) -> tuple[str, str] | None:
    """The state of the loss after a call is that before it and what the call must add."""
    after = loss.state_dict()
    if case.mode != "train":
        changed = [name for name in before if not torch.equal(before[name], after[name])]
        return ("state changes in evaluation", ", ".join(changed)) if changed else None
    if expected.recorded is not None:
        half_life = case.options.get("half_life")
        kept = 1.0 if half_life is None else 0.5 ** (1 / half_life)
        for name, increment in zip(("positive", "negative"), expected.recorded, strict=True):
            name = f"statistics.{name}"
            wanted = kept * before[name] + increment
            tolerance = expected.recorded_tolerance + 1e-14 * before[name]
            if difference := differs(after[name], wanted, tolerance):
                return name, difference
    if isinstance(loss, equigrad.SeesawLoss):
        wanted = before["category_counts"] + counts_of(case, batch)
        if difference := differs(after["category_counts"], wanted, torch.zeros_like(wanted)):
            return "category_counts", difference
    if isinstance(loss, equigrad.LDAMLoss) and after["num_steps"] != before["num_steps"] + 1:
        return "num_steps", str(after["num_steps"])
    return None


def check_poisoned(case: LossCase) -> Outcome:
    """A batch whose gradient sums are not finite leaves no trace but its count; one with a finite limit is added."""
    criterion, spared = case.build(), case.build()
    loss = category_loss(criterion)
    for step in range(case.steps):
        batch = make_batch(case, step)
        arguments = (batch.logits, batch.labels, *batch.extra)
        before = {name: value.clone() for name, value in loss.state_dict().items()}
        if step == case.steps - 2:
            # Infinite logits have a limit, which finite ones reach: exp(-1e6) is 0.
            limit = batch.logits.detach().double().nan_to_num(nan=torch.nan, posinf=1e6, neginf=-1e6)
            expected = expect(case, criterion, batch, limit)
        value = criterion(*arguments, normalizer=batch.normalizer)
        if not all(buffer.isfinite().all() for buffer in loss.state_dict().values()):
            return Outcome("statistics are not finite", f"in step {step}, {loss.state_dict()}")
        num_skipped = int(loss.statistics.skipped - before["statistics.skipped"])
        if step != case.steps - 2:
            twin = spared(*arguments, normalizer=batch.normalizer)
            if num_skipped:
                return Outcome("a finite batch is left out", f"in step {step}")
            if not torch.equal(value, twin) or not same_sums(loss.state_dict(), category_loss(spared).state_dict()):
                return Outcome("a batch that is left out leaves a trace", f"in step {step}")
        elif num_skipped:
            if not same_sums(before, loss.state_dict()):
                return Outcome("a batch that is left out changes the statistics", f"{before} to {loss.state_dict()}")
            if value.isfinite().all():
                return Outcome("a batch with a finite loss is left out", f"value {value}")
        else:
            if found := compare_state(case, loss, before, batch, expected):
                return Outcome(*found)
            spared.load_state_dict(criterion.state_dict())
    return Outcome("right")


def same_sums(state: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return all(torch.equal(state[name], other[name]) for name in ("statistics.positive", "statistics.negative"))


def check_refusal(case: LossCase) -> Outcome:
    """An illegal call raises an error of the contract and changes nothing; what cannot go wrong here must be right."""
    if case.misuse == "option":
        options = illegal_option(case)
        try:
            replace(case, options={**case.options, **options}).build()
        except (ValueError, TypeError):
            return Outcome("refused")
        return Outcome("an illegal option is accepted", str(options))
    criterion = case.build()
    batch = spoil(case, make_batch(case, 0))
    if batch is None:
        return check_steps(replace(case, misuse=None))
    before = {name: value.clone() for name, value in criterion.state_dict().items()}
    try:
        value = criterion(batch.logits, batch.labels, *batch.extra, normalizer=batch.normalizer)
    except (ValueError, TypeError):
        after = criterion.state_dict()
        # Random numbers depend on the number of calls; which of them were refused does not matter.
        changed = [n for n in before if not torch.equal(before[n], after[n]) and not n.endswith("uniform._extra_state")]
        return Outcome("a refused call changes the state", ", ".join(changed)) if changed else Outcome("refused")
    return Outcome("an illegal call is accepted", f"{case.misuse}: {value}")


def differs(found: Tensor, wanted: Tensor, tolerance: Tensor | float) -> str:
    """The worst entry that is off by more than the tolerance, or nothing."""
    found, wanted = found.detach().double(), wanted.detach().double()
    is_off = ~((found - wanted).abs() <= tolerance) & (found != wanted) & ~(found.isnan() & wanted.isnan())
    if not is_off.any():
        return ""
    index = int(is_off.flatten().nonzero()[0])
    allowed = torch.as_tensor(tolerance).expand(found.shape).flatten()[index]
    return f"{found.flatten()[index]:.10g} instead of {wanted.flatten()[index]:.10g}, allowed {allowed:.2g}"
