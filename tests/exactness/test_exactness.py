"""Ranks, micro-batches, precision, wrapping and resumption leave statistics and weights as one process has them."""

from itertools import combinations, product

import pytest
from tests.exactness import cells, table
from tests.exactness.matrix import Deviation, measure, relative
from tests.exactness.promises import is_seesaw_in_parts, promise
from tests.exactness.training import BATCH_SIZE, NUM_STEPS, Learner, joined_batch, make_optimizer, train_joined

from equigrad import IGNORE

CELLS = cells.some_cells()


@pytest.fixture(scope="module")
def deviations(tmp_path_factory):
    """How far each cell is from one fp32 process; `python -m tests.exactness` measures all of them."""
    return measure(CELLS, tmp_path_factory.mktemp("exactness"))


@pytest.mark.slow  # the first of them measures
def test_all_ranks_hold_the_same_bits(deviations):
    assert [cell for cell, found in deviations.items() if not found.ranks_agree] == []


@pytest.mark.slow
def test_statistics_are_those_of_one_process_on_the_joined_batches(deviations):
    assert [(c, found) for c, found in deviations.items() if found.statistics > promise(c).statistics] == []


@pytest.mark.slow
def test_weights_are_those_of_one_process_on_the_joined_batches(deviations):
    assert [(c, found) for c, found in deviations.items() if found.weights > promise(c).weights] == []


@pytest.mark.slow
def test_the_counts_of_seesaw_are_exact_even_where_its_weights_are_not(deviations):
    in_parts = [found for cell, found in deviations.items() if is_seesaw_in_parts(cell)]
    assert {found.statistics for found in in_parts} == {0.0}
    assert max(found.weights for found in in_parts) > 1e-3


def test_the_quick_cells_have_every_loss_continuation_and_pair():
    assert {cell.loss for cell in CELLS} == set(cells.LOSSES)
    for mechanism in set(cells.MECHANISMS) - {"torch.compile"}:
        own = [cell for cell in CELLS if cell.mechanism == mechanism]
        axes = {"precision": cells.PRECISIONS, "ranks": cells.RANKS, "accumulate": cells.ACCUMULATE}
        for one, other in combinations(axes, 2):
            pairs = {(getattr(cell, one), getattr(cell, other)) for cell in own}
            assert pairs == set(product(axes[one], axes[other]))
        assert {cell.continuation for cell in own} == set(cells.CONTINUATIONS)


def test_the_parts_of_a_batch_count_different_numbers_of_samples():
    counted = [(joined_batch("SeesawLoss", step).labels != IGNORE).view(8, -1).sum(1) for step in range(NUM_STEPS)]
    assert all(len(part.unique()) > 1 for part in counted)
    assert all(part.sum() < BATCH_SIZE for part in counted)


@pytest.mark.parametrize("loss", cells.LOSSES)
def test_without_its_state_a_loss_trains_other_weights(loss):
    learner = Learner(loss)
    optimizer = make_optimizer(learner)
    for step in range(NUM_STEPS):
        for buffer in learner.buffers():
            buffer.zero_()
        learner(joined_batch(loss, step)).backward()
        optimizer.step()
        optimizer.zero_grad()
    ours, theirs = next(learner.parameters()), train_joined(loss).weights[0]
    assert relative(ours.detach() - theirs, theirs.abs().max()) > 1000 * promise(CELLS[0]).weights


def test_the_page_shows_the_largest_deviation_of_a_group():
    deviations = {cell: Deviation(1e-9, 2e-9, True) for cell in cells.all_cells()}
    deviations[cells.Cell("DDP", "bf16", 2, 4, "resumed", "EqualizedFocalLoss")] = Deviation(0.25, 0.5, False)
    deviations[cells.Cell("FSDP2", "fp32", 1, 2, "plain", "SeesawLoss")] = Deviation(0.0, 0.07, True)
    page = table.with_table("# Exactness\n<!-- measured -->\nA former table.\n<!-- end -->\nMore.\n", deviations)
    assert page.startswith("# Exactness\n")
    assert page.endswith("More.\n")
    assert "former" not in page
    assert "| DDP | bf16 | 2 | 1.0e-09, 2.0e-09 | 1.0e-09, 2.0e-09 | 2.5e-01, 5.0e-01 |" in page
    assert f"- Trainings: {len(deviations)}." in page
    assert f"the same bits: {len(deviations) - 1}." in page
    assert "deviate by up to 7 %" in page
