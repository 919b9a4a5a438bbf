"""`python -m equigrad`, which `torchrun -m` needs."""

import sys

from equigrad.cli import main

if __name__ == "__main__":
    sys.exit(main())
