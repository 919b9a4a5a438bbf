"""Text on a terminal: names, which may contain characters that it obeys, and metrics."""

import math
import re
from collections.abc import Mapping

# Control characters, line separators, marks that turn the direction of text, and lone surrogates, which cannot be
# encoded: file names that are not UTF-8 have them.
_OBEYED = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    r"""The text with such characters written as Python does: `\x1b`, `\n`, `\u202e`."""
    return _OBEYED.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def metric_line(metrics: Mapping[str, float]) -> str:
    """Metrics in per cent; a dash for a group without categories."""
    return "  ".join(f"{name} {'–' if math.isnan(value) else f'{100 * value:.1f}'}" for name, value in metrics.items())
