import pytest
import torch
from torch import nn
from torch.testing import assert_close

import equigrad
from equigrad.models.backbones.small_conv_net import SmallConvNet
from equigrad.models.classification.classifier import Classifier, build_classifier
from equigrad.models.classification.cosine_classifier import CosineClassifier


@pytest.fixture
def images():
    return torch.randint(0, 256, (4, 3, 24, 24), dtype=torch.uint8)


@pytest.fixture
def targets():
    return {"labels": torch.tensor([0, 1, 4, 2]), "paths": ["a", "b", "c", "d"]}


def softmax_model(**settings):
    loss = equigrad.SoftmaxEqualizationLoss(5)
    return build_classifier(SmallConvNet(2), 5, loss, equigrad.SoftmaxScores(), **settings)


def test_training_gives_the_loss_of_the_logits(images, targets):
    model = softmax_model()
    losses = model(images, targets)
    assert list(losses) == ["classification"]
    reference = equigrad.CrossEntropyLoss()(model.logits(images), targets["labels"])
    assert_close(losses["classification"], reference)  # the first step of Softmax-EQL is cross-entropy
    losses["classification"].backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


@pytest.mark.parametrize("with_targets", [False, True])
def test_evaluation_gives_scores_whether_or_not_there_are_targets(images, targets, with_targets):
    model = softmax_model().eval()
    predictions = model(images, targets) if with_targets else model(images)
    assert len(predictions) == 4
    assert_close(predictions[2]["scores"], model.logits(images).softmax(1)[2])


def test_training_without_targets_is_refused(images):
    with pytest.raises(ValueError, match="needs targets"):
        softmax_model()(images)


def test_statistics_are_saved_with_the_weights(images, targets):
    model, restored = softmax_model(), softmax_model()
    model(images, targets)
    restored.load_state_dict(model.state_dict())
    assert restored.classification_loss.statistics.positive.sum() > 0
    assert not any("normalization" in name for name in model.state_dict())


def test_a_cosine_classifier_takes_the_place_of_the_linear_one(images, targets):
    model = softmax_model(cosine_temperature=30.0)
    assert isinstance(model.classifier, CosineClassifier)
    assert model.classifier.bias is None
    assert model.logits(images).abs().max() <= 30 + 1e-4
    model(images, targets)["classification"].backward()


@pytest.mark.parametrize("cosine_temperature", [None, 20.0])
def test_a_prior_makes_every_sigmoid_start_low(images, cosine_temperature):
    loss, scores = equigrad.SigmoidEqualizationLoss(5), equigrad.SigmoidScores()
    model = build_classifier(SmallConvNet(2), 5, loss, scores, bias_prior=0.001, cosine_temperature=cosine_temperature)
    assert_close(model.classifier.bias.sigmoid(), torch.full((5,), 0.001))


def test_scores_decide_the_columns(images, targets):
    loss = equigrad.WithObjectness(equigrad.SigmoidEqualizationLoss(5))
    model = build_classifier(SmallConvNet(2), 5, loss, equigrad.SigmoidObjectnessScores())
    assert model.classifier.out_features == 6
    model(images, targets)
    assert model.eval()(images)[0]["scores"].shape == (5,)


def test_a_teacher_hands_its_logits_to_the_loss(images, targets):
    trained = softmax_model()
    teacher = equigrad.FrozenTeacher(nn.Sequential(trained.backbone, trained.classifier))
    loss = equigrad.DistillationLoss(equigrad.SoftmaxEqualizationLoss(5))
    model = build_classifier(SmallConvNet(2), 5, loss, equigrad.SoftmaxScores(), teacher=teacher)
    student_logits = model.logits(images)
    expected = equigrad.DistillationLoss(equigrad.SoftmaxEqualizationLoss(5))(
        student_logits, targets["labels"], teacher(images)
    )
    assert_close(model(images, targets)["classification"], expected)
    assert not any(parameter.requires_grad for parameter in model.teacher.parameters())


def test_parts_have_the_documented_paths():
    model = Classifier(SmallConvNet(2), nn.Linear(16, 5), equigrad.CrossEntropyLoss(), equigrad.SoftmaxScores())
    assert {"backbone", "classifier", "classification_loss", "backbone.stages.0"} <= {
        name for name, _ in model.named_modules()
    }


def test_a_backbone_must_say_how_many_features_it_has():
    with pytest.raises(ValueError, match="num_features"):
        build_classifier(nn.Flatten(), 5, equigrad.CrossEntropyLoss(), equigrad.SoftmaxScores())
