"""The words of `equigrad data`, by kind of data set."""
