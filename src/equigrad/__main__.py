"""`python -m equigrad`, which `torchrun -m` needs."""

import os
import sys

# Python looks for modules in the current folder first. Someone else's folder may have a torch.py or a json.py.
if sys.path and sys.path[0] in ("", os.getcwd()):
    del sys.path[0]

from equigrad.cli import main

if __name__ == "__main__":
    sys.exit(main())
