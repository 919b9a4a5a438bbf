import torch
from torch.testing import assert_close

import equigrad
from equigrad.models.backbones.small_conv_net import SmallConvNet
from equigrad.models.classification.classifier import build_classifier
from equigrad.models.deployment.classifier import DeployedClassifier


@torch.no_grad()
def test_scores_are_those_of_the_model_and_the_statistics_stay_behind():
    torch.manual_seed(0)
    model = build_classifier(
        SmallConvNet(width=4), 5, equigrad.SoftmaxEqualizationLoss(5), equigrad.SoftmaxScores()
    ).eval()
    deployed = DeployedClassifier(model).eval()
    images = torch.randint(0, 256, (3, 3, 32, 32), dtype=torch.uint8)
    assert_close(deployed(images), torch.stack([one["scores"] for one in model(images)]))
    assert any("statistics" in name for name in model.state_dict())
    assert not [name for name in deployed.state_dict() if "loss" in name]
