"""python -m benchmarks.health: a store over a long run.

    python -m benchmarks.health [--jobs 1000000] [--seconds 600] [--json FILE]
    python -m benchmarks.health --store sqlite [--low 97200] [--jobs 9000000] [--json FILE]

With `--store sqlite`: the log, the file and a worker's memory over an hour's worth of jobs. Else PostgreSQL's tables.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from rich.console import Console

from benchmarks.health import postgres, sqlite


def main() -> None:
    """What was asked for is measured and shown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", choices=("postgres", "sqlite"), default="postgres")
    parser.add_argument("--jobs", type=int, help="1,000,000 on PostgreSQL; on SQLite those of high load, 9,000,000")
    parser.add_argument("--low", type=int, default=sqlite.LOW, help="on SQLite: the jobs of low load")
    parser.add_argument("--seconds", type=float, default=600, help="the longest that one drain may take")
    parser.add_argument("--json", type=Path, help="write every figure here")
    options = parser.parse_args()
    console = Console()
    if options.store == "sqlite":
        found = sqlite.run(options.low, options.jobs or sqlite.HIGH, console)
    else:
        found = postgres.run(options.jobs or postgres.MOST, options.seconds, console)
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
