"""Labels of what has no category. `models` may not import `losses`; the numbers are those of the public contract."""

BACKGROUND = -1
"""`equigrad.BACKGROUND`: a negative of every category."""

IGNORE = -100
"""`equigrad.IGNORE`: no sample at all; no loss, no gradient, no statistics."""
