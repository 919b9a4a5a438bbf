"""Labels that are not a category, with one meaning in the whole package."""

BACKGROUND = -1
"""A sample without category: a negative of every category (sigmoid losses only)."""

IGNORE = -100
"""Not a sample: no loss, no gradient, no statistics."""
