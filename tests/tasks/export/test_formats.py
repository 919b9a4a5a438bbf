"""Files of detectors on images of sizes that they were not traced with."""

import pytest
import torch

import equigrad
from equigrad.models.deployment.dense_detector import DeployedDenseDetector
from equigrad.models.deployment.rcnn import DeployedRCNN
from equigrad.models.detection.one_stage.fcos import fcos
from equigrad.models.detection.one_stage.yolox import yolox
from equigrad.models.detection.pyramids.lite_fpn import LiteFPN
from equigrad.models.detection.pyramids.small_fpn import SmallFPN
from equigrad.models.detection.two_stage.rcnn import faster_rcnn
from equigrad.tasks.export.deployable import Deployable
from equigrad.tasks.export.formats import FORMATS
from models.deployment.spread_weights import assert_same_detections, spread_weights

NUM_CLASSES = 5
# The coarsest levels of the first three have a single row, column or cell.
SIZES = [(1, 32, 32), (1, 64, 96), (2, 96, 32), (3, 160, 96), (1, 96, 224)]


def small_fcos():
    pyramid = SmallFPN(4, num_channels=64, strides=(8, 16, 32, 64, 128))
    return fcos(pyramid, NUM_CLASSES, equigrad.FocalLoss(), equigrad.SigmoidScores())


def small_yolox():
    return yolox(SmallFPN(4, num_channels=16), NUM_CLASSES, equigrad.FocalLoss(), equigrad.SigmoidScores())


def default_rcnn(pyramid=None, *, with_masks=False):
    """The network of `equigrad train own_data:detection`, but without weights."""
    pyramid = pyramid or LiteFPN(num_channels=16, extra="pool", imagenet_features=True)
    loss = equigrad.WithObjectness(equigrad.SigmoidEqualizationLoss(NUM_CLASSES))
    sizes = {"num_features": 16, "num_mask_channels": 8, "num_proposals": 50}
    scores = equigrad.SigmoidObjectnessScores()
    return faster_rcnn(pyramid, NUM_CLASSES, loss, scores, with_masks=with_masks, class_agnostic=True, **sizes)


def small_mask_rcnn():
    return default_rcnn(SmallFPN(4, num_channels=16, strides=(4, 8, 16, 32, 64)), with_masks=True)


def written(model, file_format):
    """What runs the file of a detector."""
    kind = FORMATS[file_format]
    suppress = kind.suppress()
    is_rcnn = hasattr(model, "rpn")
    deployed = DeployedRCNN(model, suppress) if is_rcnn else DeployedDenseDetector(model, NUM_CLASSES, suppress)
    deployable = Deployable(
        model=deployed.eval(),
        inputs={"images": {0: "batch", 2: "height", 3: "width"}, "image_sizes": {0: "batch"}},
        multiples={"height": 32, "width": 32},
        outputs=("boxes", "scores", "labels", "masks")[: 4 if model.__dict__.get("with_masks") else 3],
        metadata={},
        prepare=lambda image: (),
        run=model,
        compare=lambda expected, outputs: None,
        test_images=list,
    )
    return kind.load(kind.write(deployable, inputs(2, 96, 128)))


def inputs(num_images, height, width):
    images = torch.randint(0, 256, (num_images, 3, height, width), dtype=torch.uint8)
    return images, torch.tensor([[height - 3, width - 5]] * num_images)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("build", "file_format"),
    [
        (small_fcos, "torch_export"),
        (small_yolox, "torch_export"),
        (default_rcnn, "torch_export"),
        (small_mask_rcnn, "torch_export"),
        (default_rcnn, "torchscript"),
    ],
)
@torch.no_grad()
def test_a_detector_takes_images_of_all_sizes(build, file_format):
    torch.manual_seed(0)
    model = build().eval()
    spread_weights(model)
    run = written(model, file_format)
    for size in SIZES:
        images, sizes = inputs(*size)
        expected = model(images, [{"image_size": tuple(each)} for each in sizes.tolist()])
        assert_same_detections(expected, run((images, sizes)))


@torch.no_grad()
def test_a_file_finds_nothing_where_there_is_nothing():
    torch.manual_seed(0)
    model = default_rcnn(SmallFPN(4, num_channels=8, strides=(16, 32))).eval()
    spread_weights(model)
    torch.nn.init.constant_(model.roi_heads.box_predictor.cls_score.bias, -50)
    labels = written(model, "torch_export")(inputs(1, 64, 64))[2]
    assert (labels == -1).all()
