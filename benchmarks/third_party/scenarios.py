"""python -m benchmarks.third_party.scenarios: a held transaction, and a killed replica, under a steady load.

What the scenarios `idle_in_tx_saturation` and `chaos_crash_recovery` of hardbyte/postgresql-job-queue-benchmarking do,
by a script of our own, since that harness wants Docker: two replicas, each a producer and a worker, are told by lines
how many jobs to enqueue. Phases follow each other: nothing; a transaction with a transaction id stays open, so that
nothing that dies meanwhile can be cleared; it has ended; the first replica is killed with -9; it runs again. Shown for
each phase: jobs a second offered and completed, the 95th per cent of waits, and dead rows at its end.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from benchmarks import peers
from benchmarks.compare.environment import ROOT, NotInstallable, command
from benchmarks.compare.process import Failed, run
from benchmarks.store import fresh
from benchmarks.system import Place, System

RATE = 400
REPLICAS = 2
SLOTS = 32
TICK = 0.025
SETTLING = 3.0
"""Seconds after the start that are not counted."""
PHASES = ("steady", "transaction held", "released", "replica killed", "replica back")
OURS = System(name="holdfast", script="benchmarks.third_party.adapter", store="postgres", measures=("steady",))
PEERS = ("awa", "pgqueuer")


@dataclass(frozen=True)
class Phase:
    """What one system did in one phase."""

    system: str
    phase: str
    offered: float
    completed: float
    p95_ms: float
    dead_rows: int
    failure: str = ""


class Replica:
    """One process of a system: it is told what to enqueue, and its samples are heard."""

    def __init__(self, system: System, place: Place, number: int) -> None:
        given = {
            "DATABASE_URL": place.url, "SAMPLE_EVERY_S": "1", "PRODUCER_PACING": "harness", "JOB_WORK_MS": "1",
            "JOB_PAYLOAD_BYTES": "256", "WORKER_COUNT": str(SLOTS), "BENCH_INSTANCE_ID": str(number),
        }  # fmt: skip
        words = [*command(system), "steady", f"--url={place.url}", f"--folder={place.folder}", "--jobs=0"]
        pipe, self._log = subprocess.PIPE, (place.folder / f"{number}.log").open("ab")
        self.process = subprocess.Popen(
            words, cwd=ROOT, env={**os.environ, **given}, stdin=pipe, stdout=pipe, stderr=self._log, text=True,
            start_new_session=True,
        )  # fmt: skip
        self.samples: list[tuple[float, str, float]] = []
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{") and '"metric"' in line:
                sample = json.loads(line)
                self.samples.append((time.monotonic(), sample["metric"], float(sample["value"])))

    def enqueue(self, count: int) -> None:
        assert self.process.stdin is not None
        with suppress(BrokenPipeError, ValueError):  # it was killed
            self.process.stdin.write(f"ENQUEUE {count}\n")
            self.process.stdin.flush()

    def end(self, number: int = signal.SIGKILL) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(10)
        self._log.close()


class Load:
    """All replicas of one system, which are given their share of the jobs."""

    def __init__(self, system: System, place: Place) -> None:
        self.system, self.place = system, place
        self.replicas = [Replica(system, place, number) for number in range(REPLICAS)]
        self.gone: list[Replica] = []

    def run(self, seconds: float) -> float:
        """Offer jobs for so long; return how many each second."""
        began = time.monotonic()
        given = 0
        while (passed := time.monotonic() - began) < seconds:
            due = int(passed * RATE / REPLICAS) - given
            if due > 0:
                given += due
                for replica in self.replicas:
                    replica.enqueue(due)
            time.sleep(TICK)
        return given * len(self.replicas) / (time.monotonic() - began)

    def kill(self) -> None:
        """The first replica is gone."""
        first = self.replicas.pop(0)
        first.end()
        self.gone.append(first)

    def restart(self) -> None:
        """There is one in its place."""
        self.replicas.insert(0, Replica(self.system, self.place, 0))

    def heard(self, metric: str, since: float) -> list[float]:
        """What all replicas said of a metric."""
        everyone = [*self.replicas, *self.gone]
        return [value for each in everyone for at, name, value in each.samples if name == metric and at >= since]

    def close(self) -> None:
        for replica in self.replicas:
            replica.end(signal.SIGTERM)
            replica.end()


def run_phases(system: System, seconds: float, tell: Callable[[str], None]) -> list[Phase]:
    """Return what one system did in each phase, on a server of its own."""
    with fresh(system, 1) as place, ExitStack() as stack:
        if system is not OURS:
            run(system, "enqueue", place)  # its schema is there; ours makes its own under a lock
        load = Load(system, place)
        stack.callback(load.close)
        load.run(SETTLING)
        found = []
        for phase in PHASES:
            tell(f"{system.name}, {phase}")
            with _during(phase, load):
                found.append(_phase(load, phase, seconds))
    return found


@contextmanager
def _during(phase: str, load: Load) -> Iterator[None]:
    """What a phase is about."""
    import psycopg

    if phase == "replica killed":
        load.kill()
    elif phase == "replica back":
        load.restart()
    if phase != "transaction held":
        yield
        return
    with psycopg.connect(load.place.url) as holder:
        holder.execute("SELECT pg_current_xact_id()")
        yield
        holder.rollback()


def _phase(load: Load, phase: str, seconds: float) -> Phase:
    since = time.monotonic()
    offered = load.run(seconds)
    completed = sum(load.heard("completion_rate", since)) / seconds
    waits = load.heard("claim_p95_ms", since)
    return Phase(
        load.system.name, phase, offered, completed, statistics.median(waits) if waits else 0.0, _dead_rows(load.place)
    )


def _dead_rows(place: Place) -> int:
    import psycopg

    with psycopg.connect(place.url) as server:
        row = server.execute("SELECT sum(n_dead_tup)::bigint FROM pg_stat_user_tables").fetchone()
    return int(row[0]) if row and row[0] else 0


def systems(chosen: Sequence[str] = PEERS) -> list[System]:
    """Ours, and those peers that speak the contract."""
    known = peers.known("postgres")
    return [OURS, *(known[name][0] for name in chosen)]


def measure(
    seconds: float, tell: Callable[[str], None] = lambda line: None, chosen: Sequence[str] = PEERS
) -> list[Phase]:
    """What every system did in each phase."""
    found: list[Phase] = []
    for system in systems(chosen):
        try:
            found += run_phases(system, seconds, tell)
        except (Failed, NotInstallable) as error:
            found.append(Phase(system.name, PHASES[0], 0, 0, 0, 0, failure=str(error)))
    return found


def table(found: Sequence[Phase]) -> Table:
    """Return the phases of each system."""
    shown = Table("system", "phase", "offered, jobs/s", "completed, jobs/s", "wait p95, ms", "dead rows")
    for each in found:
        figures = (f"{each.offered:,.0f}", f"{each.completed:,.0f}", f"{each.p95_ms:,.1f}", f"{each.dead_rows:,}")
        shown.add_row(each.system, each.phase, *((each.failure,) if each.failure else figures))
    return shown


@click.command(help=__doc__)
@click.option("--seconds", type=click.FloatRange(2), default=60.0, show_default=True, help="Of each phase.")
@click.option("--peers", "chosen", default=",".join(PEERS), show_default=True, help="Names with commas, or 'none'.")
@click.option("--json", "file", type=click.Path(path_type=Path), help="Write every figure here.")
def main(seconds: float, chosen: str, file: Path | None) -> None:
    names = [] if chosen == "none" else chosen.split(",")
    found = measure(seconds, lambda line: click.echo(line, err=True), names)
    Console().print(table(found))
    if file:
        file.write_text(json.dumps([asdict(each) for each in found], indent=2) + "\n")


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.third_party.scenarios")
