import json
import math
import os
import signal

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from engine.toy import NUM_CLASSES, NoisyVectors, ToyModel, assert_identical, read_metrics
from equigrad import IGNORE, LDAMLoss, SigmoidEqualizationLoss, SoftmaxEqualizationLoss, SoftmaxScores
from equigrad.engine import (
    SGD,
    Ema,
    EngineError,
    EnoughSteps,
    Schedule,
    Training,
    TrainSettings,
    launch,
    load_checkpoint,
    load_weights,
)
from equigrad.engine.checkpoint import checkpoint_files
from equigrad.models.classification.classifier import build_classifier
from equigrad.sampling import RepeatFactorSampler
from waiting import Reads


def make_settings(**changes):
    plain = {"optimizer": SGD(0.1), "schedule": Schedule(epochs=1), "batch_size": 8, "num_workers": 0, "log_every": 2}
    return TrainSettings(**{**plain, **changes})


def run(fabric, folder, model=None, dataset=None, *, resume=False, evaluate=None, sample_name=None, **changes):
    torch.manual_seed(2)
    model = model or ToyModel(stochastic=False)
    dataset = dataset or NoisyVectors()
    sampler = RepeatFactorSampler([0] * len(dataset), drop_last=True)
    options = {"sample_name": sample_name} if sample_name else {}
    options |= {"resume": resume, "evaluates": evaluate is not None}
    with Training(fabric, model, dataset, sampler, make_settings(**changes), folder, **options) as training:
        while training.run_to_evaluation():
            with training.evaluation_model() as evaluated:
                metrics = evaluate(evaluated, training.step)
            training.log_evaluation(metrics)
    return model, training.result


def test_the_loop_reads_numbers_only_at_its_checks_and_for_the_log(fabric, tmp_path):
    sampler = RepeatFactorSampler([0] * 64, drop_last=True)
    rarely = {"log_every": 10, "checkpoint_every": 99, "evaluate_every": 9}
    settings = make_settings(schedule=Schedule(epochs=3), max_grad_norm=1.0, ema=Ema(), **rarely)
    seen = {}
    with Training(
        fabric, ToyModel(stochastic=False), NoisyVectors(), sampler, settings, tmp_path / "run", evaluates=False
    ) as training:
        training.check_every = 5  # as on an accelerator, where looking at a number waits

        def observe(step):
            # The loader draws its seeds on the host.
            asked = [(file, function) for file, function in reads.functions if not file.startswith("engine/loading/")]
            seen[step] = {function for file, function in asked if file.startswith("engine/")}
            reads.functions.clear()

        training.reporter.progress.advance = observe  # called after every step, before its line of the log
        with Reads() as reads:
            training.run_to_evaluation()
    # Lines are seen after the step that follows them: the first for the user at a check, two of the log.
    checks, lines = {5, 10, 15, 20, 24}, {6, 11, 21}
    assert {step for step, functions in seen.items() if "LossMonitor.alarm" in functions} == checks
    assert {step for step, functions in seen.items() if functions - {"LossMonitor.alarm"}} == lines
    assert seen[6] - {"LossMonitor.means_so_far"} == seen[11] == {"Reporter.numbers", "tail_and_head_ratio"}


def weights(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


def test_training_lowers_the_loss_and_fills_the_run_folder(fabric, tmp_path):
    _, result = run(fabric, tmp_path / "run", schedule=Schedule(epochs=20))
    assert (result.step, result.total_steps, result.interrupted) == (160, 160, False)
    lines = read_metrics(tmp_path / "run")
    assert sum(line["loss"] for line in lines[-10:]) / 10 < 0.5 * lines[0]["loss"]
    assert [line["step"] for line in lines] == list(range(2, 161, 2))
    assert lines[-1]["loss"] == pytest.approx(sum(lines[-1]["losses"].values()))
    assert {"lr", "tail_ratio", "head_ratio", "skipped", "epoch"} <= lines[-1].keys()
    assert {file.name for file in (tmp_path / "run").iterdir()} == {
        *("recipe.json", "metrics.jsonl", "tensorboard", "statistics.npz", "checkpoints")
    }
    history = np.load(tmp_path / "run" / "statistics.npz")
    assert history["steps"].tolist() == [*range(0, 160, 3), 160]
    assert history["criterion.statistics.positive"].shape == (55, NUM_CLASSES)
    assert json.loads((tmp_path / "run" / "recipe.json").read_text())["settings"]["batch_size"] == 8


def test_checkpoints_load_with_weights_only_and_hold_the_statistics(fabric, tmp_path):
    model, _ = run(fabric, tmp_path, checkpoint_every=2, keep_checkpoints=2)
    files = checkpoint_files(tmp_path)
    assert [file.name for file in files] == ["step_00000006.pt", "step_00000008.pt"]
    content = torch.load(files[-1], weights_only=True)
    assert torch.equal(content["model"]["criterion.statistics.positive"], model.criterion.statistics.positive)
    assert model.criterion.statistics.positive.sum() > 0


class WithUnknown:
    """The vectors, with a third of the labels of the first half unknown: micro-batches count different numbers."""

    def __init__(self):
        self.dataset = NoisyVectors(augment=False)

    def __len__(self):
        return len(self.dataset)

    def __getitem__(self, index):
        vector, label = self.dataset[index]
        return vector.double(), {"labels": IGNORE if index % 3 == 0 and index < len(self) // 2 else label}


def vector_classifier(loss):
    backbone = nn.Linear(6, 8)
    backbone.num_features = 8
    return build_classifier(backbone, NUM_CLASSES, loss, SoftmaxScores())


@pytest.mark.parametrize("loss_class", [SigmoidEqualizationLoss, SoftmaxEqualizationLoss, LDAMLoss])
@pytest.mark.parametrize("accumulate", [2, 4])
def test_accumulation_gives_the_gradient_and_the_statistics_of_the_joined_batch(
    fabric, tmp_path, loss_class, accumulate
):
    def trained(accumulate):
        torch.manual_seed(9)
        loss = LDAMLoss(range(1, NUM_CLASSES + 1), deferral=4) if loss_class is LDAMLoss else loss_class(NUM_CLASSES)
        folder = tmp_path / str(accumulate)
        return run(fabric, folder, vector_classifier(loss).double(), WithUnknown(), accumulate=accumulate)[0]

    joined, in_parts = trained(1).state_dict(), trained(accumulate).state_dict()
    assert any(name.startswith("classification_loss.") for name in joined)
    torch.testing.assert_close(in_parts, joined, rtol=1e-9, atol=1e-12)


def test_gradients_are_clipped_to_the_norm(fabric, tmp_path):
    torch.manual_seed(2)
    before = weights(ToyModel(stochastic=False))
    model, _ = run(
        fabric, tmp_path, max_grad_norm=1e-3, optimizer=SGD(1.0, momentum=0), schedule=Schedule(steps=1), log_every=1
    )
    moved = torch.cat([(model.state_dict()[name] - before[name]).flatten() for name, _ in model.named_parameters()])
    assert moved.norm().item() == pytest.approx(1e-3, rel=1e-3)
    assert read_metrics(tmp_path)[0]["grad_norm"] > 1e-3


def test_a_crash_in_an_evaluation_loses_no_step(fabric, tmp_path):
    def crash(model, step):
        raise RuntimeError("out of memory")

    def evaluate(model, step):
        return {"AP": step / 100}

    whole, expected = run(fabric, tmp_path / "whole", evaluate=evaluate)
    with pytest.raises(RuntimeError, match="out of memory"):
        run(fabric, tmp_path / "run", evaluate=crash)
    resumed, result = run(fabric, tmp_path / "run", evaluate=evaluate, resume=True)
    assert (result.step, result.evaluation) == (expected.step, {"AP": 0.08})
    assert resumed.calls == 0  # nothing was trained again
    assert_identical(weights(resumed), weights(whole))
    assert read_metrics(tmp_path / "run") == read_metrics(tmp_path / "whole")


def test_the_checkpoint_of_the_best_evaluation_stays_also_in_a_resumed_run(fabric, tmp_path, capsys):
    values = {8: 0.2, 16: 0.5, 24: 0.4, 32: math.nan}
    options = {
        "keep_best": True,
        "keep_checkpoints": 1,
        "evaluate": lambda model, step: {"AP": values[step], "AR": 1.0},
    }
    run(fabric, tmp_path, schedule=Schedule(epochs=2), **options)
    best = load_checkpoint(tmp_path / "checkpoints" / "best.pt")
    assert best["step"] == 16
    assert "the best AP so far, 0.5, is that of step 16: kept as checkpoints/best.pt" in capsys.readouterr().out
    run(fabric, tmp_path, schedule=Schedule(epochs=4), resume=True, **options)
    assert_identical(load_checkpoint(tmp_path / "checkpoints" / "best.pt"), best)
    assert [file.name for file in checkpoint_files(tmp_path)] == ["step_00000032.pt"]  # the last one is not the best
    assert "best AP" not in capsys.readouterr().out


def test_no_best_checkpoint_is_kept_unless_asked_for(fabric, tmp_path):
    run(fabric, tmp_path, evaluate=lambda model, step: {"AP": 0.5})
    assert not (tmp_path / "checkpoints" / "best.pt").exists()


def test_checks_on_a_part_of_the_test_set_are_logged_as_such_and_tell_which_step_is_best(fabric, tmp_path, capsys):
    settings = make_settings(schedule=Schedule(epochs=3), keep_best=True, log_every=99)
    checks = {8: {"AP": 0.3}, 16: {"AP": 0.2}, 24: {"AP": 0.1}}
    sampler = RepeatFactorSampler([0] * 64, drop_last=True)
    with Training(fabric, ToyModel(stochastic=False), NoisyVectors(), sampler, settings, tmp_path) as training:
        while training.run_to_evaluation():
            training.log_evaluation({"AP": 0.9} if training.is_last_step else {}, checks[training.step])
    lines = read_metrics(tmp_path)
    assert [(line["step"], line["check"], line.get("evaluation")) for line in lines] == [
        (8, {"AP": 0.3}, None),
        (16, {"AP": 0.2}, None),
        (24, {"AP": 0.1}, {"AP": 0.9}),
    ]
    assert training.result.evaluation == {"AP": 0.9}
    assert load_checkpoint(tmp_path / "checkpoints" / "best.pt")["step"] == 8
    assert "check on a part of the test set: AP 10.0  AP 90.0" in capsys.readouterr().out


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_half_precision_trains_close_to_single_and_keeps_inputs_and_statistics_exact(precision, tmp_path, fabric):
    class Observing(ToyModel):
        def forward(self, images, targets):
            self.input_dtype = images.dtype
            self.linear_dtype = self.body(images).dtype
            # Small enough for the scaler's first factor of 65536; a larger one would leave out the first steps.
            return {name: loss / 1000 for name, loss in super().forward(images, targets).items()}

    def trained(fabric, folder):
        torch.manual_seed(9)
        return run(fabric, folder, Observing(stochastic=False), max_grad_norm=5.0, accumulate=2, optimizer=SGD(50.0))[0]

    exact = trained(fabric, tmp_path / "32")
    rounded = trained(launch(precision=precision, accelerator="cpu"), tmp_path / precision)
    torch.testing.assert_close(rounded.state_dict(), exact.state_dict(), atol=0.05, rtol=0.05)
    assert not torch.equal(rounded.classifier.weight, exact.classifier.weight)
    assert rounded.input_dtype == torch.float32
    assert rounded.linear_dtype == {"bf16": torch.bfloat16, "fp16": torch.float16}[precision]
    assert rounded.criterion.statistics.positive.dtype == torch.float64
    assert all(parameter.dtype == torch.float32 for parameter in rounded.parameters())
    scaler = load_checkpoint(checkpoint_files(tmp_path / precision)[-1])["scaler"]
    assert ("scale" in scaler) == (precision == "fp16")


def test_fp16_leaves_out_steps_whose_gradient_overflows_and_lowers_the_scale(tmp_path):
    class Overflowing(ToyModel):
        def forward(self, images, targets):
            losses = super().forward(images, targets)
            if self.calls == 1:  # finite, but not when scaled by 65536
                losses["huge"] = 1e35 * self.classifier.bias.sum()
            return losses

    half = launch(precision="fp16", accelerator="cpu")
    model, _ = run(half, tmp_path, Overflowing(stochastic=False), schedule=Schedule(steps=3))
    assert load_checkpoint(checkpoint_files(tmp_path)[-1])["scaler"]["scale"] == 32768
    assert all(parameter.isfinite().all() for parameter in model.parameters())


def test_the_averaged_weights_are_evaluated_and_saved(fabric, tmp_path):
    evaluated = {}

    def evaluate(model, step):
        assert not model.training
        evaluated[step] = model.classifier.weight.clone()
        return {"accuracy": torch.tensor(0.5)}

    model, result = run(fabric, tmp_path, ema=Ema(ramp=10), evaluate=evaluate, schedule=Schedule(epochs=2))
    assert list(evaluated) == [8, 16]
    assert not torch.equal(evaluated[16], model.classifier.weight)
    assert torch.equal(load_weights(tmp_path)["classifier.weight"], evaluated[16])
    assert result.evaluation == {"accuracy": 0.5}
    assert [line["step"] for line in read_metrics(tmp_path) if "evaluation" in line] == [8, 16]


def test_a_signal_at_the_end_of_an_epoch_leaves_the_evaluation_to_the_resumed_run(fabric, tmp_path):
    class Interrupted(ToyModel):
        def forward(self, images, targets):
            if self.training and self.calls == 7:
                os.kill(os.getpid(), signal.SIGTERM)
            return super().forward(images, targets)

    steps = []

    def evaluate(model, step):
        steps.append(step)
        return {"accuracy": step / 16}

    _, result = run(fabric, tmp_path, Interrupted(), evaluate=evaluate, schedule=Schedule(epochs=2), log_every=5)
    assert (result.step, result.interrupted, steps) == (8, True, [])
    _, result = run(
        fabric, tmp_path, ToyModel(), evaluate=evaluate, schedule=Schedule(epochs=2), log_every=5, resume=True
    )
    assert (result.step, result.interrupted, steps) == (16, False, [8, 16])
    assert [line["step"] for line in read_metrics(tmp_path)] == [5, 8, 10, 15, 16]
    assert read_metrics(tmp_path)[1]["evaluation"] == {"accuracy": 0.5}
    assert read_metrics(tmp_path)[1]["lr"] == 0.1


def test_a_signal_during_an_evaluation_ends_it_and_the_resumed_run_repeats_it(fabric, tmp_path, capsys):
    batches = [4, 3, 2, 1]

    def train_with(stopping_at, **changes):
        seen = {}
        sampler = RepeatFactorSampler([0] * 64, drop_last=True)
        settings = make_settings(schedule=Schedule(epochs=2), log_every=5)
        with Training(fabric, ToyModel(), NoisyVectors(), sampler, settings, tmp_path, **changes) as training:
            while training.run_to_evaluation():
                with training.evaluation_model():
                    seen[training.step] = []
                    for batch in training.until_stopped(batches):
                        seen[training.step].append(batch)
                        if (training.step, batch) == stopping_at:
                            os.kill(os.getpid(), signal.SIGINT)
                training.log_evaluation({"accuracy": 0.5})
        return training.result, seen

    result, seen = train_with((8, 3))
    assert (result.step, result.interrupted, seen) == (8, True, {8: [4, 3]})
    shown = capsys.readouterr().out
    assert "stopping: the evaluation ends with this batch and is repeated" in shown
    assert "stopped at step 8 of 16 during the evaluation; to continue: " in shown
    assert " --resume\n" in shown
    train_with((8, 1), resume=True, command=["equigrad", "compare", "photos"])
    assert "; to continue: equigrad compare photos\n" in capsys.readouterr().out
    result, seen = train_with(None, resume=True)
    assert (result.step, result.interrupted, seen) == (16, False, {8: batches, 16: batches})
    assert [line["step"] for line in read_metrics(tmp_path) if "evaluation" in line] == [8, 16]


def test_a_second_ctrl_c_says_where_the_run_can_go_on(fabric, tmp_path, capsys):
    class Interrupted(ToyModel):
        def forward(self, images, targets):
            if self.calls >= 5:
                os.kill(os.getpid(), signal.SIGINT)
                os.kill(os.getpid(), signal.SIGINT)
            return super().forward(images, targets)

    with pytest.raises(KeyboardInterrupt):
        run(fabric, tmp_path, Interrupted(), checkpoint_every=4)
    # The first signal is acknowledged by a thread, which may come after the second one has stopped the run.
    last = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("stopped at"))
    assert last.startswith(
        f"stopped at step 5 of 8; the last good checkpoint is {tmp_path}/checkpoints/step_00000004.pt; "
    )
    assert last.endswith(" --resume")


def test_the_user_is_told_what_will_happen_and_how_long_it_takes(fabric, tmp_path, capsys):
    sampler, settings = RepeatFactorSampler([0] * 64, drop_last=True), make_settings(log_every=50, evaluate_every=None)
    about = {"data_summary": "64 vectors", "evaluates": True}
    with Training(fabric, ToyModel(), NoisyVectors(), sampler, settings, tmp_path, **about) as training:
        assert training.run_to_evaluation()
        training.log_evaluation({"accuracy": float("nan")})
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["data: 64 vectors", "training: 8 steps of 8 samples, 8 in an epoch; evaluation at the end"]
    assert lines[2].startswith("device: cpu, 1 process, precision 32-true, ")
    assert [line.split()[1] for line in lines[3:] if line.startswith("step")] == ["1/8", "8/8"]
    assert " s per step: the last step is expected at " in lines[4]
    assert lines[5].endswith("  accuracy –")
    assert [line["step"] for line in read_metrics(tmp_path)] == [8]  # what is shown early is not logged


def test_evaluations_can_be_left_to_the_end(fabric, tmp_path):
    steps = []

    def evaluate(model, step):
        steps.append(step)
        return {"accuracy": 0.5}

    run(fabric, tmp_path, evaluate=evaluate, schedule=Schedule(epochs=2.5), evaluate_every=None)
    assert steps == [20]


def test_evaluations_are_as_many_however_few_the_samples(fabric, tmp_path, capsys):
    steps, enough = [], Schedule(length=EnoughSteps(min_epochs=2, min_steps=48))

    def evaluate(model, step):
        steps.append(step)
        return {"accuracy": 0.5}

    run(fabric, tmp_path, evaluate=evaluate, schedule=enough, evaluate_every=1)
    assert steps == [24, 48]  # 8 steps an epoch
    assert "8 in an epoch: 6 epochs, as the samples are few" in capsys.readouterr().out


def test_a_model_is_told_the_epoch_before_each_begins_and_after_resuming(fabric, tmp_path):
    class Listening(ToyModel):
        def __init__(self):
            super().__init__()
            self.heard = []

        def set_epoch(self, epoch):
            self.heard.append((epoch, self.calls))

    first, _ = run(fabric, tmp_path, Listening(), schedule=Schedule(steps=12), checkpoint_every=6)
    assert first.heard == [(0, 0), (1, 8)]  # 8 steps an epoch
    resumed, _ = run(fabric, tmp_path, Listening(), schedule=Schedule(steps=20), resume=True)
    assert resumed.heard == [(1, 0), (2, 4)]


def test_evaluation_leaves_no_trace_in_the_training(fabric, tmp_path):
    def evaluate(model, step):
        model(torch.randn(4, 6), torch.zeros(4, dtype=torch.int64))
        np.random.rand()  # noqa: NPY002
        return {}

    torch.manual_seed(1)
    quiet, _ = run(fabric, tmp_path / "quiet", ToyModel(), schedule=Schedule(epochs=2))
    torch.manual_seed(1)
    watched, _ = run(fabric, tmp_path / "watched", ToyModel(), schedule=Schedule(epochs=2), evaluate=evaluate)
    assert_identical(weights(quiet), weights(watched))
    assert watched.training


def test_frozen_parts_stay_as_they_are_batch_norm_included(fabric, tmp_path):
    model = ToyModel()
    before = weights(model)
    run(fabric, tmp_path, model, frozen=("body",), evaluate=lambda model, step: {}, schedule=Schedule(epochs=2))
    changed = {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])}
    assert changed == {
        *("classifier.weight", "classifier.bias", "criterion.statistics.positive", "criterion.statistics.negative")
    }


class Unlucky(ToyModel):
    """One of two losses is not finite at some call."""

    def __init__(self, value, at):
        super().__init__(stochastic=False)
        self.value, self.at = value, at

    def forward(self, images, targets):
        losses = super().forward(images, targets)
        if self.calls == self.at:
            losses["size"] = losses["size"] * self.value
        return losses


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite_stops_the_run_naming_step_loss_and_files(fabric, tmp_path, value):
    model = Unlucky(value, at=6)
    with pytest.raises(EngineError) as caught:
        run(fabric, tmp_path, model, checkpoint_every=2, sample_name=lambda index: f"image_{index}.png")
    message = str(caught.value)
    assert message.startswith(f"loss size is {value} at step 6; batch: image_")
    assert message.count(".png") == 8
    last = checkpoint_files(tmp_path)[-1]
    assert f"the last good checkpoint is {last}" in message
    assert "\n" not in message
    assert load_checkpoint(last)["step"] == 4
    assert all(parameter.isfinite().all() for parameter in model.parameters())


def test_the_named_files_are_those_of_the_batch(fabric, tmp_path):
    class Poisoned(NoisyVectors):
        def __getitem__(self, index):
            vector, label = super().__getitem__(index)
            return (vector * float("nan") if index == 37 else vector), label

    with pytest.raises(EngineError, match=r"classification is nan, size is nan at step \d+; batch: .*\bsample 37\b"):
        run(fabric, tmp_path, dataset=Poisoned(), accumulate=2)


def test_weights_that_are_not_finite_are_never_saved(fabric, tmp_path):
    class NanGradient(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            return gradient * float("nan")

    class Deceptive(ToyModel):
        def forward(self, images, targets):
            losses = super().forward(images, targets)
            return {**losses, "size": NanGradient.apply(losses["size"])} if self.calls == 4 else losses

    with pytest.raises(EngineError, match=r"the weights body.0.weight are not finite at step 4"):
        run(fabric, tmp_path, Deceptive(stochastic=False), checkpoint_every=2)
    assert load_checkpoint(checkpoint_files(tmp_path)[-1])["step"] == 2


def test_skipped_images_are_counted_in_log_result_and_checkpoint(fabric, tmp_path, capsys):
    class Images(NoisyVectors):
        def __getitem__(self, index):
            with Image.open(tmp_path / f"{index % 2}.png") as image:
                assert image.size == (4, 4)
            return super().__getitem__(index)

    Image.new("L", (4, 4)).save(tmp_path / "0.png")
    (tmp_path / "1.png").write_bytes(b"broken")
    _, result = run(
        fabric,
        tmp_path / "run",
        dataset=Images(),
        on_error="skip",
        sample_name=lambda index: f"{index % 2}.png",
    )
    assert result.skipped == {"1.png": 32}
    assert read_metrics(tmp_path / "run")[-1]["skipped"] == 32
    output = capsys.readouterr().out
    assert output.count("warning: cannot read 1.png") == 1
    assert "skipped 32 times: 1.png (32x)" in output


def test_channels_last_trains_the_same_weights(fabric, tmp_path):
    class Convolution(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, NUM_CLASSES, 3)
            self.is_channels_last = False

        def forward(self, images, targets):
            self.is_channels_last = images.is_contiguous(memory_format=torch.channels_last)
            return {"loss": nn.functional.cross_entropy(self.conv(images).mean((2, 3)), targets)}

    class Pictures(NoisyVectors):
        def __getitem__(self, index):
            return torch.randn(3, 5, 5), self.labels[index]

    def trained(**changes):
        torch.manual_seed(9)
        return run(fabric, tmp_path / str(len(changes)), Convolution(), Pictures(), **changes)[0]

    plain, other = trained(), trained(channels_last=True)
    assert other.is_channels_last
    assert not plain.is_channels_last
    torch.testing.assert_close(plain.state_dict(), other.state_dict())


@pytest.mark.slow
def test_a_compiled_model_trains_the_same_weights_under_the_same_names(fabric, tmp_path):
    compiled, _ = run(fabric, tmp_path / "compiled", compile=True, ema=Ema())
    plain, _ = run(fabric, tmp_path / "plain", ema=Ema())
    torch.testing.assert_close(compiled.state_dict(), plain.state_dict(), atol=1e-5, rtol=1e-4)
    assert compiled._compiled_call_impl is not None


def test_a_checkpoint_of_another_model_is_refused_in_one_line(fabric, tmp_path):
    run(fabric, tmp_path)
    with pytest.raises(EngineError, match=r"another model.*body.1.running_mean") as caught:
        run(fabric, tmp_path, ToyModel(stochastic=True), resume=True)
    assert "\n" not in str(caught.value)


def test_a_model_that_returns_no_dictionary_is_told_so(fabric, tmp_path):
    class Wrong(ToyModel):
        def forward(self, images, targets):
            return super().forward(images, targets)["classification"]

    with pytest.raises(TypeError, match="must give a dictionary of losses, got Tensor"):
        run(fabric, tmp_path, Wrong())
