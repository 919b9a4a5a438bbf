"""Metrics on the terminal."""

import math
from collections.abc import Mapping


def metric_line(result: Mapping[str, float]) -> str:
    """Metrics in per cent; a dash for a group without categories."""
    return "  ".join(f"{name} {'–' if math.isnan(value) else f'{100 * value:.1f}'}" for name, value in result.items())
