"""One HTML page that compares runs. It contains all it needs and makes no requests."""

from equigrad.analysis.report.page import write_comparison, write_report

__all__ = ["write_comparison", "write_report"]
