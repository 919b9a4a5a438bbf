"""Files in each real layout, read by what a training reads them with."""

from dataclasses import dataclass, replace

import pytest
import torch
from torch import nn

from equigrad.models.backbones.pretrained import load_backbone, read_weights
from equigrad.tasks.backbones import SmallConv
from equigrad.tasks.smoke_test.generated_weights import LAYOUTS, V1C_LAYOUTS, GeneratedWeights


class Block(nn.Module):
    """The end of a ResNet."""

    def __init__(self) -> None:
        super().__init__()
        self.conv3, self.bn3 = nn.Conv2d(4, 8, 1), nn.BatchNorm2d(8)


class Network(nn.Module):
    """What a ResNet begins and ends with."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1, self.layer4 = nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.Sequential(Block())


@dataclass(frozen=True)
class Backbone:
    """Settings of the network."""

    weights: str | None = "torchvision"
    width: int = 4

    def build(self) -> nn.Module:
        network = Network()
        if self.weights is not None:
            load_backbone(network, read_weights(self.weights), self.weights)
        return network


def whole(network: nn.Module) -> dict[str, torch.Tensor]:
    return {**network.state_dict(), "fc.weight": torch.zeros(10, 8), "fc.bias": torch.zeros(10)}


@pytest.mark.parametrize("layout", [*LAYOUTS, *V1C_LAYOUTS], ids=lambda layout: layout.__name__)
def test_a_backbone_takes_all_its_weights_from_a_file_of_each_layout(tmp_path, layout):
    network, loaded = Network(), Network()
    file = layout(whole(network), tmp_path / "weights")
    load_backbone(loaded, read_weights(file), str(file))
    torch.testing.assert_close(loaded.state_dict(), network.state_dict(), rtol=0, atol=0)


def test_rows_try_one_layout_after_the_other_and_then_share_a_file(tmp_path):
    weights, suffixes = GeneratedWeights(tmp_path), []
    for _ in range(len(LAYOUTS) + 2):
        changed = weights.instead_of_real(Backbone())
        changed.build()  # reads the file
        suffixes.append(changed.weights.partition(".")[2])
    assert suffixes == ["pth", "safetensors", "pth.tar", "pth", "pt", "pth", "pt", "pt", "pt"]
    assert len(list(tmp_path.iterdir())) == 1


def test_another_network_has_a_file_of_its_own_and_goes_on_with_the_next_layout(tmp_path):
    weights = GeneratedWeights(tmp_path)
    first, second = (weights.instead_of_real(replace(Backbone(), width=width)) for width in (4, 8))
    assert first.weights.endswith(".pth")
    assert second.weights.endswith(".safetensors")
    assert len(list(tmp_path.iterdir())) == 2


def test_v1c_files_are_those_of_mmcv_and_mmsegmentation(tmp_path):
    weights = GeneratedWeights(tmp_path)
    files = [weights.instead_of_real(Backbone("resnet50_v1c.pth")).weights for _ in range(2)]
    names = list(read_weights(files[1]))
    assert names[0] == "backbone.conv1.weight"
    assert names[-1].startswith("decode_head.")


def test_backbones_without_real_weights_stay_as_they_are(tmp_path):
    weights = GeneratedWeights(tmp_path)
    assert weights.instead_of_real(SmallConv()) == SmallConv()
    assert weights.instead_of_real(Backbone("mine.pth")) == Backbone("mine.pth")
