"""A small training, joined in one process or over ranks and micro-batches as a user would write it."""

import contextlib
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch._dynamo
import torch.distributed as dist
from tests.exactness.cells import RANKS, Cell
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

import equigrad
from equigrad import BACKGROUND, IGNORE

NUM_CLASSES = 7
NUM_FEATURES = 8
BATCH_SIZE = 16
NUM_STEPS = 5
AUTOCAST = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}


class Batch(NamedTuple):
    """The joined batch of a step."""

    features: Tensor  # (16, 8)
    labels: Tensor  # (16,)
    quality: Tensor  # (16,)

    def part(self, rows: slice) -> "Batch":
        return Batch(*(tensor[rows] for tensor in self))


def joined_batch(loss: str, step: int) -> Batch:
    """Long-tailed labels; so many are ignored that parts of the batch count different numbers of samples."""
    generator = torch.Generator().manual_seed(step)
    features = torch.randn(BATCH_SIZE, NUM_FEATURES, generator=generator)
    chance = 0.6 ** torch.arange(NUM_CLASSES).double()
    labels = torch.multinomial(chance, BATCH_SIZE, replacement=True, generator=generator)
    kind = torch.rand(BATCH_SIZE, generator=generator)
    if loss not in ("SoftmaxEqualizationLoss", "SeesawLoss"):
        labels[kind > 0.8] = BACKGROUND
    labels[kind < 0.3] = IGNORE
    return Batch(features, labels, torch.rand(BATCH_SIZE, generator=generator))


class Learner(nn.Module):
    """Two layers and the loss, in one module: that is what a checkpoint saves and a compiler sees."""

    def __init__(self, loss: str, checkpointed: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Linear(NUM_FEATURES, 12), nn.Tanh(), nn.Linear(12, NUM_CLASSES))
        self.criterion = getattr(equigrad, loss)(NUM_CLASSES)
        self.checkpointed = checkpointed

    def forward(self, batch: Batch, normalizer: Tensor | None = None) -> Tensor:
        if self.checkpointed:
            return checkpoint(self.loss, batch, normalizer, use_reentrant=False)
        return self.loss(batch, normalizer)

    def loss(self, batch: Batch, normalizer: Tensor | None) -> Tensor:
        takes_quality = isinstance(self.criterion, equigrad.EqualizedQualityFocalLoss | equigrad.EqualizedVarifocalLoss)
        extra = [batch.quality] if takes_quality else []
        return self.criterion(self.layers(batch.features), batch.labels, *extra, normalizer=normalizer)


class Outcome(NamedTuple):
    """What a training ends with."""

    statistics: Tensor  # (2, C), or (1, C) counts
    weights: list[Tensor]


def train_joined(loss: str) -> Outcome:
    """One fp32 process on the joined batches, in the plainest loop: what every cell is compared with."""
    learner = Learner(loss)
    optimizer = make_optimizer(learner)
    for step in range(NUM_STEPS):
        learner(joined_batch(loss, step)).backward()
        optimizer.step()
        optimizer.zero_grad()
    return Outcome(statistics_of(learner), [parameter.detach() for parameter in learner.parameters()])


def make_optimizer(learner: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(learner.parameters(), lr=0.1, momentum=0.9)


def statistics_of(learner: Learner) -> Tensor:
    if isinstance(learner.criterion, equigrad.SeesawLoss):
        return learner.criterion.category_counts.clone().unsqueeze(0)
    statistics = learner.criterion.statistics
    assert statistics.skipped == 0
    return torch.stack([statistics.positive, statistics.negative])


class Training:
    """A rank of a cell."""

    def __init__(self, cell: Cell) -> None:
        self.cell = cell
        self.learner = Learner(cell.loss, checkpointed=cell.mechanism == "activation checkpointing")
        self.model = wrap(self.learner, cell.mechanism)
        self.optimizer = make_optimizer(self.learner)
        # A scale at which no gradient overflows: a step that the scaler leaves out has no like in fp32.
        self.scaler = torch.amp.GradScaler("cpu", init_scale=256.0, enabled=cell.precision == "fp16")

    def run(self, steps: range) -> None:
        for step in steps:
            self.train_step(joined_batch(self.cell.loss, step))

    def train_step(self, batch: Batch) -> None:
        """One optimiser step, exactly that of the joined batch.

        Ranks average their gradients, and micro-batches add theirs. So every call divides by the same number: the
        samples that count in the whole step, over the ranks.
        """
        parts = self.own_parts(batch)
        num_counted = sum((part.labels != IGNORE).sum() for part in parts).double()
        dist.all_reduce(num_counted)
        normalizer = num_counted / dist.get_world_size()
        dtype = AUTOCAST[self.cell.precision]
        with equigrad.one_batch(self.learner):
            for number, part in enumerate(parts):
                with self.synchronized(number == len(parts) - 1):
                    with torch.autocast("cpu", dtype, enabled=dtype is not None):
                        loss = self.model(part, normalizer)
                    self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()

    def own_parts(self, batch: Batch) -> list[Batch]:
        """The micro-batches of this rank."""
        size = BATCH_SIZE // dist.get_world_size() // self.cell.accumulate
        first = dist.get_rank() * self.cell.accumulate
        return [batch.part(slice(n * size, (n + 1) * size)) for n in range(first, first + self.cell.accumulate)]

    @contextlib.contextmanager
    def synchronized(self, is_last: bool) -> Iterator[None]:
        """Gradients meet in the last micro-batch only."""
        if isinstance(self.model, FSDPModule):
            self.model.set_requires_gradient_sync(is_last)
            yield
        else:
            with contextlib.nullcontext() if is_last else self.model.no_sync():
                yield

    def save(self, path: Path) -> None:
        """What any number of ranks can go on from."""
        options = StateDictOptions(full_state_dict=True, cpu_offload=True)
        model, optimizer = get_state_dict(self.learner, self.optimizer, options=options)
        if dist.get_rank() == 0:
            torch.save({"model": model, "optimizer": optimizer, "scaler": self.scaler.state_dict()}, path)
        dist.barrier()

    def load(self, path: Path) -> None:
        state = torch.load(path, weights_only=True)
        set_state_dict(
            self.learner,
            self.optimizer,
            model_state_dict=state["model"],
            optim_state_dict=state["optimizer"],
            options=StateDictOptions(full_state_dict=True),
        )
        self.scaler.load_state_dict(state["scaler"])

    def outcome(self) -> Outcome:
        weights = [p.full_tensor() if hasattr(p, "full_tensor") else p for p in self.learner.parameters()]
        return Outcome(statistics_of(self.learner), [weight.detach().clone() for weight in weights])


def wrap(learner: Learner, mechanism: str) -> Any:
    """The model as the training calls it."""
    if mechanism == "FSDP2":
        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        fully_shard(learner.layers[0], mesh=mesh)
        return fully_shard(learner, mesh=mesh)
    if mechanism == "torch.compile":
        # Every loss and precision is compiled once, too many for the limit above which a model runs as it is.
        torch._dynamo.config.recompile_limit = 100
        torch._dynamo.config.fail_on_recompile_limit_hit = True
        return DistributedDataParallel(torch.compile(learner, backend="aot_eager", dynamic=True))
    return DistributedDataParallel(learner)


def interruption_of(cell: Cell) -> int:
    """After how many steps a cell is interrupted: any, but always the same."""
    return random.Random(repr(cell)).randrange(1, NUM_STEPS)


def train_cells(rank: int, cells: list[Cell], folder: Path) -> None:
    """Run all cells, those of one number of ranks after the other; a rank takes part where its number is small enough.

    Trainings begin in a first turn. Those that change their number of ranks go on in a second.
    """
    torch.set_num_threads(1)
    outcomes = {}
    for turn in (1, 2):
        for world_size in RANKS:
            if rank < world_size:
                rendezvous = f"file://{folder}/rendezvous_{turn}_{world_size}"
                dist.init_process_group("gloo", init_method=rendezvous, rank=rank, world_size=world_size)
                for number, cell in enumerate(cells):
                    outcome = train_cell(cell, turn, folder / f"cell_{number}.pt")
                    if outcome is not None:
                        outcomes[number] = tuple(outcome)
                dist.destroy_process_group()
    torch.save(outcomes, folder / f"rank_{rank}.pt")


def train_cell(cell: Cell, turn: int, path: Path) -> Outcome | None:
    """The share of the present process group in a cell; what the cell ends with, if it ends here."""
    world_size, interruption = dist.get_world_size(), interruption_of(cell)
    changes_ranks = cell.last_ranks != cell.ranks
    if turn == 1 and cell.ranks == world_size:
        training = Training(cell)
        if cell.continuation == "plain":
            training.run(range(NUM_STEPS))
            return training.outcome()
        training.run(range(interruption))
        training.save(path)
        if changes_ranks:
            return None
    elif not (turn == 2 and changes_ranks and cell.last_ranks == world_size):
        return None
    training = Training(cell)
    training.load(path)
    training.run(range(interruption, NUM_STEPS))
    return training.outcome()
