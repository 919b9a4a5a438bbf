"""DIVE: a student learns from the labels and from the softened, flattened predictions of a teacher."""

from typing import Any, Self

import torch
from torch import Tensor, nn

from equigrad.labels import IGNORE
from equigrad.losses import reference
from equigrad.losses.blockwise import BlockwisePass, closed_form
from equigrad.losses.category_loss import CategoryLoss
from equigrad.losses.inputs import check_labels, check_logits, check_number, divisor_of
from equigrad.losses.kernel_choice import is_transformed, kernels_for


class DistillationLoss(nn.Module):
    r"""DIVE: learn from labels and from the flattened predictions of a teacher (virtual examples).

    $$ L = (1 - a) \, L_{base}(z, y) + a \, T^2 \, \frac{1}{N} \sum_i KL(t_i \,\|\, softmax(z_i / T)) $$
    $$ t = \frac{softmax(z' / T)^\rho}{\sum_j softmax_j(z' / T)^\rho} = softmax(\rho z' / T) $$

    z' are the logits of a teacher, usually trained with Balanced Softmax:

        teacher = equigrad.FrozenTeacher(trained_model)
        criterion = equigrad.DistillationLoss(equigrad.SoftmaxEqualizationLoss(num_classes))   # DIVE-Softmax-EQL
        loss = criterion(student(images), labels, teacher(images))

    The statistics of an equalization loss record the gradient of the value that loss returns, without the factor 1 - a
    and without the teacher's part. The factor would cancel in the ratio and be one constant in all margins.

    He, Wu, Wei: Distilling Virtual Examples for Long-Tailed Recognition. ICCV 2021.

    Args:
        base: the loss of the labels: `BalancedSoftmaxLoss` (DIVE), `SoftmaxEqualizationLoss` (DIVE-Softmax-EQL) or any
            other with a softmax. Its reduction is that of both parts.
        weight: a, in [0, 1]. 0 is the base alone.
        temperature: T.
        power: rho; below 1 it flattens the teacher.
    """

    def __init__(
        self, base: CategoryLoss, *, weight: float = 0.5, temperature: float = 3.0, power: float = 0.5
    ) -> None:
        super().__init__()
        if not isinstance(base, CategoryLoss) or base.takes_background:
            raise TypeError(f"base must be a softmax loss of equigrad, got {type(base).__name__}")
        check_number("weight", weight)
        if weight > 1:
            raise ValueError(f"weight must be within [0, 1], got {weight}")
        check_number("temperature", temperature, above=0)
        check_number("power", power)
        self.base = base
        self.weight = weight
        self.temperature = temperature
        self.power = power

    def forward(
        self,
        logits: Tensor,
        labels: Tensor,
        teacher_logits: Tensor,
        *,
        normalizer: float | Tensor | None = None,
    ) -> Tensor:
        """Loss of logits (N, C, ...) against labels (N, ...) and the teacher's logits of the logits' shape.

        Where the base takes soft labels, so does this.
        """
        check_logits(logits)
        _check_teacher(logits, teacher_logits)
        base_loss: Tensor
        if self.weight == 0:
            base_loss = self.base(logits, labels, normalizer=normalizer)
            return base_loss
        reduction, ignore_index = self.base.reduction, self.base.ignore_index
        if reduction == "none" or torch.compiler.is_compiling() or is_transformed():
            base_loss = self.base(logits, labels, normalizer=normalizer)
            distance = reference.distillation(
                logits, labels, teacher_logits, self.temperature, self.power, ignore_index=ignore_index
            )
            if reduction != "none":  # a compiler joins the operations of the plain formula
                labels, _ = check_labels(logits, labels, background=False, soft=True, ignore_index=ignore_index)
                divisor = divisor_of(logits, labels, reduction, normalizer)
                distance = (
                    distance.sum() if divisor is None else distance.sum() / torch.as_tensor(divisor).clamp(min=1e-300)
                )
            return (1 - self.weight) * base_loss + (self.weight * distance).to(base_loss.dtype)
        # The base gives its gradient at once and the teacher's is added to it in place: autograd would hold both apart.
        leaf = logits.detach().requires_grad_(logits.requires_grad)
        base_loss = self.base(leaf, labels, normalizer=normalizer)
        labels, _ = check_labels(logits, labels, background=False, soft=True, ignore_index=ignore_index)
        divisor = divisor_of(logits, labels, reduction, normalizer)
        run = BlockwisePass(logits, divisor, kernels=kernels_for(logits.device))
        run.loss += (1 - self.weight) * base_loss.detach() * run.safe_divisor
        if run.gradient is not None:
            undivided = run.safe_divisor / run.stored_divisor
            (gradient,) = torch.autograd.grad(base_loss, leaf, torch.ones_like(base_loss) * undivided)
            run.gradient = run.flatten(gradient).mul_(1 - self.weight)
        with torch.no_grad():
            is_ignored = None if labels.shape == logits.shape else run.flatten(labels == IGNORE)
            self._add_divergence(run, is_ignored, run.flatten(teacher_logits.detach()))
        loss: Tensor = closed_form().apply(logits, run)
        return loss

    def num_counted(self, labels: Tensor) -> float | None:
        """The samples that "mean" divides by, those of the base."""
        return self.base.num_counted(labels)

    def _add_divergence(self, run: BlockwisePass, is_ignored: Tensor | None, teacher: Tensor) -> None:
        for block in run.blocks(3):
            target = (teacher[block.entries].to(run.dtype) * (self.power / self.temperature)).log_softmax(1)
            student = (run.flat[block.entries].to(run.dtype) / self.temperature).log_softmax(1)
            probs = target.exp()
            divergence = target.sub_(student).mul_(probs).sum(1, keepdim=True).double()
            factor = self.weight * self.temperature / run.stored_divisor
            gradient = student.exp_().sub_(probs).mul_(factor)
            if is_ignored is not None:
                divergence.masked_fill_(is_ignored[block.samples].unsqueeze(1), 0.0)
                gradient.masked_fill_(is_ignored[block.samples].unsqueeze(1), 0.0)
            run.loss += self.weight * self.temperature**2 * divergence.sum()
            if run.gradient is not None:
                run.gradient[block.entries].add_(gradient)

    def extra_repr(self) -> str:
        """Hyper-parameters, for `print(model)`."""
        return f"weight={self.weight}, temperature={self.temperature}, power={self.power}"


def _check_teacher(logits: Tensor, teacher_logits: Tensor) -> None:
    if not isinstance(teacher_logits, Tensor):
        raise TypeError(f"teacher_logits must be a Tensor, got {type(teacher_logits).__name__}")
    if teacher_logits.shape != logits.shape or not teacher_logits.is_floating_point():
        raise ValueError(
            f"teacher_logits must be floating point of shape {tuple(logits.shape)}, "
            f"got {teacher_logits.dtype} of shape {tuple(teacher_logits.shape)}"
        )
    if teacher_logits.device != logits.device:
        raise ValueError(
            f"teacher_logits must be on the device of the logits, {logits.device}, got {teacher_logits.device}"
        )


class FrozenTeacher(nn.Module):
    """A trained model to learn from: always in evaluation mode, without gradient, also after `train()`.

    Args:
        model: the teacher, frozen in place.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model.requires_grad_(False).eval()

    def train(self, mode: bool = True) -> Self:
        """Stay in evaluation mode: BatchNorm and dropout of a teacher do not train."""
        return super().train(False)

    @torch.no_grad()
    def forward(self, *inputs: Any) -> Any:
        """What the model returns."""
        return self.model(*inputs)
