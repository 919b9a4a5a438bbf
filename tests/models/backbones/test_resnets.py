import pytest
import torch
import torchvision
from torch import nn
from torch.testing import assert_close

import equigrad
from equigrad.models.backbones.resnets import ResNetFeatures, resnet50, resnet101, resnet152, resnext50
from equigrad.models.classification.classifier import build_classifier

PUBLISHED = {resnet50: 25_557_032, resnext50: 25_028_904, resnet101: 44_549_160, resnet152: 60_192_808}


@pytest.mark.parametrize("build", PUBLISHED, ids=lambda build: build.__name__)
def test_parameters_are_as_many_as_torchvision_publishes(build):
    with torch.device("meta"):
        model = build_classifier(build(), 1000, nn.Identity(), equigrad.SoftmaxScores())
    assert sum(parameter.numel() for parameter in model.parameters()) == PUBLISHED[build]


def test_weights_of_a_file_give_torchvisions_logits(tmp_path):
    reference = torchvision.models.resnet50().eval()
    torch.save(reference.state_dict(), tmp_path / "resnet50.pth")
    backbone = resnet50(tmp_path / "resnet50.pth").eval()
    images = torch.randint(0, 256, (1, 3, 64, 64), dtype=torch.uint8)
    with torch.inference_mode():
        features = backbone(images)
        assert features.shape == (1, backbone.num_features)
        assert_close(reference.fc(features), reference(backbone.normalization(images)))


def test_weights_of_another_network_are_refused(tmp_path):
    torch.save(torchvision.models.resnet18().state_dict(), tmp_path / "resnet18.pth")
    with pytest.raises(ValueError, match=r"resnet18\.pth: .* the first is layer1\.0\.conv3\.weight"):
        resnet50(tmp_path / "resnet18.pth")


def test_parts_have_the_documented_paths():
    with torch.device("meta"):
        names = {name for name, _ in ResNetFeatures([1, 1, 1, 3]).named_modules()}
    assert {"conv1", "bn1", "layer1", "layer2", "layer3", "layer4", "layer4.2"} <= names
