"""Does a larger `prior_power` help on other data too? Its gain over the default beside its cost, on frozen features.

    python benchmarks/advice.py
    python benchmarks/advice.py --page docs/evidence/advice.md

Made of comparisons that `equigrad compare` has measured in `runs/compared`; the page has their commands. Places-LT is
simulated, because its images cannot be had.
"""

from pathlib import Path

from evidence_tables import Table
from made_features import MIXTURES
from simulated_heads import BALANCED_SOFTMAX, CE, SIGMOID_EQL, SOFTMAX_EQL, softmax_eql
from simulations import Simulation, main

_AGAINST = {
    "ce": "ce",
    "balanced_softmax": "ce",
    "softmax_eql": "ce",
    "sigmoid_eql": "ce",
    "power2": "softmax_eql",
    "power25": "softmax_eql",
}
_HEADS = {
    "ce": CE,
    "balanced_softmax": BALANCED_SOFTMAX,
    "softmax_eql": SOFTMAX_EQL,
    "sigmoid_eql": SIGMOID_EQL,
    "power2": softmax_eql(2.0),
    "power25": softmax_eql(2.5),
}
COMPARED = [Table(data, "classification", _AGAINST, data) for data in ("caltech", "characters", "leaves")]
SIMULATIONS = {"places_lt": Simulation(MIXTURES["places_lt"], _HEADS, _AGAINST)}

if __name__ == "__main__":
    main(__doc__, Path("runs/advice"), SIMULATIONS, COMPARED)
