"""Tables of the paper: which runs they need, and training those that are missing."""
