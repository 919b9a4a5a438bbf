import pytest
import torch
from torch.testing import assert_close
from torchvision.models.detection.image_list import ImageList
from torchvision.models.detection.rpn import RegionProposalNetwork

from equigrad.models.detection.two_stage.proposals import proposal_network

SIZE = (64, 96)


def inputs(dtype=torch.float32):
    features = {"0": torch.randn(2, 8, 8, 12), "1": torch.randn(2, 8, 4, 6)}
    images = ImageList(torch.zeros(2, 3, *SIZE), [SIZE, (40, 50)])
    return images, {name: maps.to(dtype) for name, maps in features.items()}


def test_anchors_are_squares_and_two_rectangles_of_their_area_around_every_cell():
    network = proposal_network(8, (8, 16), anchor_scale=4)
    images, features = inputs()
    anchors = network.anchor_generator(images, list(features.values()))[0]
    assert len(anchors) == 3 * (8 * 12 + 4 * 6)
    sides = anchors[:, 2:] - anchors[:, :2]
    of_a_cell = sides[[0, 1, 2, -3, -2, -1]]  # torchvision rounds them
    assert_close(of_a_cell.prod(1).sqrt(), torch.tensor([32.0] * 3 + [64.0] * 3), atol=1, rtol=0)
    assert_close(of_a_cell[:, 1] / of_a_cell[:, 0], torch.tensor([0.5, 1, 2] * 2), atol=0.1, rtol=0)
    assert_close((anchors[1, :2] + anchors[1, 2:]) / 2, torch.zeros(2))


def test_proposals_are_few_and_inside_their_image():
    network = proposal_network(8, (8, 16), num_proposals=20).eval()
    proposals, losses = network(*inputs())
    assert not losses
    assert [len(boxes) for boxes in proposals] == [20, 20]
    for boxes, (height, width) in zip(proposals, [SIZE, (40, 50)], strict=True):
        assert boxes.min() >= 0
        assert boxes[:, 2].max() <= width
        assert boxes[:, 3].max() <= height


def test_half_precision_changes_neither_anchors_nor_the_precision_of_boxes():
    network = proposal_network(8, (8, 16)).bfloat16().eval()
    images, features = inputs(torch.bfloat16)
    proposals, _ = network(images, features)
    assert all(boxes.dtype == torch.float32 for boxes in proposals)
    expected = proposal_network(8, (8, 16)).anchor_generator(*inputs()[:1], list(inputs()[1].values()))[0]
    assert_close(network.anchor_generator(images, list(features.values()))[0], expected)


@pytest.mark.parametrize("num_samples", [2, 256])
def test_training_gives_both_losses_with_a_gradient_of_the_head(num_samples):
    network = proposal_network(8, (8, 16), anchor_scale=4, num_samples=num_samples)
    targets = [{"boxes": torch.tensor([[8.0, 8, 40, 40]])}, {"boxes": torch.empty(0, 4)}]
    proposals, losses = network(*inputs(), targets)
    assert losses.keys() == {"loss_objectness", "loss_rpn_box_reg"}
    assert len(proposals) == 2
    # A new head answers about 0: the mean cross-entropy of its samples is log 2, however many they are.
    assert_close(losses["loss_objectness"], torch.tensor(2.0).log(), atol=0.05, rtol=0)
    sum(losses.values()).backward()
    assert all((parameter.grad != 0).any() for parameter in network.head.parameters())


def loss_inputs():
    generator = torch.Generator().manual_seed(0)
    labels = [torch.tensor([1.0, 0.0, -1.0, 1.0, 0.0, 0.0])]
    values, wanted = torch.randn(6, 4, generator=generator), [torch.randn(6, 4, generator=generator)]
    return torch.randn(6, 1, generator=generator), values, labels, wanted


def test_losses_are_torchvisions():
    network, inputs = proposal_network(8, (4, 8)), loss_inputs()
    theirs = RegionProposalNetwork.compute_loss(network, *inputs)
    assert_close(network.compute_loss(*inputs), theirs)


def test_the_box_loss_can_be_plain_l1():
    objectness, values, labels, wanted = loss_inputs()
    _, box = proposal_network(8, (4, 8), box_beta=0.0).compute_loss(objectness, values, labels, wanted)
    assert_close(box, (values - wanted[0])[[0, 3]].abs().sum() / 5)  # five anchors are sampled, two are positive
