"""What the command's exit codes mean."""

FAILED = 1
WRONG_USAGE = 2
STOPPED = 3
"""On request, before the end; `--resume` continues a training."""
