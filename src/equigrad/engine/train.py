"""The training loop. It knows of a model only that `model(images, targets)` gives a dictionary of losses.

    fabric = launch(seed=0)                                   # before anything random or rank aware is built
    result = train(fabric, model, dataset, sampler, settings, Path("runs/first"))

A run may be stopped at any step, by SIGTERM, Ctrl-C, `kill -9` or a power cut, and continued with `resume=True` from
its last checkpoint. On the CPU it then ends with the same weights, bit for bit, as if it had never stopped.
"""

import shlex
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.utils.data import default_collate

from equigrad.engine import random_state
from equigrad.engine.checkpoint import checkpoint_files, latest_checkpoint, load_checkpoint, save_checkpoint
from equigrad.engine.distributed import any_rank, from_first_rank, gather_objects, mean_over_ranks
from equigrad.engine.errors import EngineError, one_line
from equigrad.engine.learner import Learner
from equigrad.engine.loading import Batch, Collate, EpochAware, ResumableSampler, StepLoader, index_name
from equigrad.engine.loss_watch import LossWatch
from equigrad.engine.optimizers import set_learning_rate
from equigrad.engine.progress import PlainProgress, make_progress
from equigrad.engine.run_log import RunLog, check_run_folder, default_command, write_recipe
from equigrad.engine.settings import TrainSettings
from equigrad.engine.signals import StopRequest
from equigrad.engine.statistics_history import find_statistics, tail_and_head_ratio

if TYPE_CHECKING:
    from lightning.fabric import Fabric

Evaluate = Callable[[nn.Module, int], dict[str, float]]

# Looking at a number makes an accelerator wait; on the CPU it costs nothing.
_CHECK_EVERY_ON_ACCELERATOR = 10
_NUM_SNAPSHOTS = 50


@dataclass(frozen=True)
class TrainResult:
    """How a training ended."""

    step: int
    total_steps: int
    interrupted: bool  # by a signal; `resume=True` goes on
    skipped: dict[str, int]  # samples this rank could not read, and how often
    evaluation: dict[str, float]  # the last one


def train(
    fabric: "Fabric",
    model: nn.Module,
    dataset: Any,
    sampler: ResumableSampler,
    settings: TrainSettings,
    run_folder: Path,
    *,
    resume: bool = False,
    collate: Collate = default_collate,
    sample_name: Callable[[int], str] = index_name,
    evaluate: Evaluate | None = None,
    recipe: Mapping[str, Any] | None = None,
    command: Sequence[str] | None = None,
) -> TrainResult:
    """Train a model, from the beginning or from the run's last checkpoint.

    Args:
        fabric: from `launch`.
        model: `model(images, targets)` gives a dictionary of losses, whose sum is minimised. Changed in place. If it
            is `EpochAware`, it is told the epoch.
        dataset: `dataset[index]` gives one item. It draws random numbers from `random`, `numpy.random` or `torch`.
        sampler: order of the indices, seeded and resumable, built for this rank after `launch`.
        settings: how to train.
        run_folder: new or empty, unless resumed.
        resume: go on from the last checkpoint; without any, from the beginning.
        collate: from a list of items to `(images, targets)`.
        sample_name: from an index to what messages call the sample, as a rule its file.
        evaluate: called on every rank with the model in evaluation mode (the averaged one, if kept) and the step.
        recipe: what `recipe.json` says besides the settings.
        command: how the run was started, for `recipe.json` and for the line how to resume.

    Raises:
        EngineError: one clear line about data, folder, checkpoint or a loss that is not finite.
    """
    _on_first_rank(fabric, lambda: check_run_folder(run_folder, resume))
    loader = _make_loader(fabric, dataset, sampler, settings, collate, sample_name)
    learner = Learner(fabric, model, settings)
    training = Training(fabric, learner, loader, settings, run_folder, sample_name, evaluate)
    command = list(command) if command is not None else default_command()
    try:
        training.start(resume, recipe or {}, command)
        return training.run(command)
    finally:
        training.close()


class Training:
    """One training: its parts, where it is, and the loop. `train` builds it."""

    def __init__(
        self,
        fabric: "Fabric",
        learner: Learner,
        loader: StepLoader,
        settings: TrainSettings,
        run_folder: Path,
        sample_name: Callable[[int], str],
        evaluate: Evaluate | None,
    ) -> None:
        self.fabric, self.learner, self.loader, self.settings = fabric, learner, loader, settings
        self.run_folder, self.sample_name, self.evaluate = run_folder, sample_name, evaluate
        self.steps_per_epoch = loader.steps_per_epoch()
        self.total = settings.schedule.total_steps(self.steps_per_epoch)
        self.check_every = 1 if fabric.device.type == "cpu" else _CHECK_EVERY_ON_ACCELERATOR
        self.checkpoint_every = settings.checkpoint_every or self.steps_per_epoch
        self.statistics_every = settings.statistics_every or max(self.total // _NUM_SNAPSHOTS, 1)

        self.step = 0  # optimiser steps done
        self.epoch = 0
        self.position = 0  # samples of the epoch that all ranks together have trained on
        self.watch = LossWatch()
        self.skipped: Counter[str] = Counter()
        self.evaluation: dict[str, float] = {}
        self.owes_evaluation = False

        self.log: RunLog | None = None  # on the first rank
        self.progress = PlainProgress(self.total, is_silent=not fabric.is_global_zero)
        self._timer = _Timer()

    def start(self, resume: bool, recipe: Mapping[str, Any], command: Sequence[str]) -> None:
        """Open the run folder and, if asked, go to the last checkpoint."""
        random_state.seed_all(random_state.mixed_seed(self.settings.seed, self.fabric.global_rank))
        if resume:
            self._resume()
        if self.fabric.is_global_zero:
            self.run_folder.mkdir(parents=True, exist_ok=True)
            write_recipe(self.run_folder, self.settings, recipe, command, self.step)
            self.log = RunLog(self.run_folder, self.step)
            if self.step == 0:
                self.log.snapshot(0, self.learner.model)
        self.progress = make_progress(self.total, self.step, is_first_rank=self.fabric.is_global_zero)

    def run(self, command: Sequence[str]) -> TrainResult:
        """Train to the end, or until a signal comes."""
        with StopRequest() as stop:
            interrupted = self._run_epochs(stop)
        if interrupted:
            resumption = shlex.join([*command, *([] if "--resume" in command else ["--resume"])])
            self.progress.say(f"stopped at step {self.step} of {self.total}; to go on: {resumption}")
        if self.skipped:
            self.progress.say(f"skipped {sum(self.skipped.values())} times: {_counted(self.skipped)}")
        return TrainResult(self.step, self.total, interrupted, dict(self.skipped), self.evaluation)

    def close(self) -> None:
        """Finish display and files."""
        self.progress.close()
        if self.log is not None:
            self.log.close()

    def _run_epochs(self, stop: StopRequest) -> bool:
        """Whether the run was interrupted."""
        if self.owes_evaluation:
            self._pay_evaluation()
        while self.step < self.total:
            if isinstance(self.learner.model, EpochAware):
                self.learner.model.set_epoch(self.epoch)
            self._timer.start()
            for batches, position in self.loader.epoch(self.epoch, self.position):
                self._timer.data_arrived()
                interrupted = self._train_step(batches, position, stop)
                self._timer.step_done()
                self._after_step(interrupted)
                if interrupted or self.step == self.total:
                    return interrupted and (self.step < self.total or self.owes_evaluation)
                self._timer.start()
            self.epoch, self.position = self.epoch + 1, 0
        return False

    def _train_step(self, batches: list[Batch], position: int, stop: StopRequest) -> bool:
        """One optimiser step; whether the run should stop after it."""
        for number, batch in enumerate(batches, start=1):
            losses = self.learner.backward(batch.data, len(batches), is_last=number == len(batches))
            self.watch.add(self.step + 1, losses, batch.samples)
            self._count_skipped(batch)
        should_stop = self._check(stop)
        self.learner.step(self._lr_factor(self.step))
        self.step, self.position = self.step + 1, position
        return should_stop

    def _check(self, stop: StopRequest) -> bool:
        """Between gradients and their use: refuse losses that are not finite; whether any rank was told to stop.

        Ranks agree on both here, so none waits for one that is gone. On an accelerator only every few steps, and always
        before a checkpoint, which must be a good one.
        """
        step = self.step + 1
        if step % self.check_every and not self._is_due(step, self.checkpoint_every):
            return False
        alarm = self.watch.alarm(self.sample_name)
        is_broken, should_stop = any_rank(self.fabric, alarm is not None, stop.is_set)
        if is_broken:
            alarms = [text for text in gather_objects(self.fabric, alarm) if text]
            raise EngineError(f"{alarms[0]}; {self._last_checkpoint()}")
        return should_stop

    def _after_step(self, interrupted: bool) -> None:
        self.progress.advance(self.step)
        evaluates = self._is_due(self.step, self.settings.evaluate_every * self.steps_per_epoch)
        # A scheduler that sent a signal does not wait for an evaluation: it follows after resuming, with its log line.
        self.owes_evaluation = evaluates and interrupted and self.evaluate is not None
        if not self.owes_evaluation:
            self._evaluate_and_log(evaluates)
        if self.log is not None and self._is_due(self.step, self.statistics_every):
            self.log.snapshot(self.step, self.learner.model)
        if interrupted or self._is_due(self.step, self.checkpoint_every):
            self._save()

    def _is_due(self, step: int, every: int) -> bool:
        return step % every == 0 or step == self.total

    def _evaluate_and_log(self, evaluates: bool) -> None:
        if evaluates and self.evaluate is not None:
            # Evaluating or not must not change the training.
            with random_state.preserved(), torch.no_grad(), self.learner.evaluating() as model:
                self.evaluation = {name: float(value) for name, value in self.evaluate(model, self.step).items()}
            self._log({"evaluation": self.evaluation})
        elif self._is_due(self.step, self.settings.log_every):
            self._log({})

    def _pay_evaluation(self) -> None:
        self.owes_evaluation = False
        set_learning_rate(self.learner.optimizer, self._lr_factor(self.step - 1))  # for the log
        self._evaluate_and_log(evaluates=True)
        self._save()

    def _lr_factor(self, step: int) -> float:
        return self.settings.schedule.factor(step, self.steps_per_epoch, self.total)

    def _log(self, evaluation: dict[str, dict[str, float]]) -> None:
        num_skipped = float(sum(self.skipped.values())) * self.fabric.world_size
        means = mean_over_ranks(self.fabric, {**self.watch.means(), "skipped": num_skipped})
        skipped = round(means.pop("skipped"))
        values: dict[str, Any] = {
            "step": self.step,
            "epoch": round(self.step / self.steps_per_epoch, 4),
            "loss": sum(means.values()),
            "losses": means,
            "lr": self.learner.lr,
            **self._timer.per_step(),
            "skipped": skipped,
        }
        if self.learner.grad_norm is not None:
            values["grad_norm"] = self.learner.grad_norm.item()
        for statistics in list(find_statistics(self.learner.model).values())[:1]:
            values["tail_ratio"], values["head_ratio"] = tail_and_head_ratio(statistics)
        values |= evaluation
        if self.log is not None:
            self.log.write(values)
            self.progress.report(values)

    def _count_skipped(self, batch: Batch) -> None:
        for name in batch.skipped:
            if name not in self.skipped:
                self.progress.say(f"warning: cannot read {name}, skipped")
            self.skipped[name] += 1

    def _save(self) -> None:
        broken = self.learner.broken_parameter()
        if broken is not None:
            raise EngineError(f"the weights {broken} are not finite at step {self.step}; {self._last_checkpoint()}")
        own = {"random": random_state.capture(), "losses": self.watch.state_dict(), "skipped": dict(self.skipped)}
        per_rank = gather_objects(self.fabric, own)
        if self.log is not None:
            self.log.sync()
            content = {
                **self.learner.state_dict(),
                "step": self.step,
                "batch_size": self.settings.batch_size,
                "sampler": self.loader.sampler.state_dict(epoch=self.epoch, position=self.position),
                "evaluation": self.evaluation,
                "owes_evaluation": self.owes_evaluation,
                "ranks": per_rank,
            }
            save_checkpoint(self.run_folder, content, self.step, self.settings.keep_checkpoints)

    def _resume(self) -> None:
        found = None
        if self.fabric.is_global_zero:
            found = latest_checkpoint(self.run_folder, self.progress.say)
        file = from_first_rank(self.fabric, found[0] if found else None)
        if file is None:
            self.progress.say(f"{self.run_folder} has no checkpoint yet: starting from the beginning")
            return
        content = found[1] if found else load_checkpoint(file)
        self._load(content)
        self.progress.say(f"resuming at step {self.step} of {self.total} from {file}")

    def _load(self, content: dict[str, Any]) -> None:
        if content["batch_size"] != self.settings.batch_size:
            sizes = f"{content['batch_size']} in the checkpoint and {self.settings.batch_size} here"
            raise EngineError(f"a run cannot change its batch size, which is {sizes}")
        self.learner.load_state_dict(content)
        try:
            self.loader.sampler.load_state_dict(content["sampler"])
        except ValueError as error:
            raise EngineError(f"the checkpoint does not fit the data: {one_line(error)}") from error
        self.step, self.evaluation = content["step"], content["evaluation"]
        self.owes_evaluation = content["owes_evaluation"] and self.evaluate is not None
        self.epoch, self.position = content["sampler"]["epoch"], content["sampler"]["position"]
        self._load_own(content["ranks"])

    def _load_own(self, ranks: list[dict[str, Any]]) -> None:
        """What every rank has for itself; another number of ranks draws new random numbers."""
        if len(ranks) == self.fabric.world_size:
            own = ranks[self.fabric.global_rank]
            self.skipped = Counter(own["skipped"])
            self.watch.load_state_dict(own["losses"], self.fabric.device)
            random_state.restore(own["random"])
            return
        if self.fabric.is_global_zero:
            self.skipped = sum((Counter(own["skipped"]) for own in ranks), Counter())
        random_state.seed_all(random_state.mixed_seed(self.settings.seed, self.fabric.global_rank, self.step))

    def _last_checkpoint(self) -> str:
        files = checkpoint_files(self.run_folder)
        return f"the last good checkpoint is {files[-1]}" if files else "there is no checkpoint yet"


class _Timer:
    """Time of the steps since the last line of the log, and how much of it was spent waiting for data."""

    def __init__(self) -> None:
        self._start = self._seconds = self._waited = 0.0
        self._count = 0

    def start(self) -> None:
        self._start = time.perf_counter()

    def data_arrived(self) -> None:
        self._waited += time.perf_counter() - self._start

    def step_done(self) -> None:
        self._seconds += time.perf_counter() - self._start
        self._count += 1

    def per_step(self) -> dict[str, float]:
        count = max(self._count, 1)
        means = {"seconds_per_step": self._seconds / count, "seconds_waiting_for_data": self._waited / count}
        self._seconds, self._waited, self._count = 0.0, 0.0, 0
        return means


def _make_loader(
    fabric: "Fabric",
    dataset: Any,
    sampler: ResumableSampler,
    settings: TrainSettings,
    collate: Collate,
    sample_name: Callable[[int], str],
) -> StepLoader:
    _check_sampler(fabric, sampler)
    loader = StepLoader(
        dataset,
        sampler,
        batch_size=_piece_size(settings, fabric.world_size),
        num_pieces=settings.accumulate,
        collate=collate,
        num_workers=settings.num_workers,
        seed=settings.seed,
        on_error=settings.on_error,
        sample_name=sample_name,
        pin_memory=fabric.device.type == "cuda",
    )
    if loader.steps_per_epoch() < 1:
        raise EngineError(f"an epoch of {len(sampler)} samples does not fill a batch of {settings.batch_size}")
    return loader


def _check_sampler(fabric: "Fabric", sampler: ResumableSampler) -> None:
    built_for, needed = (sampler.rank, sampler.num_replicas), (fabric.global_rank, fabric.world_size)
    if built_for != needed:
        raise ValueError(
            f"the sampler is for rank {built_for[0]} of {built_for[1]}, but this is rank {needed[0]} of {needed[1]}; "
            "build it after launch()"
        )


def _piece_size(settings: TrainSettings, world_size: int) -> int:
    """Samples of one model call."""
    num_pieces = world_size * settings.accumulate
    if settings.batch_size % num_pieces:
        parts = f"{world_size} processes with accumulate={settings.accumulate}"
        raise EngineError(f"batch_size {settings.batch_size} does not divide evenly among {parts}")
    return settings.batch_size // num_pieces


def _on_first_rank(fabric: "Fabric", check: Callable[[], None]) -> None:
    """Let the first rank check something that it is about to change; all ranks raise if it raises."""
    message = None
    if fabric.is_global_zero:
        try:
            check()
        except EngineError as error:
            message = str(error)
    message = from_first_rank(fabric, message)
    if message is not None:
        raise EngineError(message)


def _counted(names: Counter[str]) -> str:
    shown = ", ".join(f"{name} ({count}x)" for name, count in names.most_common(10))
    return shown + (f" and {len(names) - 10} more" if len(names) > 10 else "")
