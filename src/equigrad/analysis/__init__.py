"""Finished and running runs compared: figures, and one HTML page."""

from equigrad.analysis.comparison import Comparison, compare
from equigrad.analysis.history import CategoryResult, Evaluation, RunHistory, StatisticsOverTime
from equigrad.analysis.plots import plot_gradients, plot_groups, plot_ratio_over_training
from equigrad.analysis.report import write_report

__all__ = [
    "CategoryResult",
    "Comparison",
    "Evaluation",
    "RunHistory",
    "StatisticsOverTime",
    "compare",
    "plot_gradients",
    "plot_groups",
    "plot_ratio_over_training",
    "write_report",
]
