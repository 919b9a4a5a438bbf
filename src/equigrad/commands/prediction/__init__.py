"""The parts of `equigrad predict`: what is read, the loop over it, and what is written."""
