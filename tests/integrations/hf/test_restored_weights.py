import pytest
import torch
from torch.testing import assert_close

pytest.importorskip("transformers", reason="needs transformers")

from tests.integrations.hf.classification_run import tiny_vit

import equigrad
from equigrad.integrations import hf

pytestmark = pytest.mark.integrations


def test_weights_come_back_and_statistics_stay(tmp_path):
    saved = tiny_vit()
    torch.nn.init.constant_(saved.vit.layers[0].mlp.fc1.weight, 0.5)
    saved.save_pretrained(tmp_path)
    model = tiny_vit()
    model.classifier.weight.requires_grad_(False)
    hf.loss(model, equigrad.SigmoidEqualizationLoss(4))
    model.equalization.statistics.positive.fill_(3.0)
    hf.restore(model, tmp_path)
    assert_close(model.vit.layers[0].mlp.fc1.weight, saved.vit.layers[0].mlp.fc1.weight)
    assert (model.equalization.statistics.positive == 3).all()
    assert not model.classifier.weight.requires_grad


def test_a_checkpoint_without_all_weights_is_refused(tmp_path):
    tiny_vit().save_pretrained(tmp_path)
    model = tiny_vit()
    model.extra = torch.nn.Linear(2, 2)
    with pytest.raises(ValueError, match=r"no weights for extra\.weight \(2 are missing\)"):
        hf.restore(model, tmp_path)
