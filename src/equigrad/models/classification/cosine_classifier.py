"""The cosine classifier that long-tailed recognition uses in place of a linear layer."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class CosineClassifier(nn.Module):
    r"""Logits from the angle between a feature and each category's weight, so that no category wins by its norm.

    $$ z_j = T \, \frac{x}{\|x\|} \cdot \frac{w_j}{\|w_j\|} + b_j $$

    A drop-in for `nn.Linear`. The defaults are the layer published with Softmax-EQL; the normalised linear layer of
    mmdet, published with the seesaw loss, is `temperature=20, bias=True, norm_offset=1e-6`.

    Args:
        in_features: D, the length of a feature.
        num_classes: C, or more when the head has extra columns.
        temperature: T, the largest logit before the bias.
        bias: whether to add b_j; it starts at 0.
        norm_offset: added to both norms. With 0 they are floored at 1e-12 instead. A zero feature gives b_j.
    """

    weight: nn.Parameter  # (C, D)
    bias: nn.Parameter | None  # (C,)

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        temperature: float = 30.0,
        bias: bool = False,
        norm_offset: float = 0.0,
    ) -> None:
        super().__init__()
        if in_features < 1 or num_classes < 1:
            raise ValueError(f"in_features and num_classes must be positive, got {in_features} and {num_classes}")
        if not (math.isfinite(temperature) and temperature > 0):
            raise ValueError(f"temperature must be finite and positive, got {temperature}")
        if not (math.isfinite(norm_offset) and norm_offset >= 0):
            raise ValueError(f"norm_offset must be finite and not negative, got {norm_offset}")
        self.in_features = in_features
        self.out_features = num_classes
        self.temperature = temperature
        self.norm_offset = norm_offset
        self.weight = nn.Parameter(torch.empty(num_classes, in_features))
        self.register_parameter("bias", nn.Parameter(torch.empty(num_classes)) if bias else None)
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw each weight from the cube [-1, 1]^D and bring it to length 1, as published; the bias starts at 0."""
        self.weight.copy_(F.normalize(self.weight.uniform_(-1, 1), dim=1))
        if self.bias is not None:
            self.bias.zero_()

    def forward(self, features: Tensor) -> Tensor:
        """Logits (..., C) of features (..., D)."""
        return F.linear(self.temperature * self._normalized(features), self._normalized(self.weight), self.bias)

    def extra_repr(self) -> str:
        """Sizes and settings, in the manner of `nn.Linear`."""
        sizes = f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"
        return f"{sizes}, temperature={self.temperature}, norm_offset={self.norm_offset}"

    def _normalized(self, vectors: Tensor) -> Tensor:
        norms: Tensor = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True) + self.norm_offset
        # 1e-12 is 0 in half precision, which would turn a zero feature into NaN.
        return vectors / norms.clamp(min=max(1e-12, torch.finfo(norms.dtype).tiny))
