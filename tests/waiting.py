"""A device that is not there, to find where a step makes the host wait for it.

Its tensors are computed on the CPU but say that they are elsewhere, so that copies to the device and back are seen as
such. Each operation that would block the host on a GPU is noted with the function of `src` that asked for it.

    with watched() as waits:
        model, images, targets = to_device(model), to_device(images), to_device(targets)
        sum(model(images, targets).values()).backward()
    assert not waits
"""

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map

import equigrad
from equigrad.data.detection.object_masks import ObjectMasks

DEVICE = torch.device("lazy", 0)  # a type that torch knows and nobody has: no driver is looked for
SOURCE = Path(equigrad.__file__).parent

# Their value, or the shape of their result, is known when the device has computed it.
READS = {name: name for name in ("nonzero", "nms", "masked_select", "bincount", "equal")}
READS |= {"_local_scalar_dense": "item", "is_nonzero": "item", "_unique2": "unique", "unique_dim": "unique"}
INDEXING = {"index", "index_put", "index_put_", "_index_put_impl_"}


class Wait(NamedTuple):
    """An operation that blocks the host, and who asked for it."""

    operation: str
    file: str
    function: str


class DeviceTensor(Tensor):
    """A tensor of the device; `values` are its numbers."""

    values: Tensor
    is_cuda = True  # who asks this wants to know whether reading back would wait

    @staticmethod
    def __new__(cls, values):
        return torch.Tensor._make_wrapper_subclass(
            cls,
            values.shape,
            strides=values.stride(),
            storage_offset=values.storage_offset(),
            dtype=values.dtype,
            device=DEVICE,
        )

    def __init__(self, values):
        self.values = values

    def __repr__(self):
        return f"DeviceTensor({self.values})"

    def tolist(self):
        return self.cpu().tolist()

    @classmethod
    def __torch_dispatch__(cls, operation, types, arguments=(), options=None):
        raise RuntimeError(f"{operation} of a tensor of the device, outside of `watched`")


class Reads(TorchDispatchMode):
    """Notes in `functions` who reads a number of any tensor: for code that cannot be moved to a device here."""

    def __init__(self):
        super().__init__()
        self.functions = []

    def __torch_dispatch__(self, operation, types, arguments=(), options=None):
        if operation._schema.name.partition("::")[2] in ("_local_scalar_dense", "is_nonzero"):
            self.functions.append(innermost_function())
        return operation(*arguments, **(options or {}))


class Watch(TorchDispatchMode):
    """Computes on the CPU what is asked of the device, and notes in `waits` what the host would wait for."""

    def __init__(self):
        super().__init__()
        self.waits = []

    def __torch_dispatch__(self, operation, types, arguments=(), options=None):
        options = options or {}
        tensors = [leaf for leaf in tree_leaves((arguments, options)) if isinstance(leaf, Tensor)]
        was_there = any(isinstance(tensor, DeviceTensor) for tensor in tensors)
        goal = options.get("device")
        ends_there = was_there if goal is None else torch.device(goal).type == DEVICE.type
        waits_for = _waits_for(operation, arguments, options, tensors, ends_there) if was_there or ends_there else None
        if waits_for is not None:
            self.waits.append(Wait(waits_for, *innermost_function()))
        with _disable_current_modes():
            result = operation(*tree_map(_on_cpu, arguments), **tree_map(_on_cpu, options))
        if not ends_there:
            return result
        # What was changed in place is the tensor that it was.
        known = {id(tensor.values): tensor for tensor in tensors if isinstance(tensor, DeviceTensor)}
        return tree_map(lambda value: known[id(value)] if id(value) in known else _wrapped(value), result)


def _waits_for(operation, arguments, options, tensors, ends_there):
    name = operation._schema.name.partition("::")[2]
    if name in READS:
        return READS[name]
    if name in INDEXING:
        indices = [index for index in arguments[1] if index is not None]
        return "boolean index" if any(index.dtype in (torch.bool, torch.uint8) for index in indices) else None
    if name in ("_to_copy", "copy_"):
        types = {tensor.device.type for tensor in tensors}
        types |= {torch.device(options["device"]).type} if options.get("device") is not None else set()
        is_free = options.get("non_blocking") or (name == "copy_" and len(arguments) > 2 and arguments[2])
        if len(types) > 1 and not is_free:
            return "copy to the device" if ends_there else "copy to the host"
    return None


def innermost_function():
    """Of `src`, as its file and name; autograd has none in its backward pass."""
    frame = sys._getframe(2)
    while frame is not None:
        file = Path(frame.f_code.co_filename)
        if file.is_relative_to(SOURCE):
            return file.relative_to(SOURCE).as_posix(), frame.f_code.co_qualname.partition(".<locals>")[0]
        frame = frame.f_back
    return "", "backward"


def _on_cpu(value):
    if isinstance(value, DeviceTensor):
        return value.values
    return torch.device("cpu") if isinstance(value, torch.device) and value.type == DEVICE.type else value


def _wrapped(value):
    return DeviceTensor(value) if isinstance(value, Tensor) else value


@contextmanager
def watched():
    """What the host waits for inside, in a list."""
    before = torch._C._only_lift_cpu_tensors()
    torch._C._set_only_lift_cpu_tensors(True)  # so that the copy of `torch.tensor(…, device=…)` is seen
    try:
        with Watch() as watch:
            yield watch.waits
    finally:
        torch._C._set_only_lift_cpu_tensors(before)


def to_device(value):
    """Tensors of a batch, or parameters and buffers of a model, on the device; that is not counted."""
    if not isinstance(value, nn.Module):
        return tree_map(lambda leaf: leaf.to(DEVICE) if isinstance(leaf, ObjectMasks) else _wrapped(leaf), value)
    for part in value.modules():
        for name, parameter in part.named_parameters(recurse=False):
            setattr(part, name, nn.Parameter(_wrapped(parameter.detach()), parameter.requires_grad))
        for name, buffer in part.named_buffers(recurse=False):
            setattr(part, name, _wrapped(buffer))
    return value
