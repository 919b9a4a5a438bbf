"""mmcv-lite has no compiled operators, and mmdet imports them at once. This stand-in lets it.

Suppression is torchvision's; whatever else is called fails.
"""

import importlib.util
import sys
import types
from importlib.machinery import ModuleSpec

import torchvision


class _Operators(types.ModuleType):
    """The compiled module of mmcv."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)

        def missing(*arguments, **options):
            raise NotImplementedError(f"mmcv-lite has no operator {name}")

        return missing

    @staticmethod
    def nms(boxes, scores, iou_threshold, offset):
        return torchvision.ops.nms(boxes, scores, iou_threshold)


if importlib.util.find_spec("mmcv._ext") is None:
    sys.modules["mmcv._ext"] = _Operators("mmcv._ext")
    sys.modules["mmcv._ext"].__spec__ = ModuleSpec("mmcv._ext", None)
