"""Modules of `examples/` import one another by name, as scripts do."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "examples"))
