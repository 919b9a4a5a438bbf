"""torchvision's region proposal network on any pyramid, in float32 whatever the precision of the features."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor
from torchvision.models.detection.rpn import (  # type: ignore[import-untyped]
    AnchorGenerator,
    RegionProposalNetwork,
    RPNHead,
)

from equigrad.models.detection.boxes import at_least_float32

RATIOS = (0.5, 1.0, 2.0)


def proposal_network(
    num_channels: int,
    strides: Sequence[int],
    *,
    anchor_scale: int = 8,
    num_proposals: int = 1000,
    num_samples: int = 256,
    num_convs: int = 1,
    box_beta: float = 1 / 9,
) -> RegionProposalNetwork:
    """The published settings: IoU 0.7 and 0.3, NMS 0.7, half of the samples positive.

    Args:
        num_channels: number of channels of the pyramid.
        strides: strides of its levels.
        anchor_scale: side of the anchors in strides; three ratios each.
        num_proposals: most proposals an image, in training as in evaluation.
        num_samples: anchors of an image in the losses.
        num_convs: before the outputs.
        box_beta: where the smooth L1 loss of boxes turns from square to linear; 0 is plain L1.
    """
    anchors = _Anchors(tuple((anchor_scale * stride,) for stride in strides), (RATIOS,) * len(strides))
    network = _ProposalNetwork(
        anchors,
        _Head(num_channels, len(RATIOS), num_convs),
        fg_iou_thresh=0.7,
        bg_iou_thresh=0.3,
        batch_size_per_image=num_samples,
        positive_fraction=0.5,
        pre_nms_top_n={"training": 2000, "testing": 1000},
        post_nms_top_n={"training": num_proposals, "testing": num_proposals},
        nms_thresh=0.7,
    )
    network.box_beta = box_beta
    return network


class _ProposalNetwork(RegionProposalNetwork):  # type: ignore[misc]
    box_beta: float

    def compute_loss(
        self, objectness: Tensor, values: Tensor, labels: list[Tensor], wanted: list[Tensor]
    ) -> tuple[Tensor, Tensor]:
        """Objectness and box loss of the sampled anchors; torchvision's has a fixed beta of 1 / 9."""
        positive, negative = (torch.cat(masks).nonzero()[:, 0] for masks in self.fg_bg_sampler(labels))
        sampled = torch.cat([positive, negative])
        box = F.smooth_l1_loss(values[positive], torch.cat(wanted)[positive], beta=self.box_beta, reduction="sum")
        is_object = torch.cat(labels)[sampled]
        return F.binary_cross_entropy_with_logits(objectness.flatten()[sampled], is_object), box / sampled.numel()


class _Anchors(AnchorGenerator):  # type: ignore[misc]
    def set_cell_anchors(self, dtype: torch.dtype, device: torch.device) -> None:
        """Keep anchors in float32: in bfloat16 they would be off by up to 4 pixels."""
        super().set_cell_anchors(torch.promote_types(dtype, torch.float32), device)


class _Head(RPNHead):  # type: ignore[misc]
    def forward(self, levels: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """Objectness (B, A, H, W) and box values (B, 4 A, H, W) of each level."""
        logits, values = super().forward(levels)
        return [at_least_float32(each) for each in logits], [at_least_float32(each) for each in values]
