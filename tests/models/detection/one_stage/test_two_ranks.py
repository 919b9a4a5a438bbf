"""Two real processes that share a batch hold the statistics of one, and average to its losses."""

import pytest
import torch
import torch.distributed as dist
from torch.testing import assert_close

from equigrad import EqualizedFocalLoss, SigmoidScores
from equigrad.models.detection.one_stage.atss import improved_atss
from equigrad.models.detection.one_stage.retinanet import retinanet
from models.small_detectors import NUM_CLASSES, TinyPyramid, batch, randomise
from quick_processes import run_ranks

BUILDERS = {"improved_atss": improved_atss, "retinanet": retinanet}


def run(name, part, steps=2):
    """Losses and statistics after each of some steps on a part of the batch."""
    torch.manual_seed(0)
    model = randomise(BUILDERS[name](TinyPyramid(), NUM_CLASSES, EqualizedFocalLoss(NUM_CLASSES), SigmoidScores()))
    images, targets = batch()
    history = []
    for _ in range(steps):
        losses = model(images[part], targets[part])
        statistics = model.classification_loss.statistics
        history.append(
            (torch.stack(list(losses.values())).detach(), statistics.positive.clone(), statistics.negative.clone())
        )
    return history


def rank_main(rank, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=2)
    # The second rank has an image without objects and one with three, the first one with two.
    part = slice(0, 1) if rank == 0 else slice(1, 3)
    torch.save({name: run(name, part) for name in BUILDERS}, f"{folder}/{rank}.pt")
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    run_ranks(rank_main, folder)
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(2)]


@pytest.mark.parametrize("name", BUILDERS)
def test_two_ranks_equal_one_on_the_joined_batch(ranks, name):
    alone = run(name, slice(None))
    for step, (losses, positive, negative) in enumerate(alone):
        first, second = (rank[name][step] for rank in ranks)
        assert_close((first[0] + second[0]) / 2, losses, rtol=1e-5, atol=1e-6)
        for found in (first, second):
            assert_close(found[1], positive, rtol=1e-5, atol=1e-9)
            assert_close(found[2], negative, rtol=1e-5, atol=1e-9)
