import pytest
import torch
import torch.distributed as dist
from torch.testing import assert_close

pytest.importorskip("transformers", reason="needs transformers, accelerate and scipy")

from tests.integrations.hf.classification_run import arguments, tiny_vit
from tests.integrations.hf.detection_models import MODELS, NUM_CLASSES, deformable_detr, images, rt_detr, targets
from tests.integrations.hf.detection_run import (
    DeformableDetrRun,
    DetectionRun,
    DFineRun,
    RTDetrV2Run,
    collate,
    samples,
)
from transformers import Trainer

import equigrad
from equigrad.integrations import check, hf
from quick_processes import run_as_torchrun

pytestmark = pytest.mark.integrations


@pytest.mark.parametrize("make", [DetectionRun, RTDetrV2Run, DFineRun, DeformableDetrRun])
def test_all_five_checks_pass(make):
    report = check(make)
    assert [result.state for result in report.results] == ["pass"] * 5, report


def forward(model, seed=0):
    """A training step on two images; the noise of denoising queries depends on the seed."""
    torch.manual_seed(seed)
    return model.train()(pixel_values=images(), labels=targets())


OWN_LOSSES = {name: equigrad.VarifocalLoss(constant_weight=True) for name in MODELS}
OWN_LOSSES["deformable_detr"] = equigrad.FocalLoss()


@pytest.mark.parametrize("name", MODELS)
def test_with_the_loss_of_the_host_every_number_stays(name):
    model = MODELS[name](**({} if name == "deformable_detr" else {"label_noise_ratio": 0.5, "box_noise_scale": 1.0}))
    own = forward(model)
    own.loss.backward()
    gradient = model.class_embed[0].weight.grad if hasattr(model, "class_embed") else None
    model.zero_grad()
    ours = forward(hf.equalize(model, OWN_LOSSES[name]))
    ours.loss.backward()
    assert ours.loss_dict.keys() == own.loss_dict.keys()
    assert_close(ours.loss_dict, own.loss_dict, rtol=1e-5, atol=1e-6)
    if gradient is not None:
        assert_close(model.class_embed[0].weight.grad, gradient, rtol=1e-4, atol=1e-6)


def test_all_calls_of_a_step_are_recorded_once_as_autograd_sees_them():
    model = hf.equalize(rt_detr(), equigrad.EqualizedVarifocalLoss(NUM_CLASSES, constant_weight=True))
    outputs = forward(model)
    logits = [outputs.intermediate_logits, outputs.enc_topk_logits]
    gradients = torch.autograd.grad(outputs.loss, logits)
    statistics = model._loss_function.loss.statistics
    total = statistics.positive + statistics.negative
    assert_close(total, sum(gradient.double().abs().flatten(0, -2).sum(0) for gradient in gradients))


def test_denoising_queries_count_unless_they_are_ignored():
    plain = rt_detr(num_denoising=0)
    found = {}
    for denoising in ("count", "ignore", "none"):
        model = plain if denoising == "none" else rt_detr()
        model.load_state_dict(plain.state_dict(), strict=False)
        hf.equalize(
            model, equigrad.EqualizedFocalLoss(NUM_CLASSES), denoising="count" if denoising == "none" else denoising
        )
        found[denoising] = (forward(model), model._loss_function.loss.statistics)[1]
    assert_close(found["ignore"].positive, found["none"].positive)
    assert (found["count"].positive > found["ignore"].positive).all()


def test_ignored_denoising_queries_are_trained_with_the_same_weights():
    losses = {}
    for denoising in ("count", "ignore"):
        model = hf.equalize(rt_detr(), equigrad.EqualizedFocalLoss(NUM_CLASSES), denoising=denoising)
        losses[denoising] = forward(model).loss_dict
    assert_close(losses["ignore"], losses["count"])


def test_the_attribute_that_looks_right_is_ignored_by_the_host():
    criterion = equigrad.EqualizedFocalLoss(NUM_CLASSES)
    model = rt_detr()
    model.loss_function = criterion  # what one would try first
    assert model.loss_function is not criterion
    hf.equalize(model, criterion)
    assert model.loss_function.loss is criterion


def test_a_model_is_equalized_again_with_another_loss():
    model = hf.equalize(rt_detr(), equigrad.EqualizedFocalLoss(NUM_CLASSES))
    hf.equalize(model, equigrad.SigmoidEqualizationLoss(NUM_CLASSES))
    forward(model).loss.backward()
    assert model._loss_function.loss.statistics.positive.any()


def statistics_of_rank(folder, objects):
    """The statistics after a step on an image of this rank, which rank 0 writes to a file."""
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = hf.equalize(rt_detr(), equigrad.EqualizedFocalLoss(NUM_CLASSES))
    model.train()(pixel_values=images()[rank : rank + 1], labels=targets(objects)[rank : rank + 1]).loss.backward()
    if rank == 0:
        torch.save(model._loss_function.loss.statistics.state_dict(), folder / "statistics.pt")
    dist.destroy_process_group()
    return 0


@pytest.mark.parametrize("objects", [((0, 0, 1), (2, 0, 3)), ((0, 0, 1), ())], ids=["equal", "a rank without objects"])
def test_two_ranks_record_what_one_does(objects, tmp_path):
    run_as_torchrun(statistics_of_rank, tmp_path, objects, output=tmp_path / "log.txt")
    found = torch.load(tmp_path / "statistics.pt")
    model = hf.equalize(rt_detr(), equigrad.EqualizedFocalLoss(NUM_CLASSES))
    model.train()(pixel_values=images(), labels=targets(objects))
    joined = model._loss_function.loss.statistics
    if objects[1]:
        assert_close(found["positive"], joined.positive, rtol=1e-4, atol=1e-6)
    else:  # the host divides by one object at least on each rank, and denoising groups depend on the images of a rank
        assert (found["positive"][:2] > 0).all()


def test_micro_batches_of_a_step_are_batches_of_their_own_without_the_callback(tmp_path):
    model = hf.equalize(rt_detr(), equigrad.EqualizedFocalLoss(NUM_CLASSES, half_life=1))
    sizes = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 2, "remove_unused_columns": False}
    found = []
    for callbacks in ([], [hf.BatchPerStep()]):
        model._loss_function.loss.statistics.reset()
        options = arguments(tmp_path, learning_rate=0.0, **sizes)
        Trainer(model, options, train_dataset=samples(), data_collator=collate, callbacks=callbacks).train()
        found.append(model._loss_function.loss.statistics.positive.clone())
    assert not torch.allclose(found[0], found[1])


@pytest.mark.parametrize(
    ("loss", "options", "message"),
    [
        (equigrad.EqualizedFocalLoss(5), {}, "4 labels"),
        (equigrad.SoftmaxEqualizationLoss(4), {}, "is a softmax"),
        (equigrad.EqualizedFocalLoss(4), {"denoising": "no"}, "denoising must be one of count, ignore"),
    ],
)
def test_a_loss_or_option_that_does_not_fit_is_refused(loss, options, message):
    with pytest.raises(ValueError, match=message):
        hf.equalize(deformable_detr(), loss, **options)


def test_other_models_are_refused_with_the_names_of_those_that_are_known():
    with pytest.raises(ValueError, match=r"ViTForImageClassification is none of .*RTDetrForObjectDetection"):
        hf.equalize(tiny_vit(), equigrad.EqualizedFocalLoss(4))


def test_a_model_without_the_loss_reads_the_checkpoint(tmp_path):
    model = hf.equalize(rt_detr(), equigrad.EqualizedFocalLoss(NUM_CLASSES))
    model.save_pretrained(tmp_path)
    plain = type(model).from_pretrained(tmp_path)
    assert not isinstance(plain.loss_function, torch.nn.Module)
