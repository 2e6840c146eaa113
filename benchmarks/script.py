"""The near side of a system's process: run one verb, answer in JSON lines on standard output.

Standard library only: every system's own environment imports this module.

    enqueue, bulk, drain   print {"metric": verb, "value": jobs per second}
    serve                  run a worker; print {"started": ns} whenever a handler starts
    send                   for each line on standard input enqueue a job and print {"sent": ns}
    call                   with a worker at hand: the metrics call_p50 (ms) and callers (round trips per second)
    sleep                  {"metric": "sleep", "value": seconds}: SLEEPERS jobs of SLEEP seconds, 100 at a time
    wakes                  claims sent for each job while many workers are idle (ours only)
    anything else          a function of that name in the script, which prints its own metrics
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.system import RATES, Place, System


class Stopwatch:
    """`seconds` holds how long the block took."""

    seconds = 0.0

    def __enter__(self) -> Stopwatch:
        self._start = time.perf_counter()
        return self

    def __exit__(self, *exc: object) -> None:
        self.seconds = time.perf_counter() - self._start


def say(**fields: Any) -> None:
    """One line is on standard output, whole, whichever thread or process says it."""
    os.write(1, json.dumps(fields).encode() + b"\n")


def started() -> None:
    """The harness knows that a handler has started now."""
    say(started=time.monotonic_ns())


def require(done: int, jobs: int) -> None:
    """A drain that lost jobs has no speed."""
    if done != jobs:
        raise SystemExit(f"{done} of {jobs} jobs completed: nothing to time")


def main(script: dict[str, Any]) -> None:
    """The verb on the command line has run, by the function of that name in `script`."""
    verb, place = _arguments()
    act = script[verb]
    _say_version(script["SYSTEMS"][0])
    if verb in RATES:
        say(metric=verb, value=place.jobs / act(place))
    elif verb == "send":
        _send_on_request(act(place))
    else:
        act(place)


def _send_on_request(send: Callable[[], object]) -> None:
    for _ in sys.stdin:
        sent = time.monotonic_ns()
        send()
        say(sent=sent)


def _say_version(system: System) -> None:
    if system.packages:
        say(version=version(system.packages[0].split("[")[0]))


def _arguments() -> tuple[str, Place]:
    parser = argparse.ArgumentParser()
    parser.add_argument("verb")
    parser.add_argument("--url", required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--jobs", type=int, required=True)
    parser.add_argument("--variant", default="")
    given = vars(parser.parse_args())
    return given.pop("verb"), Place(**given)
