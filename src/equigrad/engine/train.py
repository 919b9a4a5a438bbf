"""The training loop. It knows of a model only that `model(images, targets)` gives a dictionary of losses.

    fabric = launch(seed=0)                                   # before anything random or rank aware is built
    with Training(fabric, model, dataset, sampler, settings, Path("runs/first")) as training:
        while training.run_to_evaluation():                   # False at the end, or when a signal asked to stop
            with training.evaluation_model() as evaluated:
                metrics = …                                   # over training.until_stopped(batches)
            training.log_evaluation(metrics)

A run may be stopped at any step, by SIGTERM, Ctrl-C, `kill -9` or a power cut, and continued with `resume=True` from
its last checkpoint. On the CPU it then ends with the same weights, bit for bit, as if it had never stopped.
"""

import math
import shlex
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import torch
from torch import nn
from torch.utils.data import default_collate

from equigrad.engine import random_state
from equigrad.engine.checkpoint import (
    checkpoint_files,
    keep_as_best,
    latest_checkpoint,
    load_checkpoint,
    save_checkpoint,
)
from equigrad.engine.distributed import any_rank, from_first_rank, gather_objects, mean_over_ranks
from equigrad.engine.failures import AgreedError
from equigrad.engine.learner import Learner, sum_of
from equigrad.engine.loading.step_loader import Batch, Collate, EpochAware, ResumableSampler, index_name
from equigrad.engine.loading.training_loader import training_loader
from equigrad.engine.loading.workers import naming_dead_workers
from equigrad.engine.loss_monitor import LossMonitor
from equigrad.engine.optimizers import set_learning_rate
from equigrad.engine.reporting.reporter import Reporter, counted
from equigrad.engine.run_lock import run_lock
from equigrad.engine.run_log import RunLog, check_run_folder, default_command, write_recipe
from equigrad.engine.settings import TrainSettings
from equigrad.engine.signals import StopRequest
from equigrad.errors import EngineError, one_line
from equigrad.files import remove_temporary_files
from equigrad.run_files import BEST

if TYPE_CHECKING:
    from lightning.fabric import Fabric

TestBatch = TypeVar("TestBatch")

# Reading a value makes the host wait for an accelerator; on the CPU it costs nothing.
_CHECK_EVERY_ON_ACCELERATOR = 10
_NUM_SNAPSHOTS = 50
_GO_ON = {"compare", "demo", "table"}  # commands that continue what they find, without --resume


class EvaluationStopped(Exception):
    """A signal asked to stop during an evaluation; leaving `Training` ends it as any stopped run."""


@dataclass(frozen=True)
class TrainResult:
    """How a training ended."""

    step: int
    total_steps: int
    interrupted: bool  # by a signal; `resume=True` continues
    skipped: dict[str, int]  # samples this rank could not read, and how often
    evaluation: dict[str, float]  # the last one


class Training:
    """A training in its run folder, from the beginning or from the run's last checkpoint; see the module for its use.

    Args:
        fabric: from `launch`.
        model: `model(images, targets)` gives a dictionary of losses, whose sum is minimised. Changed in place. If it
            is `EpochAware`, its `set_epoch` is called before each epoch.
        dataset: `dataset[index]` gives one item. Its random numbers come from `random`, `numpy.random` or `torch`.
        sampler: order of the indices, seeded and resumable, built for this rank after `launch`.
        settings: how to train.
        run_folder: new or empty, unless resumed.
        resume: continue from the last checkpoint, or start if there is none.
        collate: from a list of items to `(images, targets)`.
        sample_name: from an index to the sample's name in messages, usually its file.
        evaluates: stop for evaluations; without them `run_to_evaluation` trains to the end.
        num_classes: C of the model's losses, to record which training samples each category wins; None does not.
        recipe: what `recipe.json` says besides the settings.
        data_summary: a line on the training data, for the user.
        command: how the run was started, for `recipe.json` and for the line how to resume.

    Raises:
        EngineError: one clear line about data, folder, checkpoint or a loss that is not finite.
    """

    def __init__(
        self,
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
        evaluates: bool = True,
        num_classes: int | None = None,
        recipe: Mapping[str, Any] | None = None,
        data_summary: str | None = None,
        command: Sequence[str] | None = None,
    ) -> None:
        self.fabric, self.settings, self.run_folder = fabric, settings, run_folder
        self.sample_name, self.evaluates, self.recipe = sample_name, evaluates, recipe or {}
        self.command = list(command) if command is not None else default_command()
        self.resume, self.data_summary = resume, data_summary
        self.loader = training_loader(fabric, dataset, sampler, settings, collate, sample_name)
        self.learner = Learner(fabric, model, settings, num_classes)
        self.steps_per_epoch = self.loader.steps_per_epoch()
        self.total = settings.schedule.total_steps(self.steps_per_epoch)
        self.check_every = 1 if fabric.device.type == "cpu" else _CHECK_EVERY_ON_ACCELERATOR
        stretch = settings.schedule.stretch(self.steps_per_epoch)
        self.checkpoint_every = settings.checkpoint_every or round(stretch) * self.steps_per_epoch
        self.evaluate_every = round((settings.evaluate_every or self.total) * stretch) * self.steps_per_epoch
        self.statistics_every = settings.statistics_every or max(self.total // _NUM_SNAPSHOTS, 1)

        self.step = 0  # optimiser steps done
        self.epoch = 0
        self.position = 0  # samples of the epoch that all ranks together have trained on
        self.monitor = LossMonitor()
        self.skipped: Counter[str] = Counter()
        self.logged: dict[str, int] | None = None  # content of the log at the checkpoint
        self.evaluation: dict[str, float] = {}
        self.best: float | None = None  # first metric of the best evaluation
        self.evaluation_pending = False  # due at this step, and not logged yet
        self.interrupted = False

        self.stop = StopRequest(self._acknowledge_signal)
        self.reporter = Reporter(fabric, self.total, self.steps_per_epoch, self.evaluate_every if evaluates else None)
        self._is_evaluating = False
        self._epoch_batches: Iterator[tuple[list[Batch], int]] | None = None
        self._open = ExitStack()

    def __enter__(self) -> Self:
        """Take the run folder and, if asked, go to the last checkpoint; signals now ask the loop to stop."""
        random_state.seed_all(random_state.mixed_seed(self.settings.seed, self.fabric.global_rank))
        with ExitStack() as stack:
            stack.enter_context(naming_dead_workers())
            stack.enter_context(self.stop)
            _on_first_rank(self.fabric, lambda: self._take_folder(stack))
            if self.resume:
                self._resume()
            _on_first_rank(self.fabric, lambda: self._open_log(stack))
            self.reporter.open(stack, self.step)
            self.reporter.begin(self.settings, self.learner.model, self.data_summary)
            self._open = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if is_stopped := isinstance(error, EvaluationStopped):
            self.interrupted, kind, error, trace = True, None, None, None
        if (error is None and self.interrupted) or isinstance(error, KeyboardInterrupt):
            goes_on = "--resume" in self.command or not _GO_ON.isdisjoint(self.command[:2])
            resumption = shlex.join([*self.command, *([] if goes_on else ["--resume"])])
            doing = " during the evaluation" if self._is_evaluating else ""
            last = "" if error is None else f"; {self._last_checkpoint()}"
            self.reporter.say(f"stopped at step {self.step} of {self.total}{doing}{last}; to continue: {resumption}")
        if error is None and self.skipped:
            self.reporter.say(f"skipped {sum(self.skipped.values())} times: {counted(self.skipped)}")
        self._open.__exit__(kind, error, trace)
        return is_stopped

    def run_to_evaluation(self) -> bool:
        """Train until an evaluation is due, then return True; False at the end, or if a signal has set `interrupted`.

        The checkpoint is written before the evaluation, so that a crash in the evaluation loses no step.
        """
        if self.evaluation_pending:  # it was due when the run was stopped
            return True
        while self.step < self.total and not self.interrupted:
            if self._epoch_batches is None:
                if isinstance(self.learner.model, EpochAware):
                    self.learner.model.set_epoch(self.epoch)
                self._epoch_batches = self.loader.epoch(self.epoch, self.position)
            self.reporter.timer.start()
            batches, position = next(self._epoch_batches, (None, 0))
            if batches is None:
                self.epoch, self.position, self._epoch_batches = self.epoch + 1, 0, None
                continue
            self.reporter.timer.data_arrived()
            should_stop = self._train_step(batches, position)
            self.reporter.timer.step_done()
            self._after_step(should_stop)
            if self.evaluation_pending and not self.interrupted:
                return True
        return False

    @contextmanager
    def evaluation_model(self) -> Iterator[nn.Module]:
        """The model to evaluate, the averaged one if there is one; random numbers and modes are restored afterwards."""
        self._is_evaluating, start = True, time.monotonic()
        with random_state.preserved(), torch.no_grad(), self.learner.evaluating() as model:
            yield model
        self._is_evaluating = False
        self.reporter.evaluation_done(self.step, time.monotonic() - start)

    def until_stopped(self, batches: Iterable[TestBatch]) -> Iterator[TestBatch]:
        """The batches of an evaluation, which end with `EvaluationStopped` on all ranks if a signal arrives on any.

        The checkpoint of the step is there already, and the resumed run evaluates first.
        """
        for batch in batches:
            yield batch
            if self.stop.is_set:
                break
        (should_stop,) = any_rank(self.fabric, self.stop.is_set)
        if should_stop:
            raise EvaluationStopped

    @property
    def is_last_step(self) -> bool:
        """Whether all steps are done."""
        return self.step == self.total

    def log_evaluation(self, metrics: Mapping[str, float], check: Mapping[str, float] | None = None) -> None:
        """Write the metrics of the evaluation that was due; every rank must call.

        Args:
            metrics: metrics of the whole test set; empty if only a part of it was evaluated.
            check: metrics of a fixed part of it, for runs that evaluate all only at the end; they choose the best.
        """
        self.evaluation = {name: float(value) for name, value in metrics.items()}
        self.evaluation_pending = False
        values = {"check": dict(check)} if check else {}
        self._log({**values, **({"evaluation": self.evaluation} if metrics else {})})
        if self.settings.keep_best:
            self._keep_if_best(next(iter((check or metrics).items())))
        if self._is_due(self.step, self.checkpoint_every):
            self._save()

    @property
    def result(self) -> TrainResult:
        """Steps done, whether a signal stopped it, skipped samples and the last evaluation."""
        return TrainResult(self.step, self.total, self.interrupted, dict(self.skipped), self.evaluation)

    def _train_step(self, batches: list[Batch], position: int) -> bool:
        """One optimiser step; whether the run should stop after it."""
        learner, is_last = self.learner, [False] * (len(batches) - 1) + [True]
        normalizer = learner.shared_normalizer([batch.data for batch in batches])
        with learner.one_step(len(batches)):
            for batch, last in zip(batches, is_last, strict=True):
                images, targets = learner.to_device(batch.data)
                if normalizer:
                    targets = {**targets, **normalizer}
                with learner.gradient_exchange(last):
                    losses = learner.wrapped(images, targets)
                    self.fabric.backward(sum_of(losses) / len(batches))
                detached = {name: loss.detach() for name, loss in losses.items()}
                self.monitor.add(self.step + 1, detached, batch.samples)
                self._count_skipped(batch)
        should_stop = self._check()
        learner.step(self._lr_factor(self.step))
        self.step, self.position = self.step + 1, position
        return should_stop

    def _check(self) -> bool:
        """Refuse losses that are not finite, before they change the weights; whether any rank was asked to stop.

        All ranks decide alike, so that none waits for one that has stopped. On an accelerator the check is made every
        few steps, and always before a checkpoint, which must not hold weights of a failed step.
        """
        step = self.step + 1
        if step % self.check_every and not self._is_due(step, self.checkpoint_every, self.evaluate_every):
            return False
        alarm = self.monitor.alarm(self.sample_name)
        is_broken, should_stop = any_rank(self.fabric, alarm is not None, self.stop.is_set)
        if is_broken:
            alarms = [text for text in gather_objects(alarm) if text]
            if self.reporter.log is not None:
                self.reporter.log.write({"step": step, "loss": math.nan})
            raise AgreedError(f"{alarms[0]}; {self._last_checkpoint()}")
        return should_stop

    def _after_step(self, should_stop: bool) -> None:
        self.reporter.progress.advance(self.step)
        self.evaluation_pending = self.evaluates and self._is_due(self.step, self.evaluate_every)
        # A scheduler that sent a signal does not wait for an evaluation. The resumed run begins with it.
        self.interrupted = should_stop and (self.step < self.total or self.evaluation_pending)
        if not self.evaluation_pending and self._is_due(self.step, self.settings.log_every):
            self._log({})
        elif self.step % self.check_every == 0 and self.reporter.progress.wants_numbers:
            self.reporter.show(self._numbers(self.monitor.means_so_far(), sum(self.skipped.values())))
        if self.step % self.check_every == 0:
            self.reporter.step_done(self.step)
        if self.reporter.log is not None and self._is_due(self.step, self.statistics_every):
            self.reporter.log.snapshot(self.step, self.learner.model, self.learner.watched)
        if should_stop or self.evaluation_pending or self._is_due(self.step, self.checkpoint_every):
            self._save()

    def _is_due(self, step: int, *intervals: int) -> bool:
        return step == self.total or any(step % interval == 0 for interval in intervals)

    def _lr_factor(self, step: int) -> float:
        return self.settings.schedule.factor(step, self.steps_per_epoch, self.total)

    def _log(self, evaluation: dict[str, dict[str, float]]) -> None:
        num_skipped = float(sum(self.skipped.values())) * self.fabric.world_size
        means = mean_over_ranks(self.fabric, {**self.monitor.means(), "skipped": num_skipped})
        skipped = round(means.pop("skipped"))
        self.reporter.write(self._numbers(means, skipped) | evaluation)

    def _numbers(self, losses: dict[str, float], num_skipped: int) -> dict[str, Any]:
        return self.reporter.numbers(self.step, self.learner, losses, num_skipped)

    def _acknowledge_signal(self) -> None:
        first = (
            "the evaluation ends with this batch and is repeated" if self._is_evaluating else "this step is finished"
        )
        self.reporter.say(f"stopping: {first}, and the run can go on from there; Ctrl-C again stops at once")

    def _count_skipped(self, batch: Batch) -> None:
        for name in batch.skipped:
            if name not in self.skipped:
                self.reporter.say(f"warning: cannot read {name}, skipped")
            self.skipped[name] += 1

    def _save(self) -> None:
        broken = self.learner.broken_parameter()
        if broken is not None:
            raise EngineError(f"the weights {broken} are not finite at step {self.step}; {self._last_checkpoint()}")
        if self.settings.average_batch_norm:
            self.learner.agree_on_buffers()  # a resumed run loads them on all ranks
        own = {"random": random_state.capture(), "losses": self.monitor.state_dict(), "skipped": dict(self.skipped)}
        per_rank = gather_objects(own)
        _on_first_rank(self.fabric, lambda: self._write_checkpoint(per_rank))

    def _keep_if_best(self, headline: tuple[str, float]) -> None:
        name, value = headline
        if math.isnan(value) or (self.best is not None and value <= self.best):
            return
        self.best = value
        _on_first_rank(self.fabric, lambda: keep_as_best(self.run_folder, self.step))
        self.reporter.say(f"the best {name} so far, {value:.4g}, is that of step {self.step:,}: kept as {BEST}")

    def _write_checkpoint(self, per_rank: list[Any]) -> None:
        log = self.reporter.log
        assert log is not None
        content = {
            **self.learner.state_dict(),
            "step": self.step,
            "batch_size": self.settings.batch_size,
            "sampler": self.loader.sampler.state_dict(epoch=self.epoch, position=self.position),
            "evaluation": self.evaluation,
            "best": self.best,
            "evaluation_pending": self.evaluation_pending,
            "ranks": per_rank,
            "log": log.content,
        }
        try:
            log.sync()
            save_checkpoint(self.run_folder, content, self.step, self.settings.keep_checkpoints)
        except OSError as error:
            raise EngineError(f"cannot save step {self.step}: {one_line(error)}; {self._last_checkpoint()}") from error

    def _take_folder(self, stack: ExitStack) -> None:
        stack.enter_context(run_lock(self.run_folder, self.command))
        check_run_folder(self.run_folder, self.resume)
        remove_temporary_files(self.run_folder)

    def _open_log(self, stack: ExitStack) -> None:
        write_recipe(self.run_folder, self.settings, self.recipe, self.command, self.step, self.total)
        log = RunLog(
            self.run_folder,
            self.step,
            keeps_last_line=not self.evaluation_pending,
            expected=self.logged,
            warn=self.reporter.say,
        )
        stack.callback(log.close)
        if self.step == 0:
            log.snapshot(0, self.learner.model, self.learner.watched)
        self.reporter.log = log

    def _resume(self) -> None:
        found = None
        if self.fabric.is_global_zero:
            found = latest_checkpoint(self.run_folder, self.reporter.say)
        file = from_first_rank(found[0] if found else None)
        if file is None:
            self.reporter.say(f"{self.run_folder} has no checkpoint yet: starting from the beginning")
            return
        content = found[1] if found else load_checkpoint(file)
        try:
            self._load(content)
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            reason = f"{type(error).__name__}: {one_line(error)}"
            raise EngineError(f"{file} is not a checkpoint of this version ({reason})") from error
        self.reporter.say(f"resuming at step {self.step} of {self.total} from {file}")

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
        self.best = content.get("best")  # earlier versions did not write it
        self.epoch, self.position = content["sampler"]["epoch"], content["sampler"]["position"]
        self.evaluation_pending = content["evaluation_pending"] and self.evaluates
        if self.evaluation_pending:
            set_learning_rate(self.learner.optimizer, self._lr_factor(self.step - 1))  # for the log
        self.logged = content.get("log")  # earlier versions did not write it
        self._load_own(content["ranks"])

    def _load_own(self, ranks: list[dict[str, Any]]) -> None:
        """Load the state of this rank; if the number of ranks has changed, random numbers are seeded anew."""
        if len(ranks) == self.fabric.world_size:
            own = ranks[self.fabric.global_rank]
            self.skipped = Counter(own["skipped"])
            self.monitor.load_state_dict(own["losses"], self.fabric.device)
            random_state.restore(own["random"])
            return
        if self.fabric.is_global_zero:
            self.skipped = sum((Counter(own["skipped"]) for own in ranks), Counter())
        random_state.seed_all(random_state.mixed_seed(self.settings.seed, self.fabric.global_rank, self.step))

    def _last_checkpoint(self) -> str:
        files = checkpoint_files(self.run_folder)
        return f"the last good checkpoint is {files[-1]}" if files else "there is no checkpoint yet"


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
) -> TrainResult:
    """Train to the end without evaluations; arguments as in `Training`."""
    with Training(
        fabric,
        model,
        dataset,
        sampler,
        settings,
        run_folder,
        resume=resume,
        collate=collate,
        sample_name=sample_name,
        evaluates=False,
    ) as training:
        training.run_to_evaluation()
    return training.result


def _on_first_rank(fabric: "Fabric", act: Callable[[], None]) -> None:
    """Let the first rank do something with the run folder; all ranks raise if it fails."""
    message = None
    if fabric.is_global_zero:
        try:
            act()
        except (EngineError, OSError) as error:
            message = one_line(error)
    message = from_first_rank(message)
    if message is not None:
        raise AgreedError(message)
