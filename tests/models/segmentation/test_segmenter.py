from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

import equigrad
from equigrad.models.backbones.dilated_resnet import dilated_resnet50, dilated_resnet101
from equigrad.models.backbones.encoder_maps import EncoderChannels, EncoderMaps
from equigrad.models.backbones.normalization import HALF, Normalization
from equigrad.models.segmentation.deeplab import DeepLabV3PlusHead
from equigrad.models.segmentation.pspnet import PSPHead
from equigrad.models.segmentation.segmenter import VOID, build_segmenter
from equigrad.models.segmentation.sliding_window import SlidingWindow
from equigrad.models.segmentation.upsampled_loss import DecoderResolutionLoss, LabelResolutionLoss, TiledLoss

NUM_CLASSES = 5
SMALL_HEADS = {
    "PSPNet": partial(PSPHead, channels=8, grids=(1, 2)),
    "DeepLabV3+": partial(DeepLabV3PlusHead, channels=8, low_channels=4, dilations=(1, 2)),
    "DeepLabV3+, not separable": partial(DeepLabV3PlusHead, channels=8, dilations=(1, 2), separable=False),
}
every_head = pytest.mark.parametrize("head", SMALL_HEADS.values(), ids=SMALL_HEADS)


class SmallEncoder(nn.Module):
    """One convolution a stage: strides 4, 8 and 8."""

    channels = EncoderChannels(low=6, middle=8, last=10)

    def __init__(self):
        super().__init__()
        self.normalization = Normalization(HALF)
        self.low = nn.Conv2d(3, 6, 4, stride=4)
        self.middle = nn.Conv2d(6, 8, 3, stride=2, padding=1)
        self.last = nn.Conv2d(8, 10, 3, padding=1)

    def forward(self, images):
        low = self.low(self.normalization(images)).relu()
        middle = self.middle(low).relu()
        return EncoderMaps(low, middle, self.last(middle).relu())


class Constant(nn.Module):
    """A head that always gives these logits."""

    def __init__(self, logits):
        super().__init__()
        self.logits = logits

    def forward(self, maps):
        return self.logits


def small_model(head=SMALL_HEADS["PSPNet"], loss=None, **settings):
    torch.manual_seed(0)
    loss = loss or equigrad.SoftmaxEqualizationLoss(NUM_CLASSES)
    return build_segmenter(SmallEncoder(), head, NUM_CLASSES, loss, equigrad.SoftmaxScores(), **settings)


def without_dropout(model):
    for module in model.modules():
        if isinstance(module, nn.Dropout2d):
            module.p = 0.0
    return model


@pytest.fixture
def images():
    return torch.randint(0, 256, (2, 3, 24, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def labels():
    labels = torch.randint(NUM_CLASSES, (2, 24, 32), generator=torch.Generator().manual_seed(1))
    labels[:, :3] = 255
    return labels


# SegFormer (Xie et al., NeurIPS 2021, Table 2) gives 68.1 M and 62.7 M for the two models of mmsegmentation with
# ResNet-101 and 150 classes, auxiliary head included; for ResNet-50 no count is published. All four digit for digit are
# the sums over the layers of its configurations: backbone + head + auxiliary head, with
# V1c stem 28,512 + 256;  ResNet-50 23,527,264;  ResNet-101 42,519,392
# PSPNet 4 (2048 * 512 + 1024) + 4096 * 512 * 9 + 1024 + 512 * 150 + 150 = 23,150,742
# DeepLabV3+ 2 (2048 * 512 + 1024) + 3 (2048 * 9 + 4096 + 2048 * 512 + 1024) + 2560 * 512 * 9 + 1024
#   + 256 * 48 + 96 + (560 * 9 + 1120 + 560 * 512 + 1024) + (512 * 9 + 1024 + 512 * 512 + 1024) + 512 * 150 + 150
#   = 17,765,126
# FCN 1024 * 256 * 9 + 512 + 256 * 150 + 150 = 2,398,358
PARAMETERS = {
    (dilated_resnet50, PSPHead): 23_527_264 + 23_150_742 + 2_398_358,
    (dilated_resnet101, PSPHead): 68_068_492,
    (dilated_resnet50, DeepLabV3PlusHead): 23_527_264 + 17_765_126 + 2_398_358,
    (dilated_resnet101, DeepLabV3PlusHead): 62_682_876,
}


@pytest.mark.parametrize(("backbone", "head"), PARAMETERS)
def test_parameters_are_as_many_as_published(backbone, head):
    with torch.device("meta"):
        loss, scores = equigrad.CrossEntropyLoss(), equigrad.SoftmaxScores()
        model = build_segmenter(backbone(), head, 150, loss, scores, auxiliary_loss=equigrad.CrossEntropyLoss())
    assert sum(parameter.numel() for parameter in model.parameters()) == PARAMETERS[backbone, head]


@pytest.mark.parametrize(("head", "shape"), [(PSPHead, (2, 150, 8, 12)), (DeepLabV3PlusHead, (2, 150, 16, 24))])
def test_logits_have_the_resolution_of_the_last_map_or_of_the_low_one(head, shape):
    with torch.device("meta"):
        model = build_segmenter(dilated_resnet50(), head, 150, nn.Identity(), equigrad.SoftmaxScores())
        assert model.logits(torch.zeros(2, 3, 64, 96)).shape == shape


@every_head
def test_training_gives_both_losses_of_the_upsampled_logits(head, images, labels):
    auxiliary_loss = equigrad.CrossEntropyLoss()
    model = without_dropout(small_model(head, auxiliary_loss=auxiliary_loss))
    losses = model(images, {"labels": labels})
    assert list(losses) == ["loss", "auxiliary_loss"]

    def plain_loss(logits):
        upsampled = F.interpolate(logits, size=(24, 32), mode="bilinear", align_corners=False)
        return F.cross_entropy(upsampled, labels, ignore_index=255)

    maps = model.backbone(images)
    assert_close(losses["loss"], plain_loss(model.head(maps)))  # the first step of Softmax-EQL is cross-entropy
    assert_close(losses["auxiliary_loss"], 0.4 * plain_loss(model.auxiliary.head(maps)))
    sum(losses.values()).backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_the_auxiliary_loss_alone_trains_the_middle_of_the_backbone_and_not_the_decoder(images, labels):
    model = small_model(auxiliary_loss=equigrad.CrossEntropyLoss())
    model(images, {"labels": labels})["auxiliary_loss"].backward()
    trained = {name for name, parameter in model.named_parameters() if parameter.grad is not None}
    assert {name.split(".")[0] for name in trained} == {"backbone", "auxiliary"}
    assert {name.split(".")[1] for name in trained if name.startswith("backbone")} == {"low", "middle"}
    assert model.backbone.middle.weight.grad.abs().sum() > 0


def test_of_a_dilated_resnet_the_auxiliary_loss_reaches_stage_3_and_not_stage_4(images, labels):
    model = build_segmenter(
        dilated_resnet50(),
        SMALL_HEADS["PSPNet"],
        NUM_CLASSES,
        equigrad.CrossEntropyLoss(),
        equigrad.SoftmaxScores(),
        auxiliary_loss=equigrad.CrossEntropyLoss(),
    )
    model(images, {"labels": labels})["auxiliary_loss"].backward()
    assert model.backbone.layer3[-1].conv3.weight.grad.abs().sum() > 0
    assert model.backbone.stem[0].weight.grad.abs().sum() > 0
    assert model.backbone.layer4[0].conv1.weight.grad is None
    assert model.head.fuse[0].weight.grad is None


@pytest.mark.parametrize("own_statistics", [True, False])
def test_the_heads_keep_statistics_of_their_own(images, labels, own_statistics):
    auxiliary_loss = equigrad.SoftmaxEqualizationLoss(NUM_CLASSES) if own_statistics else equigrad.CrossEntropyLoss()
    model = small_model(auxiliary_loss=auxiliary_loss)
    model(images, {"labels": labels})
    statistics = {name for name in model.state_dict() if "statistics" in name}
    of_head = {f"classification_loss.loss.statistics.{name}" for name in ("positive", "negative", "skipped")}
    of_auxiliary = {f"auxiliary.{name}" for name in of_head} if own_statistics else set()
    assert statistics == of_head | of_auxiliary
    if own_statistics:
        state = model.state_dict()
        assert all(state[name].sum() > 0 for name in statistics if not name.endswith("skipped"))
        assert not torch.equal(
            *(state[f"{part}classification_loss.loss.statistics.positive"] for part in ("", "auxiliary."))
        )


@pytest.mark.parametrize("resolution", [LabelResolutionLoss, DecoderResolutionLoss, TiledLoss])
@pytest.mark.parametrize("loss", [equigrad.SoftmaxEqualizationLoss, equigrad.SigmoidEqualizationLoss])
def test_logits_that_only_void_pixels_see_have_no_influence(images, labels, resolution, loss):
    """Three rows of logits for 24 of pixels: the first has a part in the rows above the middle of the second, 12."""
    labels[:, :12] = 255
    generator = torch.Generator().manual_seed(2)
    results = []
    for first_row in (torch.zeros(2, NUM_CLASSES, 1, 4), 9 * torch.randn(2, NUM_CLASSES, 1, 4, generator=generator)):
        others = torch.randn(2, NUM_CLASSES, 2, 4, generator=torch.Generator().manual_seed(3))
        logits = torch.cat([first_row, others], dim=2).requires_grad_()
        model = small_model(
            lambda channels, num_logits, logits=logits: Constant(logits), loss(5), resolution=resolution
        )
        result = model(images, {"labels": labels})["loss"]
        result.backward()
        assert logits.grad[:, :, 0].abs().sum() == 0
        assert logits.grad.abs().sum() > 0
        results.append({"loss": result.detach(), **dict(model.classification_loss.state_dict())})
    assert_close(results[1], results[0])


def test_an_image_without_any_label_leaves_loss_and_gradient_as_they_were(images, labels):
    """Batch norm in evaluation, so that images do not meet there."""
    model = without_dropout(small_model(loss=equigrad.CrossEntropyLoss()))
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.eval()
    labels[1] = 255
    gradients = []
    for batch in (slice(0, 1), slice(0, 2)):
        model.zero_grad()
        loss = model(images[batch], {"labels": labels[batch]})["loss"]
        loss.backward()
        gradients.append([loss.detach(), *(parameter.grad.clone() for parameter in model.parameters())])
    for alone, together in zip(*gradients, strict=True):
        assert_close(together, alone)


def test_labels_may_be_bytes_and_stay_as_they_are(images, labels):
    model = without_dropout(small_model(loss=equigrad.CrossEntropyLoss()))
    before = labels.clone()
    losses = [model(images, {"labels": given})["loss"] for given in (labels, labels.byte())]
    assert_close(losses[0], losses[1])
    assert torch.equal(labels, before)


@every_head
def test_evaluation_gives_labels_and_scores_at_the_images_size(head, images):
    model = small_model(head).eval()
    with torch.inference_mode():
        predictions = model(images)
        scores = F.interpolate(model.logits(images), size=(24, 32), mode="bilinear").softmax(1)
    for prediction, expected in zip(predictions, scores, strict=True):
        assert prediction["labels"].shape == (24, 32)
        assert prediction["labels"].dtype == torch.int64
        assert_close(prediction["scores"], expected.max(0).values)
        assert_close(expected.gather(0, prediction["labels"][None])[0], prediction["scores"])


def test_images_of_different_sizes_are_seen_one_after_the_other():
    model = small_model(inference=SlidingWindow(16, 8)).eval()
    sizes = [(24, 32), (17, 40), (8, 8)]
    with torch.inference_mode():
        predictions = model([torch.rand(3, *size) for size in sizes])
    assert [tuple(prediction["labels"].shape) for prediction in predictions] == sizes


def test_a_prior_is_the_bias_of_both_heads():
    model = small_model(auxiliary_loss=equigrad.CrossEntropyLoss(), bias_prior=0.01)
    for head in (model.head, model.auxiliary.head):
        assert_close(head.classifier.conv.bias.sigmoid(), torch.full((NUM_CLASSES,), 0.01))
    assert small_model().head.classifier.conv.bias.abs().sum() == 0


def test_a_checkpoint_carries_weights_and_statistics_of_both_heads(images, labels, tmp_path):
    def model():
        return small_model(auxiliary_loss=equigrad.SigmoidEqualizationLoss(NUM_CLASSES), resolution=TiledLoss)

    trained, other = model(), model()
    optimizer = torch.optim.SGD(trained.parameters(), 0.1)
    sum(trained(images, {"labels": labels}).values()).backward()
    optimizer.step()
    torch.save(trained.state_dict(), tmp_path / "model.pth")
    other.load_state_dict(torch.load(tmp_path / "model.pth", weights_only=True))
    for part in (trained, other):
        without_dropout(part)
    expected, result = (part(images, {"labels": labels}) for part in (trained, other))
    assert_close(result, expected)
    assert_close(other.state_dict(), trained.state_dict())


def test_bad_arguments_are_refused(images, labels):
    model = small_model()
    with pytest.raises(ValueError, match="training needs targets"):
        model(images)
    with pytest.raises(
        ValueError, match=r"labels must be uint8 or int64 of shape \(2, 24, 32\), got torch.int64 of \(2, 3"
    ):
        model(images, {"labels": labels[:, :3]})
    with pytest.raises(ValueError, match="images as one Tensor"):
        model(list(images), {"labels": labels})
    with pytest.raises(ValueError, match=r"num_classes must be 1 \.\.\. 255"):
        build_segmenter(SmallEncoder(), PSPHead, 256, nn.Identity(), equigrad.SoftmaxScores())
    with pytest.raises(ValueError, match="EncoderChannels as channels, got Identity"):
        build_segmenter(nn.Identity(), PSPHead, 2, nn.Identity(), equigrad.SoftmaxScores())


@pytest.mark.parametrize("resolution", [LabelResolutionLoss, TiledLoss])
def test_parts_with_different_numbers_of_labelled_pixels_add_up_to_the_mean_of_the_whole(images, labels, resolution):
    loss, auxiliary_loss = equigrad.CrossEntropyLoss(), equigrad.CrossEntropyLoss()
    model = without_dropout(small_model(loss=loss, auxiliary_loss=auxiliary_loss, resolution=resolution))
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.eval()  # so that images do not depend on each other
    labels = labels.clone()
    labels[0, :5] = VOID
    whole = model(images, {"labels": labels})
    counts = [model.num_counted({"labels": labels[part]}) for part in (slice(1), slice(1, None))]
    normalizer = torch.tensor(sum(counts) / 2, dtype=torch.float64)
    parts = [
        model(images[part], {"labels": labels[part], "normalizer": normalizer}) for part in (slice(1), slice(1, None))
    ]
    assert counts[0] != counts[1]
    for name in ("loss", "auxiliary_loss"):
        assert_close(sum(part[name] for part in parts) / 2, whole[name])
