"""segmentation_models_pytorch: label maps in the shapes that its data sets have."""

from torch import Tensor, nn


class MaskLoss(nn.Module):
    """A loss of equigrad for masks (N, H, W) or (N, 1, H, W) of any integer type.

        criterion = MaskLoss(equigrad.SoftmaxEqualizationLoss(8, ignore_index=255))
        loss = criterion(model(images), masks)

    Args:
        loss: a loss of C categories; its `ignore_index` is the value of unlabelled pixels, 255 in most data sets.
    """

    def __init__(self, loss: nn.Module) -> None:
        super().__init__()
        self.loss = loss

    def forward(self, logits: Tensor, masks: Tensor) -> Tensor:
        """Loss of logits (N, C, H, W)."""
        if masks.dim() == 4 and masks.shape[1] == 1:
            masks = masks[:, 0]
        if masks.is_floating_point() and masks.shape != logits.shape:
            raise ValueError(f"masks must hold integers, got {masks.dtype}; a mask of probabilities has C channels")
        value: Tensor = self.loss(logits, masks if masks.shape == logits.shape else masks.long())
        return value
