"""A tiny training on generated vectors that uses everything a resumption could get wrong.

Tests run it in this process, or in a child that can be killed.
"""

import json
import os
import random
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from equigrad import SigmoidEqualizationLoss
from equigrad.engine import SGD, Cosine, Ema, Schedule, TrainSettings, Warmup, launch, one_voice, train
from equigrad.sampling import RepeatFactorSampler
from quick_processes import PATIENCE, behave_as_a_program, free_port, quick_context

NUM_SAMPLES, NUM_FEATURES, NUM_CLASSES = 64, 6, 5


def labels() -> list[int]:
    """Long-tailed: 0 is in half of the samples."""
    return [min(NUM_CLASSES - 1, (number & -number).bit_length() - 1) for number in range(1, NUM_SAMPLES + 1)]


class NoisyVectors:
    """Vectors with random augmentation from all three generators."""

    def __init__(self, augment: bool = True) -> None:
        self.vectors = torch.randn(NUM_SAMPLES, NUM_FEATURES, generator=torch.Generator().manual_seed(1))
        self.labels = labels()
        self.augment = augment

    def __len__(self) -> int:
        return NUM_SAMPLES

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        vector = self.vectors[index].clone()
        vector[0] += 3 * self.labels[index]
        if self.augment:
            vector += 0.1 * torch.randn(NUM_FEATURES)
            vector *= 1 + 0.1 * random.random()
            vector += 0.1 * float(np.random.rand())  # noqa: NPY002
        return vector, self.labels[index]


class ToyModel(nn.Module):
    """Two layers; batch norm and dropout if wanted. One loss fades over the epochs. Dies by its own hand."""

    def __init__(
        self,
        *,
        stochastic: bool = True,
        kill_at: int | None = None,
        fail_at: int | None = None,
        seconds: float = 0.0,
    ) -> None:
        super().__init__()
        layers = [nn.BatchNorm1d(8), nn.Dropout(0.2)] if stochastic else []
        self.body = nn.Sequential(nn.Linear(NUM_FEATURES, 8), *layers, nn.ReLU())
        self.classifier = nn.Linear(8, NUM_CLASSES)
        self.criterion = SigmoidEqualizationLoss(NUM_CLASSES)
        self.kill_at, self.fail_at, self.seconds, self.calls = kill_at, fail_at, seconds, 0
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def forward(self, images: Tensor, targets: Tensor) -> dict[str, Tensor]:
        self.calls += 1
        if self.calls == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.calls == self.fail_at:
            raise ValueError("a broken batch")
        if self.seconds:
            time.sleep(self.seconds)
        features = self.body(images)
        return {
            "classification": self.criterion(self.classifier(features), targets),
            "size": 0.01 / (1 + self.epoch) * features.square().mean(),
        }


@dataclass(frozen=True)
class Options:
    folder: Path
    resume: bool = False
    stochastic: bool = True
    epochs: float = 3
    batch_size: int = 8
    accumulate: int = 1
    num_workers: int = 2
    kill_at: int | None = None  # call of the model
    fail_at: int | None = None
    seconds: float = 0.0  # of a step, at least
    settings: dict[str, Any] = field(default_factory=dict)


def run(options: Options) -> int:
    """As the command line does it: exit code 0, or 1 and one line."""
    torch.set_num_threads(1)
    fabric = launch(seed=3, accelerator="cpu")
    model = ToyModel(
        stochastic=options.stochastic, kill_at=options.kill_at, fail_at=options.fail_at, seconds=options.seconds
    )
    sampler = RepeatFactorSampler(labels(), threshold=0.3, seed=5, drop_last=True)
    settings = TrainSettings(
        optimizer=SGD(lr=0.1, weight_decay=1e-4, decay_norm_and_bias=False),
        schedule=Schedule(epochs=options.epochs, decay=Cosine(), warmup=Warmup(5)),
        batch_size=options.batch_size,
        accumulate=options.accumulate,
        num_workers=options.num_workers,
        max_grad_norm=2.0,
        ema=Ema(ramp=10),
        seed=7,
        **{"log_every": 3, "checkpoint_every": 4, **options.settings},
    )
    dataset = NoisyVectors(augment=options.stochastic)
    try:
        with one_voice():
            train(fabric, model, dataset, sampler, settings, options.folder, resume=options.resume)
    except ValueError as error:  # EngineError is one
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def start(options: Options, output: Path, environment: dict[str, str] | None = None) -> Any:
    """The training in a child process of its own group, which writes to a file."""
    child = quick_context().Process(target=_run_in_child, args=(options, output, environment or {}))
    child.start()
    return child


def finish(options: Options, output: Path) -> int:
    """Exit code of the training in a child process."""
    child = start(options, output)
    child.join(PATIENCE)
    assert child.exitcode is not None, f"still running: {output.read_text()}"
    return child.exitcode


def start_ranks(options: list[Options], output: Path, **environment: str) -> list[Any]:
    """One child for each rank, as torchrun starts them, with options of its own."""
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(len(options))}
    common |= {"LOCAL_WORLD_SIZE": str(len(options)), **environment}
    ranks = [{"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(len(options))]
    return [start(own, output, common | rank) for own, rank in zip(options, ranks, strict=True)]


def _run_in_child(options: Options, output: Path, environment: dict[str, str]) -> None:
    os.setpgid(0, 0)
    os.environ.update(environment)
    behave_as_a_program(output)
    sys.exit(run(options))


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """Lines of the log without the times, which differ from run to run."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in line.items() if "seconds" not in name} for line in lines]


def assert_identical(actual: Any, expected: Any, path: str = "") -> None:
    """Bit for bit, through dictionaries, lists and tensors."""
    assert type(actual) is type(expected), path
    if isinstance(expected, dict):
        assert actual.keys() == expected.keys(), path
        for key in expected:
            assert_identical(actual[key], expected[key], f"{path}/{key}")
    elif isinstance(expected, list | tuple):
        assert len(actual) == len(expected), path
        for number, (one, other) in enumerate(zip(actual, expected, strict=True)):
            assert_identical(one, other, f"{path}/{number}")
    elif isinstance(expected, Tensor):
        assert torch.equal(actual, expected), path
    else:
        assert actual == expected, path
