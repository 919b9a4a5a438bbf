import copy
import os
import pickle

import pytest
import torch
from torch.testing import assert_close

pytest.importorskip("transformers", reason="needs transformers and accelerate")

from tests.integrations.hf.classification_run import ClassificationRun, Gradients, make_trainer, tiny_vit

import equigrad
from equigrad.integrations import check, hf
from quick_processes import run_as_torchrun

pytestmark = pytest.mark.integrations


@pytest.mark.parametrize("micro_batches", [2, 4])
def test_all_five_checks_pass(micro_batches):
    report = check(ClassificationRun, micro_batches=micro_batches)
    assert [result.state for result in report.results] == ["pass"] * 5, report


def test_a_mean_that_ignores_the_count_has_k_times_the_gradient():
    class Naive(ClassificationRun):
        def __init__(self):
            super().__init__()
            criterion = equigrad.CrossEntropyLoss()
            self.loss = lambda outputs, labels, num_items_in_batch: criterion(outputs["logits"], labels)

    reasons = {result.name: result.reason for result in check(Naive, micro_batches=4).results}
    assert "is 4 times as large" in reasons["accumulates"]


def test_the_trainer_alone_resumes_a_renamed_model_with_its_initial_weights():
    """The Trainer reads a checkpoint under the names it was saved with (transformers issue 43701)."""

    class Plain(ClassificationRun):
        def resume(self, folder):
            self.trainer(max_steps=2).train(resume_from_checkpoint=str(folder / "checkpoint-2"))

    resumed = {result.name: result for result in check(Plain).results}["resumes"]
    assert resumed.state == "fail"
    assert resumed.reason.startswith("resuming lost the weights vit.")


def test_micro_batches_are_recorded_like_the_joined_batch(tmp_path):
    found = []
    for micro_batches in (1, 4):
        model = tiny_vit()
        loss = hf.loss(model, equigrad.SoftmaxEqualizationLoss(4))
        sizes = {"per_device_train_batch_size": 8 // micro_batches, "gradient_accumulation_steps": micro_batches}
        make_trainer(model, loss, tmp_path, **sizes).train()
        found.append(model.equalization.statistics)
    assert_close(found[1].positive, found[0].positive)
    assert_close(found[1].negative, found[0].negative)


def test_evaluation_reports_the_mean_loss(tmp_path):
    model = tiny_vit()
    criterion = equigrad.SoftmaxEqualizationLoss(4)
    trainer = make_trainer(model, hf.loss(model, criterion), tmp_path)
    reported = trainer.evaluate()["eval_loss"]
    data = trainer.eval_dataset
    with torch.no_grad():
        expected = criterion(model.eval()(data.images).logits, torch.tensor([data[i]["labels"] for i in range(8)]))
    assert reported == pytest.approx(expected.item(), rel=1e-5)


def train_on_ranks(folder, across):
    """The gradient and the statistics of a step, which rank 0 writes to a file."""
    model = tiny_vit()
    loss = hf.loss(model, equigrad.SigmoidEqualizationLoss(4))
    gradients = Gradients()
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    trainer = make_trainer(
        model,
        loss,
        folder,
        callbacks=[gradients],
        max_grad_norm=0,
        per_device_train_batch_size=4 // ranks,
        gradient_accumulation_steps=2,
        average_tokens_across_devices=across,
        ddp_backend="gloo" if ranks > 1 else None,
    )
    trainer.train()
    statistics = model.equalization.statistics
    found = {name.removeprefix("module."): value for name, value in gradients.found.items()}
    if trainer.is_world_process_zero():
        torch.save((found, statistics.positive, statistics.negative), folder / "found.pt")
    return 0


@pytest.mark.parametrize("across", [True, False])
def test_two_ranks_train_like_one(across, tmp_path):
    found = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        if name == "one":
            train_on_ranks(folder, across)
        else:
            run_as_torchrun(train_on_ranks, folder, across, output=tmp_path / "log.txt")
        found.append(torch.load(folder / "found.pt"))
    assert_close(found[1], found[0], rtol=1e-4, atol=1e-6)


def test_label_smoothing_of_the_trainer_is_refused(tmp_path):
    model = tiny_vit()
    trainer = make_trainer(
        model, hf.loss(model, equigrad.SoftmaxEqualizationLoss(4)), tmp_path, label_smoothing_factor=0.1
    )
    with pytest.raises(ValueError, match=r"label_smoothing_factor=0\.1 does nothing"):
        trainer.train()


def test_an_interrupted_step_leaves_no_trace_in_the_next_training(tmp_path, monkeypatch):
    model = tiny_vit()
    loss = hf.loss(model, equigrad.SigmoidEqualizationLoss(4))
    two_parts = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2}
    trainer = make_trainer(model, loss, tmp_path, **two_parts)
    monkeypatch.setattr(trainer, "compute_loss", interrupted_after_one(trainer.compute_loss))
    with pytest.raises(ValueError, match="labels"):
        trainer.train()
    assert not model.equalization.statistics.positive.any()
    make_trainer(model, loss, tmp_path, **two_parts).train()
    alone = ClassificationRun()
    alone.train(1)
    assert_close(model.equalization.statistics.positive, alone.module.equalization.statistics.positive)


def interrupted_after_one(compute_loss):
    calls = iter([True])

    def compute(*arguments, **options):
        if next(calls, None):
            return compute_loss(*arguments, **options)
        raise ValueError("the labels of this batch cannot be read")

    return compute


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (equigrad.SoftmaxEqualizationLoss(5), "4 labels"),
        (equigrad.SoftmaxEqualizationLoss(4, ignore_index=255), "ignore_index must be -100"),
    ],
)
def test_a_loss_that_does_not_fit_is_refused(loss, message):
    with pytest.raises(ValueError, match=message):
        hf.loss(tiny_vit(), loss)


def test_a_batch_without_labels_is_named():
    function = hf.loss(tiny_vit(), equigrad.CrossEntropyLoss())
    with pytest.raises(ValueError, match="no `labels`"):
        function({"logits": torch.zeros(2, 4)}, None, num_items_in_batch=2)


def test_multi_label_targets_count_samples_and_not_numbers():
    criterion = equigrad.BinaryCrossEntropyLoss()
    function = hf.loss(tiny_vit(), criterion)
    logits, targets = torch.randn(6, 4), torch.randint(2, (6, 4)).float()
    assert_close(function({"logits": logits}, targets, num_items_in_batch=24), criterion(logits, targets))


def test_tokens_are_samples():
    function = hf.loss(tiny_vit(), equigrad.CrossEntropyLoss())
    logits, labels = torch.randn(2, 5, 4), torch.tensor([[0, 1, -100, 2, 3], [3, -100, 1, 1, -100]])
    expected = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
    assert_close(function((logits,), labels, num_items_in_batch=7), expected)


def test_the_function_can_be_copied_and_pickled_with_its_model():
    model = tiny_vit()
    function = hf.loss(model, equigrad.SigmoidEqualizationLoss(4))
    for copied_model, copied in (copy.deepcopy((model, function)), pickle.loads(pickle.dumps((model, function)))):
        assert copied.loss is copied_model.equalization


def test_a_model_without_the_loss_reads_the_checkpoint(tmp_path):
    run = ClassificationRun()
    run.train(1)
    run.module.save_pretrained(tmp_path)
    plain = type(run.module).from_pretrained(tmp_path)
    assert not hasattr(plain, "equalization")
    assert_close(plain.classifier.weight, run.module.classifier.weight)
