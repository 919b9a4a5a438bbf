"""Random cases against what must always hold: `python -m tests.fuzz --cases 1000000 --seed 1 [--only readers]`."""

import argparse
import importlib
import sys
import time
from random import SystemRandom

FUZZERS = ("losses", "readers")  # modules of this package, each with `run(cases, seed) -> Summary`


def main() -> int:
    """0 if no case failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=100_000, help="of each fuzzer")
    parser.add_argument("--seed", type=int, help="the same seed gives the same cases; by default another each time")
    parser.add_argument("--only", choices=FUZZERS, help="one fuzzer alone")
    parsed = parser.parse_args()
    seed = SystemRandom().randrange(2**32) if parsed.seed is None else parsed.seed
    failed = False
    for name in FUZZERS if parsed.only is None else (parsed.only,):
        start = time.perf_counter()
        print(f"{name}: seed {seed}", flush=True)
        summary = importlib.import_module(f"tests.fuzz.{name}").run(parsed.cases, seed)
        print(f"{summary}\n{name}: {time.perf_counter() - start:.0f} s", flush=True)
        failed |= bool(summary.failures)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
