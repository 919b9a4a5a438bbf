import re
from pathlib import Path

import pytest
import torch
import torchvision
from tests.detection_items import disc
from tests.models.rcnn_cases import make_batch
from torch.testing import assert_close
from torchvision.models import detection
from torchvision.models.detection import FasterRCNN, MaskRCNN
from torchvision.models.detection.backbone_utils import resnet_fpn_backbone
from torchvision.models.detection.roi_heads import paste_masks_in_image

from equigrad import CrossEntropyLoss, FocalLoss, SigmoidScores
from equigrad.models.detection.one_stage.fcos import fcos
from equigrad.models.detection.one_stage.retinanet import retinanet
from equigrad.models.detection.pyramids.resnet_fpn import resnet50_fpn
from equigrad.models.detection.torchvision_weights import from_torchvision, num_categories, torchvision_family
from equigrad.models.detection.two_stage.mask_head import paste_masks
from equigrad.models.detection.two_stage.rcnn import faster_rcnn, mask_rcnn
from equigrad.models.detection.two_stage.roi_inference import RoIInference
from equigrad.models.detection.two_stage.roi_sampling import RoISampler
from equigrad.models.detection.two_stage.roi_scores import SoftmaxBackgroundScores

SIZE = (64, 96)  # a multiple of 32: theirs pads after the normalisation and ours before
C = 7


def pair(theirs_class, builder):
    """Their detector and ours with the same random weights, and frozen norms that keep activations in bounds."""
    torch.manual_seed(0)
    backbone = resnet_fpn_backbone(backbone_name="resnet50", weights=None, trainable_layers=3)
    for name, buffer in backbone.named_buffers():
        if name.endswith("bn3.weight"):
            buffer.fill_(0.3)
    theirs = theirs_class(
        backbone,
        num_classes=C + 1,
        min_size=SIZE[0],
        max_size=SIZE[1],
        rpn_post_nms_top_n_train=150,
        rpn_post_nms_top_n_test=150,
        box_batch_size_per_image=64,
        box_score_thresh=0.01,
        box_detections_per_img=15,
    )
    with torch.no_grad():  # unlike at the start, categories and boxes differ
        theirs.roi_heads.box_predictor.cls_score.weight.mul_(20)
        theirs.roi_heads.box_predictor.bbox_pred.weight.mul_(5)
    pyramid = resnet50_fpn(extra="pool")
    inference = RoIInference(score_threshold=0.01, num_boxes=15)
    ours = builder(
        pyramid,
        C,
        CrossEntropyLoss(),
        SoftmaxBackgroundScores(),
        background_column=C,
        num_proposals=150,
        sampler=RoISampler(64),
        inference=inference,
    )
    ours.load_state_dict(from_torchvision(theirs.state_dict()))
    return theirs.double(), ours.double()  # in float32 the order of near ties in NMS is a matter of rounding


@pytest.fixture(scope="module")
def mask_models():
    return pair(MaskRCNN, mask_rcnn)


def batch():
    images, targets = make_batch(3, SIZE, (SIZE, SIZE), num_classes=C)
    targets = [target | {"boxes": target["boxes"].double()} for target in targets]
    floats = list(images.double() / 255)
    return images, targets, floats, [target | {"labels": target["labels"] + 1} for target in targets]


NAMES = {
    "classification": "loss_classifier",
    "box": "loss_box_reg",
    "mask": "loss_mask",
    "rpn_objectness": "loss_objectness",
    "rpn_box": "loss_rpn_box_reg",
}


def check_losses_and_gradients(theirs, ours):
    images, targets, their_images, their_targets = batch()
    for model in (theirs, ours):  # both draw the same samples; the transform of theirs draws before
        model.rpn.register_forward_pre_hook(lambda *_: torch.manual_seed(1) and None)
    their_losses = theirs.train()(their_images, their_targets)
    losses = ours.train()(images, targets)
    assert {NAMES[name] for name in losses} == their_losses.keys()
    for name, loss in losses.items():
        assert_close(loss, their_losses[NAMES[name]], rtol=1e-4, atol=1e-6)
    sum(their_losses.values()).backward()
    sum(losses.values()).backward()
    gradients = {name: p.grad for name, p in theirs.named_parameters() if p.grad is not None}
    expected = from_torchvision(gradients)
    found = {name: p.grad for name, p in ours.named_parameters() if p.grad is not None}
    assert expected.keys() == found.keys()
    for name, gradient in found.items():
        scale = float(expected[name].abs().max())
        assert_close(gradient, expected[name], rtol=1e-3, atol=1e-3 * scale + 1e-9, msg=lambda text, n=name: n + text)


def test_mask_rcnn_has_the_losses_and_gradients_of_torchvision(mask_models):
    check_losses_and_gradients(*mask_models)


def test_mask_rcnn_has_the_detections_of_torchvision(mask_models):
    theirs, ours = mask_models
    images, targets, their_images, _ = batch()
    with torch.no_grad():
        expected, found = theirs.eval()(their_images), ours.eval()(images, targets)
    for theirs_here, here in zip(expected, found, strict=True):
        assert len(here["boxes"]) == 15
        assert_close(here["boxes"], theirs_here["boxes"], rtol=1e-4, atol=1e-3)
        assert_close(here["scores"], theirs_here["scores"], rtol=1e-4, atol=1e-5)
        assert torch.equal(here["labels"] + 1, theirs_here["labels"])
        pasted = paste_masks_in_image(here["masks"][:, None], here["boxes"], SIZE)
        assert_close(pasted, theirs_here["masks"], rtol=1e-3, atol=1e-3)


def test_pasted_masks_are_those_of_torchvision_up_to_their_rounding_of_boxes():
    boxes = torch.tensor([[10.0, 8.0, 66.0, 60.0], [-20.0, 30.0, 60.0, 120.0]])
    masks = disc((28, 28), (14, 12), (9, 11)).float().expand(2, -1, -1)
    ours = paste_masks(masks, boxes, SIZE).bool()
    theirs = paste_masks_in_image(masks[:, None], boxes, SIZE)[:, 0] >= 0.5
    overlap = (ours & theirs).sum((1, 2)) / (ours | theirs).sum((1, 2))
    assert (overlap > 0.93).all()


def test_faster_rcnn_has_the_losses_and_gradients_of_torchvision():
    check_losses_and_gradients(*pair(FasterRCNN, faster_rcnn))


def test_a_file_with_the_names_of_2019_loads(mask_models):
    theirs, ours = mask_models
    state = theirs.state_dict()
    old = {}
    for name, value in state.items():
        name = name.replace("rpn.head.conv.0.0.", "rpn.head.conv.")
        for block in range(4):
            name = name.replace(f"roi_heads.mask_head.{block}.0.", f"roi_heads.mask_head.mask_fcn{block + 1}.")
            for kind in ("inner", "layer"):
                name = name.replace(f"fpn.{kind}_blocks.{block}.0.", f"fpn.{kind}_blocks.{block}.")
        old[name] = value
    assert old.keys() != state.keys()
    ours.load_state_dict(from_torchvision(old))


SQUARE = (128, 128)  # P7 has a stride of 128, and theirs rounds the strides of other images down


def scattered(model):
    """The model with weights and statistics of no special value, and scores that differ."""
    torch.manual_seed(0)
    for name, value in model.state_dict().items():
        if name.endswith("running_mean"):
            value.normal_(std=0.1)
        elif name.endswith("running_var"):
            value.uniform_(0.8, 1.2)
        elif name.endswith("bn3.weight"):
            value.fill_(0.3)
        elif name.endswith(("cls_logits.weight", "cls_score.weight")) and "rpn" not in name:
            value.normal_(std=0.05)
        elif name.endswith(("cls_logits.bias", "bbox_ctrness.bias")) and "rpn" not in name:
            value.normal_()
    return model.eval()


def new_heads(builder, **settings):
    """Ours, for softmax with background."""

    def build(pyramid):
        loss, scores = CrossEntropyLoss(), SoftmaxBackgroundScores()
        inference = RoIInference(score_threshold=0.01, num_boxes=15)
        return builder(pyramid, C, loss, scores, background_column=C, num_proposals=50, inference=inference, **settings)

    return build


FEW_BOXES = {"box_score_thresh": 0.01, "box_detections_per_img": 15, "rpn_post_nms_top_n_test": 50}
V2 = {"extra": "pool", "fpn_batch_norm": True}
DENSE_THRESHOLD = 0.3  # so few pairs are above it that no limit of candidates matters
FEW_DENSE = {"score_thresh": DENSE_THRESHOLD, "detections_per_img": 300}


@torch.no_grad()
def spread_scores(theirs, images):
    """Let the logits of a one-stage detector spread around a low mean, and nothing be background."""
    seen = []
    layer = theirs.head.classification_head.cls_logits
    layer.bias.fill_(-5.0).view(-1, C + 1)[:, 0] = -50.0
    hook = layer.register_forward_hook(lambda module, inputs, output: seen.append(output[:, 1].std()))
    theirs(list(images / 255))
    hook.remove()
    layer.weight *= 1.5 / seen[0]


# Version 1 of the R-CNNs is compared above, with its losses.
PAIRS = {
    "maskrcnn_resnet50_fpn_v2": ("Mask R-CNN", FEW_BOXES, V2, new_heads(mask_rcnn, version=2)),
    "retinanet_resnet50_fpn": (
        "RetinaNet",
        FEW_DENSE,
        {"extra": "p5"},
        lambda pyramid: retinanet(pyramid, C, FocalLoss(), SigmoidScores(), torchvision_anchors=True),
    ),
    "retinanet_resnet50_fpn_v2": (
        "RetinaNet",
        FEW_DENSE,
        {"extra": "c5"},
        lambda pyramid: retinanet(pyramid, C, FocalLoss(), SigmoidScores(), torchvision_anchors=True, group_norm=True),
    ),
    "fcos_resnet50_fpn": (
        "FCOS",
        FEW_DENSE,
        {"extra": "p5"},
        lambda pyramid: fcos(pyramid, C, FocalLoss(), SigmoidScores(), torchvision_points=True),
    ),
}


@torch.no_grad()
@pytest.mark.parametrize("name", PAIRS)
def test_a_detector_of_torchvision_detects_the_same_here(name):
    family, their_settings, pyramid_settings, build = PAIRS[name]
    theirs = getattr(detection, name)(
        weights=None,
        weights_backbone=None,
        num_classes=C + 1,
        min_size=SQUARE[0],
        max_size=SQUARE[1],
        **their_settings,
    )
    theirs = scattered(theirs)
    images = torch.randint(0, 256, (1, 3, *SQUARE), dtype=torch.uint8)
    is_dense = family in ("RetinaNet", "FCOS")
    if is_dense:
        spread_scores(theirs, images)
    state = theirs.state_dict()
    assert torchvision_family(state) == family
    assert num_categories(state) == C
    ours = build(resnet50_fpn(**pyramid_settings)).eval()
    missing, left = ours.load_state_dict(from_torchvision(state), strict=False)
    assert (missing, [each for each in left if not each.endswith("num_batches_tracked")]) == ([], [])
    expected, found = theirs(list(images / 255)), ours(images)
    for theirs_here, here in zip(expected, found, strict=True):
        num_found = len(theirs_here["scores"])
        assert num_found >= 10
        if is_dense:  # ours has no threshold
            assert int((here["scores"] > DENSE_THRESHOLD).sum()) == num_found
        assert_close(here["scores"][:num_found], theirs_here["scores"], rtol=1e-4, atol=1e-5)
        assert_close(here["boxes"][:num_found], theirs_here["boxes"], rtol=1e-4, atol=1e-3)
        assert torch.equal(here["labels"][:num_found] + 1, theirs_here["labels"])


def test_a_retinanet_with_the_names_of_2020_loads():
    theirs = detection.retinanet_resnet50_fpn(weights=None, weights_backbone=None, num_classes=C + 1)
    state = theirs.state_dict()
    old = {}
    for name, value in state.items():
        for block in range(4):
            name = name.replace(f"_head.conv.{block}.0.", f"_head.conv.{2 * block}.")
        old[name] = value
    assert old.keys() != state.keys()
    converted, expected = from_torchvision(old), from_torchvision(state)
    assert converted.keys() == expected.keys()
    assert all(torch.equal(converted[name], expected[name]) for name in expected)


def test_other_weights_are_not_taken_for_a_detector():
    assert torchvision_family({"conv1.weight": torch.zeros(1), "fc.weight": torch.zeros(1)}) is None


def test_the_page_names_the_files_that_torchvision_publishes():
    page = (Path(__file__).parents[3] / "docs" / "weights.md").read_text()
    rows = re.findall(r"`(\w+_Weights)\.(\w+)`.*?`([\w.]+-[0-9a-f]{8}\.pth)`", page)
    assert len(rows) == 10
    for enum, member, file in rows:
        weights = getattr(torchvision.models.detection if "FPN" in enum else torchvision.models, enum)[member]
        assert weights.url.rpartition("/")[2] == file
