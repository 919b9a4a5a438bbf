"""Watching the gradients that any loss sends to every category, and what became of the category."""

from equigrad.meter.gradient_meter import AttachedLayer, GradientMeter, WatchedLoss
from equigrad.meter.recognition import Recognition
from equigrad.meter.table import CategoryRow, State

__all__ = ["AttachedLayer", "CategoryRow", "GradientMeter", "Recognition", "State", "WatchedLoss"]
