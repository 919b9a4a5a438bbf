"""Does a larger `prior_power` help on other data too? Its gain over the default beside its cost, on frozen features.

    python benchmarks/advice.py
    python benchmarks/advice.py --page docs/evidence/advice.md

Made of comparisons that `equigrad compare` has measured in `runs/compared`; the page has their commands.
"""

from pathlib import Path

from evidence_tables import Table
from simulations import main

_AGAINST = {
    "ce": "ce",
    "balanced_softmax": "ce",
    "softmax_eql": "ce",
    "sigmoid_eql": "ce",
    "power2": "softmax_eql",
    "power25": "softmax_eql",
}
COMPARED = [Table(data, "classification", _AGAINST, data) for data in ("caltech", "characters")]

if __name__ == "__main__":
    main(__doc__, Path("runs/advice"), compared=COMPARED)
