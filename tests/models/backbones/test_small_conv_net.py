import pytest
import torch
from torch.nn.functional import cross_entropy

from equigrad.models.backbones.small_conv_net import SmallConvNet


@pytest.mark.parametrize("size", [24, 32, 33, 64])
def test_any_small_image_gives_one_feature_vector(size):
    net = SmallConvNet(4)
    assert net(torch.rand(2, 3, size, size)).shape == (2, net.num_features)


def test_it_learns_what_a_linear_layer_cannot():
    """Stripes, across or along, at a random phase: no pixel tells them apart."""
    phase = torch.randint(0, 2, (64, 1, 1, 1))
    stripes = ((torch.arange(24)[None, None, :, None] // 2 + phase) % 2).float().expand(64, 3, 24, 24)
    labels = torch.arange(64) % 2
    images = torch.where(labels[:, None, None, None] == 0, stripes, stripes.transpose(2, 3))
    net, layer = SmallConvNet(4), torch.nn.Linear(32, 2)
    optimizer = torch.optim.SGD([*net.parameters(), *layer.parameters()], lr=0.1, momentum=0.9)
    for _ in range(20):
        optimizer.zero_grad()
        cross_entropy(layer(net(images)), labels).backward()
        optimizer.step()
    assert (layer(net.eval()(images)).argmax(1) == labels).float().mean() == 1


def test_nonsense_sizes_are_refused():
    with pytest.raises(ValueError, match="at least 1"):
        SmallConvNet(0)
