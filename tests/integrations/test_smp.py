import pytest
import torch
from tests.integrations.classifier_runs import smp_run
from torch import nn
from torch.testing import assert_close

import equigrad
from equigrad.integrations import check
from equigrad.integrations.smp import MaskLoss

pytestmark = pytest.mark.integrations


def test_all_five_checks_pass():
    pytest.importorskip("segmentation_models_pytorch", reason="needs segmentation_models_pytorch")
    report = check(smp_run)
    assert [result.state for result in report.results] == ["pass"] * 5, report


@pytest.mark.parametrize("shape", [(2, 5, 5), (2, 1, 5, 5)])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64])
def test_masks_with_a_channel_and_of_any_integers_are_label_maps(shape, dtype):
    logits = torch.randn(2, 4, 5, 5)
    labels = torch.randint(4, (2, 5, 5))
    labels[:, 0] = 255
    loss = MaskLoss(equigrad.CrossEntropyLoss(ignore_index=255))(logits, labels.reshape(shape).to(dtype))
    assert_close(loss, nn.functional.cross_entropy(logits, labels, ignore_index=255))


def test_masks_of_zeros_and_ones_for_each_category_stay_as_they_are():
    logits, masks = torch.randn(2, 4, 5, 5), torch.randint(2, (2, 4, 5, 5)).float()
    criterion = equigrad.BinaryCrossEntropyLoss()
    assert_close(MaskLoss(criterion)(logits, masks), criterion(logits, masks))


def test_a_float_mask_of_labels_is_refused():
    with pytest.raises(ValueError, match="masks must hold integers"):
        MaskLoss(equigrad.CrossEntropyLoss())(torch.randn(2, 4, 5, 5), torch.zeros(2, 5, 5))
