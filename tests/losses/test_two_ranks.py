"""Two real processes hold what one process would hold on the joined batch."""

from contextlib import contextmanager

import pytest
import torch
import torch.distributed as dist
from torch.testing import assert_close

from conftest import GOLDEN
from equigrad import (
    BACKGROUND,
    IGNORE,
    EqualizedFocalLoss,
    EqualizedQualityFocalLoss,
    EqualizedVarifocalLoss,
    GradientStatistics,
    SigmoidEqualizationLoss,
    SoftmaxEqualizationLoss,
    WithObjectness,
    one_batch,
)
from equigrad.losses import functional
from quick_processes import run_ranks

CASES = {
    "sigmoid_mean": (SigmoidEqualizationLoss, {}, False),
    "sigmoid_sum": (SigmoidEqualizationLoss, {"reduction": "sum"}, False),
    "softmax_mean": (SoftmaxEqualizationLoss, {}, False),
    "efl_normalizer": (EqualizedFocalLoss, {}, True),
    "eqfl_normalizer": (EqualizedQualityFocalLoss, {}, True),
    "eqfl_mean": (EqualizedQualityFocalLoss, {}, False),
    "evfl_normalizer": (EqualizedVarifocalLoss, {"constant_weight": True}, True),
    "evfl_mean": (EqualizedVarifocalLoss, {}, False),
}
# Rows of rank 0 and 1 in each step: unequal, and a rank without any.
ROWS = [(5, 9), (0, 7), (4, 0), (6, 6)]


def batch(step, num_classes=4):
    """The joined batch of a step; all labels of its second row block may be ignored."""
    generator = torch.Generator().manual_seed(step)
    rows = sum(ROWS[step])
    logits = torch.randn(rows, num_classes, generator=generator, dtype=torch.float64)
    labels = torch.randint(num_classes, (rows,), generator=generator)
    labels[1::4] = IGNORE
    return logits, labels, torch.rand(rows, generator=generator, dtype=torch.float64)


def run(case, part, world_size):
    """Train a step after the other on a part (slice) of every joined batch; what the statistics are after each."""
    loss_class, options, has_normalizer = CASES[case]
    criterion = loss_class(4, **options)
    history = []
    for step in range(len(ROWS)):
        logits, labels, quality = batch(step)
        num_positive = max(1, int((labels >= 0).sum()))
        rows = part(step)
        extra = [quality[rows]] if loss_class in (EqualizedQualityFocalLoss, EqualizedVarifocalLoss) else []
        normalizer = num_positive / world_size if has_normalizer else None
        criterion(logits[rows].requires_grad_(), labels[rows], *extra, normalizer=normalizer).backward()
        history.append(torch.stack([criterion.statistics.positive, criterion.statistics.negative]))
    return torch.stack(history)


def run_in_calls(options, part):
    """As `run`, but a step is a call for each label (other rows ignored), all of them one batch."""
    criterion = SigmoidEqualizationLoss(4, half_life=3.0, **options)
    shared = torch.tensor(7.0, dtype=torch.float64)
    sizes, history = [], []
    for step in range(len(ROWS)):
        logits, labels, _ = batch(step)
        logits, labels = logits[part(step)].requires_grad_(), labels[part(step)]
        normalizer = shared / (2 if dist.is_initialized() else 1) if options.get("reduction") == "sum" else None
        with sizes_of_collectives(sizes), one_batch(criterion):
            for category in range(3):
                criterion(logits, labels.masked_fill(labels != category, IGNORE), normalizer=normalizer)
        history.append(torch.stack([criterion.statistics.positive, criterion.statistics.negative]))
    return torch.stack(history), torch.tensor(sizes)


@contextmanager
def sizes_of_collectives(sizes):
    """Append the number of elements of every collective to `sizes`."""
    original = dist.all_reduce

    def counted(values, *arguments, **options):
        sizes.append(values.numel())
        return original(values, *arguments, **options)

    dist.all_reduce = counted
    try:
        yield
    finally:
        dist.all_reduce = original


def run_with_soft_targets(part):
    """Training with soft targets as a dense head has them."""
    criterion = SigmoidEqualizationLoss(4)
    for step in range(len(ROWS)):
        logits, labels, quality = batch(step)
        targets = torch.where(labels.unsqueeze(1) == torch.arange(4), quality.unsqueeze(1), 0.0)
        criterion(logits[part(step)].requires_grad_(), targets[part(step)]).backward()
    return criterion.state_dict()


def run_with_a_bad_batch(part):
    """Training whose second step has an infinite logit in the first row, which is on the first rank."""
    criterion = SoftmaxEqualizationLoss(4)
    for step in (0, 3, 0):
        logits, labels, _ = batch(step)
        if step == 3:
            logits[0] = torch.nan
            labels[0] = 0
        criterion(logits[part(step)].requires_grad_(), labels[part(step)]).backward()
    return criterion.state_dict()


def published(rank):
    """The published two-rank runs by the published rule: each rank divides its own gradient, then all are summed."""
    import json

    results = {}
    case = json.loads((GOLDEN / "sigmoid_eql_two_ranks.json").read_text())
    criterion = WithObjectness(SigmoidEqualizationLoss(case["num_classes"], reduction="sum"))
    for index, step in enumerate(case["ranks"][rank]):
        logits = torch.tensor(step["logits"], dtype=torch.float64)
        logits[:, -1] *= -1
        labels = torch.tensor(step["labels"])
        labels[labels == case["num_classes"]] = BACKGROUND
        loss = criterion(logits.requires_grad_(), labels) / len(labels)
        results[f"sigmoid {index}"] = compared(loss, criterion.loss.statistics, step, case["num_classes"])
    case = json.loads((GOLDEN / "softmax_eql_two_ranks.json").read_text())
    statistics = GradientStatistics(case["num_classes"])
    for index, step in enumerate(case["ranks"][rank]):
        logits = torch.tensor(step["logits"], dtype=torch.float64)
        margin = statistics.positive.clamp(min=1e-4).log()
        loss, sums = functional.cross_entropy(logits, torch.tensor(step["labels"]), margin)
        statistics.update(sums.positive / len(logits), sums.negative / len(logits))
        results[f"softmax {index}"] = compared(loss, statistics, step, case["num_classes"])
    case = json.loads((GOLDEN / "efl_two_ranks.json").read_text())
    criterion = EqualizedFocalLoss(case["num_classes"])
    for index, step in enumerate(case["ranks"][rank]):
        logits = torch.tensor(step["logits"], dtype=torch.float64).requires_grad_()
        labels = torch.tensor(step["labels"])
        labels = torch.where(labels == -1, IGNORE, labels - 1)
        loss = criterion(logits, labels, normalizer=step["normalizer"])
        results[f"efl {index}"] = compared(loss, criterion.statistics, step, case["num_classes"], world_size=2)
    return results


def compared(loss, statistics, step, num_classes, world_size=1):
    """(ours, theirs): the loss and the statistics after the step."""
    ours = torch.cat([loss.detach().reshape(1), world_size * statistics.positive, world_size * statistics.negative])
    theirs = [step["loss"], *step["pos_grad_after"][:num_classes], *step["neg_grad_after"][:num_classes]]
    return ours, torch.tensor(theirs, dtype=torch.float64)


def rank_main(rank, folder):
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=2)

    def part(step):
        first = ROWS[step][0]
        return slice(0, first) if rank == 0 else slice(first, None)

    results = {case: run(case, part, world_size=2) for case in CASES}
    results["published"] = published(rank)
    results["bad batch"] = run_with_a_bad_batch(part)
    results["soft targets"] = run_with_soft_targets(part)
    results["own divisors"], results["sizes"] = run_in_calls({}, part)
    results["shared divisor"], results["shared sizes"] = run_in_calls({"reduction": "sum"}, part)
    torch.save(results, f"{folder}/{rank}.pt")
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    """What each of two gloo processes found."""
    folder = tmp_path_factory.mktemp("ranks")
    run_ranks(rank_main, folder)
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(2)]


@pytest.mark.parametrize("case", CASES)
def test_two_ranks_equal_one_on_the_joined_batch(ranks, case):
    alone = run(case, lambda step: slice(None), world_size=1)
    assert_close(ranks[0][case], alone, rtol=1e-12, atol=1e-14)
    assert_close(ranks[1][case], ranks[0][case], rtol=0, atol=0)


def test_soft_targets_on_two_ranks_are_those_of_the_joined_batch(ranks):
    alone = run_with_soft_targets(lambda step: slice(None))
    assert_close(ranks[0]["soft targets"], alone, rtol=1e-12, atol=1e-14)
    assert_close(ranks[1]["soft targets"], ranks[0]["soft targets"], rtol=0, atol=0)


def test_a_bad_batch_of_one_rank_is_left_out_on_all(ranks):
    alone = run_with_a_bad_batch(lambda step: slice(None))
    assert alone["statistics.skipped"] == 1
    assert_close(ranks[0]["bad batch"], alone, rtol=1e-12, atol=1e-14)
    assert_close(ranks[1]["bad batch"], ranks[0]["bad batch"], rtol=0, atol=0)


@pytest.mark.parametrize(("name", "options"), [("own divisors", {}), ("shared divisor", {"reduction": "sum"})])
def test_the_calls_of_one_batch_are_those_of_the_joined_batch(ranks, name, options):
    alone, sizes = run_in_calls(options, lambda step: slice(None))
    assert_close(ranks[0][name], alone, rtol=1e-12, atol=1e-14)
    assert_close(ranks[1][name], ranks[0][name], rtol=0, atol=0)
    assert sizes.numel() == 0


def test_one_batch_takes_one_collective(ranks):
    assert ranks[0]["sizes"].tolist() == [3 * (2 * 4 + 1)] * len(ROWS)  # a divisor of its own for each of three calls
    assert ranks[0]["shared sizes"].tolist() == [2 * 4 + 1] * len(ROWS)


def test_the_published_two_rank_numbers_are_reproduced(ranks):
    for results in ranks:
        assert len(results["published"]) == 9
        for ours, theirs in results["published"].values():
            assert_close(ours, theirs, rtol=1e-9, atol=1e-12)
