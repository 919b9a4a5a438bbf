"""Labels that are not a category; every part of the package means the same by them."""

BACKGROUND = -1
"""A sample without category: a negative of every category (sigmoid losses only)."""

IGNORE = -100
"""Not a sample: no loss, no gradient, no statistics."""
