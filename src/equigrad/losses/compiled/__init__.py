"""Passes in C, for logits on a CPU; where they could not be compiled, torch's operations compute the losses."""
