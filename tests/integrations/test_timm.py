import importlib

import pytest
import torch
from torch import nn
from torch.testing import assert_close

timm = pytest.importorskip("timm", reason="needs timm")

from tests.integrations.classifier_runs import NUM_CLASSES, network, timm_run

import equigrad
from equigrad import models
from equigrad.integrations import check
from equigrad.integrations.timm import ClassificationTask

pytestmark = pytest.mark.integrations


def test_all_five_checks_pass():
    report = check(timm_run)
    assert [result.state for result in report.results] == ["pass"] * 5, report


def test_the_task_of_timm_alone_loses_the_statistics():
    task = timm.task.ClassificationTask(network(), equigrad.SoftmaxEqualizationLoss(NUM_CLASSES), verbose=False)
    assert not any("statistics" in name for name in task.get_checkpoint_state()["state_dict"])
    assert "task_state" not in task.get_checkpoint_state()


def test_a_timm_whose_checkpoints_cannot_hold_the_statistics_is_refused(monkeypatch):
    monkeypatch.delattr(timm.task.TrainingTask, "get_task_state")
    with pytest.raises(ImportError, match=r"needs timm 1\.0\.27"):
        importlib.reload(importlib.import_module("equigrad.integrations.timm"))


def test_a_checkpoint_without_statistics_is_read_with_a_warning():
    plain = timm.task.ClassificationTask(network(), nn.CrossEntropyLoss(), verbose=False)
    task = ClassificationTask(network(), equigrad.SoftmaxEqualizationLoss(NUM_CLASSES), verbose=False)
    with pytest.warns(UserWarning, match="they start at zero"):
        task.load_checkpoint_state(plain.get_checkpoint_state()["state_dict"])


def test_mixup_gives_soft_labels_that_the_loss_takes():
    mixup = timm.data.Mixup(mixup_alpha=1.0, num_classes=NUM_CLASSES, label_smoothing=0.0)
    images, labels = mixup(torch.randn(4, 3, 8, 8), torch.tensor([0, 1, 2, 3]))
    net = nn.Sequential(nn.Flatten(), nn.Linear(192, NUM_CLASSES))
    task = ClassificationTask(net, equigrad.SoftmaxEqualizationLoss(NUM_CLASSES), verbose=False)
    result = task(images, labels)
    assert_close(result["loss"], nn.functional.cross_entropy(result["output"], labels))
    assert task.criterion.statistics.positive.all()


def test_networks_of_timm_are_backbones_of_classifiers_and_detectors():
    loss = equigrad.SoftmaxEqualizationLoss(NUM_CLASSES)
    model = models.build_classifier(models.timm_backbone("test_resnet"), NUM_CLASSES, loss, equigrad.SoftmaxScores())
    images = torch.rand(2, 3, 32, 32)
    assert len(model.eval()(images)) == 2
    assert len(models.timm_pyramid("test_resnet", num_channels=16)(images)) == 5
