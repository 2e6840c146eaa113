"""The near side of a system's process: run one verb, answer in JSON lines on standard output.

Standard library only: every system's own environment imports this module.

    enqueue, bulk, drain   print {"metric": verb, "value": jobs per second}, and what each job cost (`CostWatch`)
    serve                  run a worker; print {"started": ns} whenever a handler starts, or nothing beside `call`
    send                   for each line on standard input enqueue a job and print {"sent": ns}
    call                   with a worker at hand: call_p50 and other quantiles (ms), and callers (per second)
    load, toil             for `benchmarks.recovery`: enqueue jobs by number; run a worker that notes those it has done
    sleep                  {"metric": "sleep", "value": seconds}: SLEEPERS jobs of SLEEP seconds, 100 at a time
    wakes                  claims sent for each job while many workers are idle (ours only)
    anything else          a function of that name in the script, which prints its own metrics
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.processor import of_session, of_tree
from benchmarks.system import DONE, QUANTILES, RATES, SERVER, SILENT, Place, System

_silent = SILENT in os.environ


class Stopwatch:
    """`seconds` holds how long the block took."""

    seconds = 0.0

    def __enter__(self) -> Stopwatch:
        self._start = time.perf_counter()
        return self

    def __exit__(self, *exc: object) -> None:
        self.seconds = time.perf_counter() - self._start


class CostWatch(Stopwatch):
    """A stopwatch that also reads processor time: of this session's processes, and of the store's server."""

    own = server = 0.0

    def __enter__(self) -> CostWatch:
        self._before = self._read()
        super().__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        super().__exit__(*exc)
        self.own, self.server = (after - before for after, before in zip(self._read(), self._before, strict=True))

    def _read(self) -> tuple[float, float]:
        return of_session(os.getsid(0)), of_tree(int(os.environ.get(SERVER, "0")))


def say(**fields: Any) -> None:
    """One line is on standard output, whole, whichever thread or process says it."""
    os.write(1, json.dumps(fields).encode() + b"\n")


def started() -> None:
    """The harness knows that a handler has started now, where it asked for that."""
    if not _silent:
        say(started=time.monotonic_ns())


def note_done(place: Place, job: str) -> None:
    """The harness knows that a handler has ended well, though this process be killed in the next instant."""
    with (place.folder / DONE).open("ab", buffering=0) as file:
        file.write(f"{job}\n".encode())


def quantiles(name: str, samples: list[float]) -> dict[str, float]:
    """The figures of a distribution, such as `call_p50`."""
    cuts = statistics.quantiles(samples, n=100, method="inclusive")
    return {f"{name}p{share:02d}": cuts[share - 1] for share in QUANTILES}


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
        _say_costs(verb, place.jobs, act(place))
    elif verb == "send":
        _send_on_request(act(place))
    else:
        act(place)


def _say_costs(verb: str, jobs: int, watch: CostWatch) -> None:
    say(metric=verb, value=jobs / watch.seconds)
    say(metric=f"{verb}_us", value=watch.own / jobs * 1e6)
    if os.environ.get(SERVER):
        say(metric=f"{verb}_server_us", value=watch.server / jobs * 1e6)


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
