import copy

import pytest
import torch
from torch import nn

import equigrad
from equigrad.integrations import HostRun, check
from integrations.plain_run import NUM_CLASSES, PlainRun


def failures(make, **options):
    """The reasons of the checks that did not pass, by their names."""
    return {result.name: result.reason for result in check(make, **options).results if result.state != "pass"}


@pytest.mark.parametrize("micro_batches", [2, 4])
def test_a_loop_that_is_right_passes_all_five(micro_batches):
    report = check(PlainRun, micro_batches=micro_batches)
    assert report.passed
    assert str(report).splitlines() == [
        "moves once a step    pass",
        "rests in evaluation  pass",
        "resumes              pass",
        "accumulates          pass",
        "copies               pass",
    ]


def test_what_a_host_cannot_do_is_not_applicable_with_its_reason():
    class OnlyTrains(HostRun):
        def __init__(self):
            self.inner = PlainRun()
            self.module = self.inner.module

        def train(self, steps):
            self.inner.train(steps)

    report = check(OnlyTrains)
    assert report.passed
    assert [result.state for result in report.results] == ["pass", *["not applicable"] * 3, "pass"]
    assert "defines no evaluate()" in str(report)


def test_a_loss_that_was_never_attached_is_found():
    class Unattached(PlainRun):
        def __init__(self):
            super().__init__()
            self.criterion = self.module.pop("criterion")

        def loss(self, rows):
            return self.criterion(self.module["net"](self.features[rows]), self.labels[rows])

    found = failures(Unattached)
    assert found["moves once a step"] == "the module holds no loss with gradient statistics"


def test_a_loss_that_is_not_called_is_found():
    class Ignored(PlainRun):
        def loss(self, rows):
            return nn.functional.cross_entropy(self.module["net"](self.features[rows]), self.labels[rows])

    assert failures(Ignored)["moves once a step"] == "criterion.statistics moved 0 times in 2 steps"


def test_a_copy_that_is_trained_instead_is_found():
    class Copied(PlainRun):
        def __init__(self):
            super().__init__()
            self.copy = copy.deepcopy(self.module["criterion"])

        def loss(self, rows):
            super().loss(rows)
            return self.copy(self.module["net"](self.features[rows]), self.labels[rows])

    assert "the host trains a copy" in failures(Copied)["moves once a step"]


def test_an_evaluation_in_training_mode_is_found():
    class Polluting(PlainRun):
        def evaluate(self):
            self.loss(slice(None))

    assert failures(Polluting) == {"rests in evaluation": "evaluation changed criterion.statistics.positive"}


def test_a_loss_that_stays_in_evaluation_mode_is_found():
    class Stuck(PlainRun):
        def train(self, steps):
            training = self.module["criterion"].training
            super().train(0)
            self.module["criterion"].train(training)
            for _ in range(steps):
                self.loss(slice(None)).backward()
                self.optimizer.step()

    assert "no longer moves in training after an evaluation" in failures(Stuck)["rests in evaluation"]


def test_statistics_and_weights_that_a_checkpoint_lacks_are_found():
    class WithoutStatistics(PlainRun):
        def save(self, folder):
            torch.save(self.module["net"].state_dict(), folder / "net.pt")

        def resume(self, folder):
            self.module["net"].load_state_dict(torch.load(folder / "net.pt"))

    class WithoutWeights(PlainRun):
        def resume(self, folder):
            statistics = {k: v for k, v in torch.load(folder / "checkpoint.pt").items() if "criterion" in k}
            self.module.load_state_dict(statistics, strict=False)

    assert failures(WithoutStatistics) == {"resumes": "resuming lost criterion.statistics.positive"}
    assert failures(WithoutWeights) == {"resumes": "resuming lost the weights net.weight"}


def test_a_run_whose_weights_never_move_says_nothing_about_resuming():
    class Frozen(PlainRun):
        def __init__(self):
            super().__init__()
            self.optimizer.param_groups[0]["lr"] = 0.0

    assert "training changed no weight" in failures(Frozen)["resumes"]


def test_micro_batches_that_are_not_divided_are_found():
    class Undivided(PlainRun):
        def gradients(self, micro_batches):
            with equigrad.one_batch(self.module, micro_batches=micro_batches):
                for rows in torch.arange(8).chunk(micro_batches):
                    self.loss(rows).backward()
            return {name: value.grad for name, value in self.module.named_parameters()}

    assert "and is 4 times as large" in failures(Undivided, micro_batches=4)["accumulates"]


def test_weights_that_move_between_micro_batches_are_found():
    class Separate(PlainRun):
        def gradients(self, micro_batches):
            for rows in torch.arange(8).chunk(micro_batches):
                (self.loss(rows) / micro_batches).backward()
            return {name: value.grad for name, value in self.module.named_parameters()}

    assert failures(Separate).keys() == {"accumulates"}


def test_a_closure_that_cannot_be_pickled_is_found():
    class Closed(PlainRun):
        def __init__(self):
            super().__init__()
            self.module["net"].forward = lambda features: nn.Linear.forward(self.module["net"], features)

    assert failures(Closed).keys() == {"copies"}


def test_statistics_that_are_halved_are_found():
    class Halved(equigrad.SigmoidEqualizationLoss):
        def _apply(self, fn, recurse=True):
            super()._apply(fn, recurse)
            self.statistics.positive = fn(self.statistics.positive)
            return self

    class HalvedRun(PlainRun):
        def __init__(self):
            super().__init__()
            self.module["criterion"] = Halved(NUM_CLASSES)

    # Pickle needs a class that it can find.
    Halved.__qualname__ = "Halved"
    globals()["Halved"] = Halved
    assert failures(HalvedRun) == {"copies": ".half() changed criterion.statistics.positive"}


def test_an_error_of_the_host_fails_its_check_alone():
    class Crashing(PlainRun):
        def evaluate(self):
            raise OSError("no such\nfile")

    assert failures(Crashing) == {"rests in evaluation": "OSError: no such file"}
