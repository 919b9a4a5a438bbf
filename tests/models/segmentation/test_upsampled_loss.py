import math
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

import equigrad
from equigrad.models.segmentation.upsampled_loss import DecoderResolutionLoss, LabelResolutionLoss, TiledLoss

NUM_CLASSES = 5
SIZE = (13, 17)  # no multiple of the logits' 4 x 5
COUNTS = [50, 20, 10, 5, 1]
TILED = {
    "cross-entropy": lambda: equigrad.CrossEntropyLoss(),
    "weighted cross-entropy": lambda: equigrad.CrossEntropyLoss(weight=COUNTS),
    "BCE": lambda: equigrad.BinaryCrossEntropyLoss(),
    "focal": lambda: equigrad.FocalLoss(),
    "balanced softmax": lambda: equigrad.BalancedSoftmaxLoss(COUNTS),
    "Softmax-EQL": lambda: equigrad.SoftmaxEqualizationLoss(NUM_CLASSES),
    "Sigmoid-EQL": lambda: equigrad.SigmoidEqualizationLoss(NUM_CLASSES),
    "Sigmoid-EQL that forgets": lambda: equigrad.SigmoidEqualizationLoss(NUM_CLASSES, half_life=2.0),
    "EFL": lambda: equigrad.EqualizedFocalLoss(NUM_CLASSES),
}
REFUSED = {
    "Seesaw": (lambda: equigrad.SeesawLoss(NUM_CLASSES), "state besides its statistics, category_counts"),
    "LDAM": (lambda: equigrad.LDAMLoss(COUNTS), "state besides its statistics, num_steps"),
    "BAGS": (lambda: equigrad.GroupedSoftmaxLoss(COUNTS), "state besides its statistics, uniform"),
    "federated": (lambda: equigrad.FederatedLoss(COUNTS), "state besides its statistics, uniform"),
    "objectness": (
        lambda: equigrad.WithObjectness(equigrad.SigmoidEqualizationLoss(NUM_CLASSES - 1)),
        "state besides its statistics, loss.statistics",
    ),
    "LADE": (lambda: equigrad.LADELoss(COUNTS), "not a mean over the counted pixels"),
    "a sum": (lambda: equigrad.CrossEntropyLoss(reduction="sum"), "not a mean over the counted pixels"),
}


@pytest.fixture
def batches():
    """Three batches of logits (2, C, 4, 5) and labels (2, 13, 17), a tenth of them ignored."""
    generator = torch.Generator().manual_seed(3)
    result = []
    for _ in range(3):
        logits = torch.randn(2, NUM_CLASSES, 4, 5, dtype=torch.float64, generator=generator) * 3
        labels = torch.randint(NUM_CLASSES, (2, *SIZE), generator=generator)
        labels[torch.rand(2, *SIZE, generator=generator) < 0.1] = equigrad.IGNORE
        result.append((logits, labels))
    return result


def loss_and_gradient(loss_fn, logits, labels):
    logits = logits.clone().requires_grad_()
    loss = loss_fn(logits, labels)
    (3 * loss).backward()
    return loss.detach(), logits.grad


@pytest.mark.parametrize("build", TILED.values(), ids=TILED)
@pytest.mark.parametrize("max_elements", [1, 700, 10**6])
def test_tiles_give_the_loss_the_gradient_and_the_statistics_of_the_whole(batches, build, max_elements):
    whole, tiled = LabelResolutionLoss(build()), TiledLoss(build(), max_elements=max_elements)
    for logits, labels in batches:  # from the second on, the statistics of the first decide about the weights
        expected, gradient = loss_and_gradient(whole, logits, labels)
        result, tiled_gradient = loss_and_gradient(tiled, logits, labels)
        assert_close(result, expected, rtol=1e-12, atol=0)
        assert_close(tiled_gradient, gradient, rtol=1e-10, atol=1e-14)
        for name, value in whole.state_dict().items():
            assert value.sum() > 0 or name.endswith("skipped")
            assert_close(tiled.state_dict()[name], value, rtol=1e-12, atol=0)


@pytest.mark.parametrize(("build", "message"), REFUSED.values(), ids=REFUSED)
def test_losses_that_look_at_the_batch_as_a_whole_cannot_be_tiled(batches, build, message):
    with pytest.raises(ValueError, match=message):
        TiledLoss(build())(*batches[0])


@pytest.mark.parametrize("wrapper", [LabelResolutionLoss, DecoderResolutionLoss, TiledLoss])
def test_statistics_move_in_training_with_gradients_only(batches, wrapper):
    logits, labels = batches[0]
    loss_fn = wrapper(equigrad.SoftmaxEqualizationLoss(NUM_CLASSES))
    with torch.no_grad():
        without_gradients = loss_fn(logits, labels)
    loss_fn.eval()
    assert_close(loss_fn(logits, labels), without_gradients)
    assert not loss_fn.training
    assert not loss_fn.loss.training
    assert loss_fn.loss.statistics.positive.sum() == 0
    loss_fn.train()
    loss_fn(logits, labels)
    assert loss_fn.loss.training
    assert loss_fn.loss.statistics.positive.sum() > 0


@pytest.mark.parametrize("wrapper", [LabelResolutionLoss, TiledLoss])
def test_the_ignored_label_is_that_of_the_loss_inside(batches, wrapper):
    expected_fn = wrapper(equigrad.SoftmaxEqualizationLoss(NUM_CLASSES))
    loss_fn = wrapper(equigrad.SoftmaxEqualizationLoss(NUM_CLASSES, ignore_index=255))
    for logits, labels in batches:
        expected = loss_and_gradient(expected_fn, logits, labels)
        result = loss_and_gradient(loss_fn, logits, labels.masked_fill(labels == equigrad.IGNORE, 255))
        assert_close(result, expected, rtol=0, atol=0)
    assert_close(loss_fn.state_dict(), expected_fn.state_dict(), rtol=0, atol=0)


def test_the_tiles_of_a_batch_are_one_step_of_forgetting(batches):
    """Half of the old statistics stay, however many tiles there are."""
    loss_fn = TiledLoss(equigrad.SigmoidEqualizationLoss(NUM_CLASSES, half_life=1.0), max_elements=1)
    loss_fn.loss.statistics.positive.fill_(1e6)
    logits, labels = batches[0]
    loss_fn(logits, labels)
    assert ((loss_fn.loss.statistics.positive - 5e5).abs() < 10).all()


@pytest.mark.parametrize("wrapper", [LabelResolutionLoss, DecoderResolutionLoss, TiledLoss])
def test_a_batch_without_labels_costs_nothing_and_back_propagates(batches, wrapper):
    logits, labels = batches[0]
    loss_fn = wrapper(equigrad.SigmoidEqualizationLoss(NUM_CLASSES))
    loss, gradient = loss_and_gradient(loss_fn, logits, torch.full_like(labels, equigrad.IGNORE))
    assert loss == 0
    assert gradient.abs().sum() == 0
    assert loss_fn.loss.statistics.negative.sum() == 0


def test_one_logit_against_four_pixels_by_hand():
    """One place spreads over 2 x 2 pixels: three of category 0, one ignored, so the loss is that of one pixel."""
    logits = torch.tensor([math.log(3.0), 0.0], dtype=torch.float64).view(1, 2, 1, 1)
    labels = torch.tensor([[[0, 0], [0, equigrad.IGNORE]]])
    for wrapper in (LabelResolutionLoss, TiledLoss):
        loss_fn = wrapper(equigrad.SoftmaxEqualizationLoss(2))
        loss, gradient = loss_and_gradient(loss_fn, logits, labels)
        assert loss.item() == pytest.approx(math.log(4 / 3))  # p_0 = 3/4
        assert gradient.flatten().tolist() == pytest.approx([-3 / 4, 3 / 4])  # 3 times p - y
        # Three pixels with |p - y| = 1/4 each, over three counted pixels.
        assert loss_fn.loss.statistics.positive.tolist() == pytest.approx([1 / 4, 0])
        assert loss_fn.loss.statistics.negative.tolist() == pytest.approx([0, 1 / 4])


def test_two_logits_against_four_pixels_of_a_row_by_hand():
    """Places at 1/2 and 3/2 of a row of 2: the pixels in between see 3/4 of one and 1/4 of the other."""
    logits = torch.tensor([[0.0, 4.0], [0.0, 0.0]], dtype=torch.float64).view(1, 2, 1, 2)
    labels = torch.tensor([[[1, 1, 0, 0]]])
    margins = [0.0, -1.0, 3.0, 4.0]  # of the label's logit over the other
    expected = sum(math.log1p(math.exp(-margin)) for margin in margins) / 4
    loss_fn = TiledLoss(equigrad.CrossEntropyLoss())
    assert loss_fn(logits, labels).item() == pytest.approx(expected)


def test_at_the_decoders_resolution_a_logit_meets_the_label_in_the_middle(batches):
    labels = torch.arange(64).view(1, 8, 8)
    seen = []

    class Record(nn.Module):
        def forward(self, logits, labels):
            seen.append(labels)
            return logits.sum()

    DecoderResolutionLoss(Record())(torch.zeros(1, 64, 2, 2), labels)
    assert seen[0].tolist() == [[[18, 22], [50, 54]]]


def test_at_the_decoders_resolution_labels_of_its_size_stay(batches):
    logits, _ = batches[0]
    labels = torch.randint(NUM_CLASSES, (2, 4, 5))
    loss = DecoderResolutionLoss(equigrad.CrossEntropyLoss())(logits, labels)
    assert_close(loss, F.cross_entropy(logits, labels))


@pytest.mark.parametrize("wrapper", [LabelResolutionLoss, TiledLoss])
def test_half_precision_logits_have_a_float32_loss_near_the_exact_one(batches, wrapper):
    logits, labels = batches[0]
    exact, gradient = loss_and_gradient(wrapper(equigrad.CrossEntropyLoss()), logits, labels)
    loss, half_gradient = loss_and_gradient(wrapper(equigrad.CrossEntropyLoss()), logits.bfloat16(), labels)
    assert loss.dtype == torch.float32
    assert half_gradient.dtype == torch.bfloat16
    assert_close(loss.double(), exact, rtol=0.02, atol=0)
    assert_close(half_gradient.double(), gradient, rtol=0.05, atol=2e-4)


@pytest.mark.parametrize("build", [TILED["Softmax-EQL"], TILED["cross-entropy"]])
def test_whatever_the_wrapper_the_checkpoint_is_the_same(build):
    wrappers = (LabelResolutionLoss, DecoderResolutionLoss, TiledLoss)
    names = [list(wrapper(build()).state_dict()) for wrapper in wrappers]
    assert names[0] == names[1] == names[2]


def test_a_second_derivative_of_tiles_is_refused(batches):
    logits, labels = batches[0]
    logits.requires_grad_()
    loss = TiledLoss(equigrad.CrossEntropyLoss())(logits, labels)
    with pytest.raises(RuntimeError, match="differentiated twice"):
        torch.autograd.grad(loss, logits, create_graph=True)


@pytest.mark.parametrize("wrapper", [LabelResolutionLoss, TiledLoss])
def test_a_normalizer_takes_the_place_of_the_counted_pixels(batches, wrapper):
    plain, normalized = (wrapper(equigrad.SoftmaxEqualizationLoss(NUM_CLASSES)) for _ in range(2))
    for logits, labels in batches:
        expected, gradient = loss_and_gradient(plain, logits, labels)
        counted = torch.tensor(float(normalized.num_counted(labels)), dtype=torch.float64)
        result, half = loss_and_gradient(partial(normalized, normalizer=2 * counted), logits, labels)
        assert_close(2 * result, expected, rtol=1e-12, atol=0)
        assert_close(2 * half, gradient, rtol=1e-10, atol=1e-14)
    assert_close(2 * normalized.loss.statistics.positive, plain.loss.statistics.positive, rtol=1e-3, atol=0)
