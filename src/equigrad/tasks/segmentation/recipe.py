"""The settings of a semantic segmentation run."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from equigrad.engine import TrainSettings
from equigrad.engine.distributed import Device, Precision
from equigrad.engine.settings import check_positive
from equigrad.tasks.backbones import SegmentationBackbone
from equigrad.tasks.methods import Method
from equigrad.tasks.segmentation.data import SegmentationSource
from equigrad.tasks.segmentation.heads import DeepLabV3Plus, PSPNet

AuxiliaryLoss = Literal["ce", "method", "none"]
LossResolution = Literal["labels", "tiles", "decoder"]


@dataclass(frozen=True)
class SegmentationRecipe:
    """Semantic segmentation: one category per pixel.

    Args:
        data: training and test images with label maps.
        backbone: the encoder.
        head: computes logits from the encoder's feature maps.
        method: loss and scores.
        training: optimiser, schedule, batches, checkpoints.
        auxiliary: loss of the auxiliary head, with weight 0.4: plain cross-entropy, the method's loss with its own
            statistics, or no auxiliary head.
        loss_at: resolution of the loss: that of the labels, the same in tiles to save memory, or that of the decoder;
            see `equigrad.models.segmentation.upsampled_loss`.
        window: side of the sliding windows of inference, which overlap by a third; None is the whole image at once.
        test_batch_size: images per batch in the test; those of one size are predicted together.
        keeps_label_maps: write the prediction for every test image as an index PNG into the run folder.
        precision: floating-point precision.
        device: where to run; "auto" uses a GPU if there is one.
        init: initial weights, a file or the folder of a run; None starts from the backbone's weights.
        table: the paper's table with this recipe as a row.
        row: name of that row.
    """

    data: SegmentationSource
    backbone: SegmentationBackbone
    head: PSPNet | DeepLabV3Plus
    method: Method
    training: TrainSettings
    auxiliary: AuxiliaryLoss = "ce"
    loss_at: LossResolution = "labels"
    window: int | None = None
    test_batch_size: int = 1
    keeps_label_maps: bool = False
    precision: Precision = "32"
    device: Device = "auto"
    init: Path | None = None
    table: str = ""
    row: str = ""

    def __post_init__(self) -> None:
        check_positive("test_batch_size", self.test_batch_size)
