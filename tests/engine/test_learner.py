import copy
import os
import socket
from contextlib import nullcontext

import pytest
import torch
import torch.distributed as dist
from torch import nn

from equigrad.engine import SGD, Ema, EngineError, Schedule, TrainSettings, launch
from equigrad.engine.distributed import gather_objects
from equigrad.engine.learner import Learner, sum_of
from equigrad.engine.optimizers import freeze
from quick_processes import run_ranks


def settings(**changes):
    return TrainSettings(**{"optimizer": SGD(0.1), "schedule": Schedule(epochs=1), "batch_size": 8, **changes})


class Small(nn.Module):
    """A body with batch norm and dropout, and a head."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout(0.5))
        self.head = nn.Linear(4, 2)

    def forward(self, images, targets):
        return {"loss": nn.functional.cross_entropy(self.head(self.body(images).mean((2, 3))), targets)}


def trained_step(learner, lr_factor=1.0):
    """One step on random images."""
    images, targets = learner.to_device((torch.randn(4, 3, 5, 5), torch.tensor([0, 1, 0, 1])))
    learner.fabric.backward(sum_of(learner.wrapped(images, targets)))
    learner.step(lr_factor)


def modes(model):
    return {name: module.training for name, module in model.named_modules()}


def test_frozen_parts_are_in_evaluation_mode_before_and_after_an_evaluation(fabric):
    learner = Learner(fabric, Small(), settings(frozen=("body",)))
    expected = {"": True, "body": False, "body.0": False, "body.1": False, "body.2": False, "head": True}
    assert modes(learner.model) == expected
    with learner.evaluating() as model:
        assert model is learner.model
        assert not any(modes(model).values())
    assert modes(learner.model) == expected


def test_a_failed_evaluation_leaves_the_model_in_training_mode(fabric):
    learner = Learner(fabric, Small(), settings())
    with pytest.raises(RuntimeError, match="out of memory"), learner.evaluating():
        raise RuntimeError("out of memory")
    assert all(modes(learner.model).values())


def test_the_averaged_model_is_evaluated_and_the_trained_one_stays_in_its_mode(fabric):
    learner = Learner(fabric, Small(), settings(ema=Ema(decay=0.5, ramp=1e-9)))  # no ramp: the decay is 0.5 at once
    before = learner.model.head.weight.clone()
    trained_step(learner)
    with learner.evaluating() as model:
        assert model is not learner.model
        assert not any(modes(model).values())
        assert all(modes(learner.model).values())
        torch.testing.assert_close(model.head.weight, (before + learner.model.head.weight) / 2)
    assert not torch.equal(before, learner.model.head.weight)


def test_channels_last_is_the_layout_of_weights_and_images_but_not_of_other_inputs(fabric):
    images, targets = torch.randn(2, 3, 5, 5), torch.tensor([0, 1])
    plain, other = Learner(fabric, Small(), settings()), Learner(fabric, Small(), settings(channels_last=True))
    weights = [learner.model.body[0].weight for learner in (plain, other)]
    assert [weight.is_contiguous(memory_format=torch.channels_last) for weight in weights] == [False, True]
    assert other.to_device((images, targets))[0].is_contiguous(memory_format=torch.channels_last)
    assert plain.to_device((images, targets))[0] is images
    assert other.to_device((images, targets))[1] is targets
    lists = [torch.randn(3, 5, 5)]  # images of several sizes
    assert other.to_device((lists, targets))[0] is lists


def test_the_rate_of_a_step_is_the_base_rate_times_the_factor(fabric):
    learner = Learner(fabric, Small(), settings(optimizer=SGD(0.5)))
    trained_step(learner, lr_factor=0.1)
    assert learner.lr == pytest.approx(0.05)
    assert all(parameter.grad is None for parameter in learner.model.parameters())


def test_the_norm_of_the_gradient_is_known_only_where_it_is_clipped(fabric):
    plain, clipped = (Learner(fabric, Small(), settings(max_grad_norm=norm)) for norm in (None, 1e-3))
    for learner in (plain, clipped):
        trained_step(learner)
    assert plain.grad_norm is None
    assert clipped.grad_norm > 1e-3  # before it was clipped


def test_a_parameter_that_is_not_finite_is_named(fabric):
    learner = Learner(fabric, Small(), settings())
    assert learner.broken_parameter() is None
    learner.model.head.bias.data[1] = torch.inf
    assert learner.broken_parameter() == "head.bias"


def test_a_learner_with_the_state_of_another_takes_the_same_step(fabric):
    options = settings(ema=Ema(), optimizer=SGD(0.1, momentum=0.9))
    first, second = Learner(fabric, Small(), options), Learner(fabric, Small(), options)
    trained_step(first)
    second.load_state_dict(copy.deepcopy(first.state_dict()))  # as from a file: nothing is shared
    for learner in (first, second):
        torch.manual_seed(3)
        trained_step(learner)
    torch.testing.assert_close(second.model.state_dict(), first.model.state_dict(), rtol=0, atol=0)
    torch.testing.assert_close(second.average.state_dict(), first.average.state_dict(), rtol=0, atol=0)


def test_averaging_that_begins_at_a_resumption_starts_from_the_weights(fabric):
    first, second = Learner(fabric, Small(), settings()), Learner(fabric, Small(), settings(ema=Ema()))
    trained_step(first)
    second.load_state_dict(first.state_dict())
    assert second.average.updates == 0
    torch.testing.assert_close(second.average.model.state_dict(), first.model.state_dict(), rtol=0, atol=0)


def test_the_state_of_another_model_is_refused_in_one_line(fabric):
    state = Learner(fabric, Small(), settings()).state_dict()
    other = nn.Sequential(nn.Linear(2, 2))
    with pytest.raises(
        EngineError, match=r"^the checkpoint is that of another model or optimiser: .*head.weight"
    ) as caught:
        Learner(fabric, other, settings()).load_state_dict(state)
    assert "\n" not in str(caught.value)


def test_losses_are_summed_and_anything_but_a_dictionary_of_them_is_refused():
    assert sum_of({"classes": torch.tensor(1.5), "boxes": torch.tensor(2.0)}).item() == 3.5
    for wrong in ({}, [torch.tensor(1.0)], torch.tensor(1.0)):
        with pytest.raises(TypeError, match=f"must give a dictionary of losses, got {type(wrong).__name__}"):
            sum_of(wrong)


def test_one_process_has_no_one_to_exchange_gradients_with(fabric):
    learner = Learner(fabric, Small(), settings())
    assert all(isinstance(learner.gradient_exchange(is_last), nullcontext) for is_last in (False, True))


class Counted(nn.Module):
    """A weighted sum of the images over the normalizer, or over the images that count."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(1, 1, bias=False)

    def num_counted(self, targets):
        return len(targets["labels"])

    def forward(self, images, targets):
        return {"loss": self.layer(images).sum() / targets.get("normalizer", self.num_counted(targets))}


def part(*images):
    return torch.tensor(images).view(-1, 1), {"labels": torch.zeros(len(images))}


def test_micro_batches_of_unequal_size_share_a_normalizer(fabric):
    learner = Learner(fabric, Counted(), settings())
    assert learner.shared_normalizer([part(1.0, 2.0)]) == {}  # one part is divided by what it has
    parts = [part(1.0, 2.0, 3.0), part(10.0)]
    normalizer = learner.shared_normalizer(parts)
    for images, targets in parts:
        (sum_of(learner.wrapped(images, {**targets, **normalizer})) / len(parts)).backward()
    assert learner.model.layer.weight.grad.item() == 16 / 4


def test_models_that_count_nothing_get_no_normalizer(fabric):
    assert Learner(fabric, Small(), settings()).shared_normalizer([part(1.0), part(1.0)]) == {}


def join_ranks(rank, port):
    """Join the other rank, from a process of its own."""
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "NODE_RANK": "0"}
    os.environ |= {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.set_num_threads(1)
    return launch(accelerator="cpu")


def run_two_ranks(function, *arguments):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    run_ranks(function, port, *arguments)


def exchange_gradients(rank, port):
    fabric = join_ranks(rank, port)
    learner = Learner(fabric, nn.Linear(1, 1, bias=False), settings())
    own = torch.tensor([[rank + 1.0]])  # the gradient of the weight on this rank
    for is_last, expected in [(False, rank + 1.0), (True, (2 * 1 + 2 * 2) / 2)]:
        with learner.gradient_exchange(is_last):
            learner.fabric.backward(learner.wrapped(own).sum())
        assert learner.model.weight.grad.item() == expected
    # The mean of unequal parts is that of all samples.
    learner = Learner(fabric, Counted(), settings())
    images, targets = part(1.0, 2.0, 3.0) if rank == 0 else part(10.0)
    normalizer = learner.shared_normalizer([(images, targets)])
    fabric.backward(sum_of(learner.wrapped(images, {**targets, **normalizer})))
    assert learner.model.layer.weight.grad.item() == 16 / 4
    dist.destroy_process_group()


def test_two_ranks_exchange_gradients_with_the_last_micro_batch_and_share_the_normalizer():
    run_two_ranks(exchange_gradients)


def evaluate_after_batches_of_its_own(rank, port, ema):
    fabric = join_ranks(rank, port)
    learner = Learner(fabric, nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)), settings(ema=ema))
    torch.manual_seed(rank)
    for _ in range(2):
        fabric.backward(learner.wrapped(torch.randn(8, 3)).square().mean())
        learner.step(1.0)
    with learner.evaluating() as evaluated:
        first, second = gather_objects(evaluated[1].running_mean.tolist())
    assert first == second
    dist.destroy_process_group()


@pytest.mark.parametrize("ema", [None, Ema()])
def test_two_ranks_evaluate_the_batch_statistics_that_a_checkpoint_holds(ema):
    run_two_ranks(evaluate_after_batches_of_its_own, ema)


def average_after_batches_of_its_own(rank, port, ema):
    fabric = join_ranks(rank, port)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    learner = Learner(fabric, model, settings(ema=ema, average_batch_norm=True))
    torch.manual_seed(rank)
    for _ in range(2):
        fabric.backward(learner.wrapped(torch.randn(8, 3)).square().mean())
        learner.step(1.0)
    kept = learner.model if ema is None else learner.average.model
    own = gather_objects((kept[1].running_mean.tolist(), kept[1].running_var.tolist()))
    assert own[0] != own[1]
    with learner.evaluating() as evaluated:
        torch.testing.assert_close(evaluated[1].running_mean, torch.tensor([one[0] for one in own]).mean(0))
        torch.testing.assert_close(evaluated[1].running_var, torch.tensor([one[1] for one in own]).mean(0))
    dist.destroy_process_group()


@pytest.mark.parametrize("ema", [None, Ema()])
def test_two_ranks_with_batch_norms_of_their_own_evaluate_the_average(ema):
    run_two_ranks(average_after_batches_of_its_own, ema)


def test_a_model_whose_batch_norms_became_synchronised_has_its_names_and_can_be_frozen():
    model = nn.SyncBatchNorm.convert_sync_batchnorm(Small())
    assert isinstance(model.body[1], nn.SyncBatchNorm)
    assert model.state_dict().keys() == Small().state_dict().keys()
    assert model.body[1] in freeze(model, ("body.1",))


def test_a_fused_optimiser_with_clipped_fp16_gradients_is_refused():
    fused = settings(optimizer=SGD(0.1, fused=True), max_grad_norm=1.0)
    with pytest.raises(EngineError, match=r"fused optimiser .* use precision=bf16, training.optimizer.fused=false"):
        Learner(launch(accelerator="cpu", precision="fp16"), Small(), fused)
    Learner(launch(accelerator="cpu", precision="bf16"), Small(), fused)
