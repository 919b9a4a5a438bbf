"""Checks every host that is installed, and writes the table of docs/integrations."""

import argparse
import contextlib
import io
import sys
from pathlib import Path

from tests.integrations.hosts import HOSTS
from tests.integrations.table import with_table


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.integrations", description=__doc__)
    parser.add_argument("--table", type=Path, help="the page whose table is written anew")
    parser.add_argument("--only", default="", help="hosts whose name has this in it")
    arguments = parser.parse_args()
    reports = {}
    for host in HOSTS:
        if arguments.only not in host.name:
            continue
        if host.version is None:
            print(f"{host.name}: {host.package} is not installed")
            continue
        with contextlib.redirect_stdout(io.StringIO()):  # progress bars of hosts
            reports[host] = host.check()
        print(f"{host.name}, {host.package} {host.version}\n{reports[host]}", flush=True)
    if arguments.table is not None:
        missing = [host.name for host in HOSTS if host not in reports]
        if missing:
            print(f"no table: without {', '.join(missing)} it would lose rows", file=sys.stderr)
            return 1
        arguments.table.write_text(with_table(arguments.table.read_text(), reports))
    return 0 if all(report.passed for report in reports.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
