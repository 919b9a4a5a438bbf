"""Finished and running runs compared: figures, and one HTML page."""

from equigrad.analysis.comparison import Comparison, compare
from equigrad.analysis.evaluation_file import CategoryResult, Evaluation
from equigrad.analysis.history import RunHistory
from equigrad.analysis.plots import plot_gradients, plot_groups, plot_ratio_over_training
from equigrad.analysis.report import write_report
from equigrad.analysis.snapshots import StatisticsOverTime

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
