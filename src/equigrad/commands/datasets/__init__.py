"""The commands of `equigrad data`, by kind of data."""
