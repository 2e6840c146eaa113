"""`python -m torture`: jobs of every kind under faults of every kind, and whether every promise was held.

Exit code 0: it was. 1: it was not, and the report says of which jobs. 2: the options make no sense.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import signal
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))  # tests/servers.py

from .place import STORES
from .plan import Plan
from .report import lines
from .torture import NoServer, torture


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    """Return the options, all of which have a default."""
    parser = argparse.ArgumentParser(prog="torture", description=__doc__)
    parser.add_argument("--store", choices=STORES, action="append", help="more than one may be given; default: all")
    parser.add_argument("--seconds", type=float, default=120, help="for how long faults happen, for each store")
    parser.add_argument("--jobs", type=int, default=1_000_000_000, help="end earlier, after so many jobs")
    parser.add_argument("--seed", type=int, default=1, help="of every choice; when things meet is up to the machine")
    parser.add_argument("--rate", type=float, default=400, help="jobs per second that are enqueued at most")
    parser.add_argument("--bulk", type=float, default=0.6, help="the share of plain jobs; the rest is of all kinds")
    parser.add_argument("--backlog", type=int, default=5000, help="producers wait while more jobs are unfinished")
    parser.add_argument("--lease", type=float, default=2, help="of the workers, in seconds")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--slots", type=int, default=12, help="of each worker")
    parser.add_argument("--batch", type=int, default=200, help="jobs that a producer sends at once, about")
    parser.add_argument("--every", type=float, default=3, help="seconds between two faults, about")
    parser.add_argument("--keep", type=float, default=3600, help="seconds for which finished jobs are kept")
    parser.add_argument("--history", type=int, default=100_000_000, help="events that the log keeps")
    parser.add_argument("--disk-mb", type=int, default=1024, help="the size of the disk that is filled")
    parser.add_argument("--quiesce", type=float, default=120, help="seconds that all may take to end, at the end")
    parser.add_argument("--faults", default="", help="only these, with commas between; default: all that fit")
    parser.add_argument(
        "--folder", type=Path, help="keep ledger and logs there; default: only when a promise was broken"
    )
    return parser.parse_args(given)


def plan_for(store: str, options: argparse.Namespace) -> Plan:
    """Return the plan of one torture, with a folder of its own."""
    folder = Path(tempfile.mkdtemp(prefix=f"holdfast-torture-{store}-", dir=options.folder))
    folder.chmod(0o755)  # a server that must not be root reads the board
    plain = {k: v for k, v in vars(options).items() if k not in ("store", "folder", "faults")}
    return Plan(store=store, folder=str(folder), faults=[f for f in options.faults.split(",") if f], **plain)


def main() -> int:
    options = arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # it ends as by Ctrl-C: everything is let go
    if options.folder is not None:
        options.folder.mkdir(parents=True, exist_ok=True)
    codes = [run(plan_for(store, options), options.folder is not None) for store in options.store or STORES]
    return max(codes)


def run(plan: Plan, keep: bool) -> int:
    """Print the report of one torture, and return its exit code. The folder stays when a promise was broken."""
    try:
        verdict = asyncio.run(torture(plan))
    except NoServer:
        print(f"{plan.store}: its server is not installed here", flush=True)
        shutil.rmtree(plan.path, ignore_errors=True)
        return 0
    print("\n".join(lines(verdict)), flush=True)
    if verdict.held and not keep:
        shutil.rmtree(plan.path, ignore_errors=True)
    else:
        print(f"  ledger, logs and events are in {plan.path}", flush=True)
    return 0 if verdict.held else 1


if __name__ == "__main__":
    sys.exit(main())
