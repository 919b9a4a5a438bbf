"""Copies between host and device, found with fake tensors, without a device."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class HostCopies(TorchDispatchMode):
    """Lists copies between host and device: for each of them the host waits."""

    def __init__(self):
        super().__init__()
        self.found = []

    def __torch_dispatch__(self, operation, types, arguments=(), options=None):
        result = operation(*arguments, **(options or {}))
        tensors = [value for value in tree_leaves((arguments, options, result)) if isinstance(value, torch.Tensor)]
        if "copy" in operation.name() and len({tensor.device.type for tensor in tensors}) == 2:
            self.found.append(operation.name())
        return result
