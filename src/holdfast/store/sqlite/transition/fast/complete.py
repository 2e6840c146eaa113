"""Fast path of complete: a whole batch of one queue in a few statements.

It equals `settle.settle_each`, the slow path, which settles one job after the other. A batch is left to that when a
lease of it is not held, when a result is no plain text or has a TTL of its own, or when anything else would have to be
looked at for a job: successors, aborts or lanes; or, where something is watched, chains and absorbed runs.
Compared by tests/store/sqlite/test_sqlite_fast_paths.py.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from .....core.state import State
from .....core.transition import Reply
from ....contract import Complete, Session, Settled, Settlement
from ...tx import Tx
from .. import blocker, chain
from ..end import end_run


def complete_all(tx: Tx, session: Session, settlements: Sequence[Settlement]) -> list[Settled] | None:
    """Complete a whole batch at once; `None`, with nothing changed, when a job of it needs a closer look."""
    entries = [entry for entry in settlements if type(entry) is Complete]
    if len(entries) < len(settlements):
        return None
    last = [entry for entry in entries if entry.then is None]
    continued = [entry for entry in entries if entry.then is not None]
    results = _results(entries)
    watched, *others = tx.run("session", "busy").fetchone()
    if results is None or any(others):
        return None
    found = _held(tx, session, entries)
    if found is None or (watched and (found.chained or found.absorbing or continued)):
        return None
    if last:
        _finish_all(tx, last, results, chained=found.chained > 0)
    if watched:
        tx.notify_all_watchers(last[0].lease.queue, [entry.lease.run for entry in last], State.COMPLETED)
    if continued:
        chain.continue_chains(tx, continued)
    return [Settled(Reply.OK, State.COMPLETED)] * len(entries)


def _finish_all(tx: Tx, entries: Sequence[Complete], results: str, *, chained: bool) -> None:
    """Complete jobs that do not continue, and end the chains whose last jobs they are."""
    queue = entries[0].lease.queue
    runs = [entry.lease.run for entry in entries]
    kept = tx.known_queue(queue).kept[State.COMPLETED]
    tx.run("complete", "finish_all", results=results, now=tx.now, **kept)
    tx.moved(queue, "active", "completed", len(runs))
    tx.append("complete", runs, ran=True)
    if chained:
        later = [run for (run,) in tx.run("chain", "members_among", runs=json.dumps(runs)).fetchall()]
        for run in later:
            end_run(tx, tx.job(run) or {}, State.COMPLETED)
        runs = list({*runs} - {*later})
    blocker.report(tx, runs)


def _results(entries: Sequence[Complete]) -> str | None:
    """Return the results by run as one JSON text, for one statement; `None` when they are not all alike text."""
    queue = entries[0].lease.queue
    results, seen = {}, set()
    for entry in entries:
        seen.add(entry.lease.run)
        if entry.then is not None and entry.lease.queue == queue:
            continue
        if entry.lease.queue != queue or entry.result_ttl_ms is not None or b"\0" in entry.result:
            return None
        try:
            results[entry.lease.run] = entry.result.decode()
        except UnicodeDecodeError:
            return None
    return json.dumps(results) if len(seen) == len(entries) else None


class HeldJobs(NamedTuple):
    """How many of the jobs belong to a chain, and how many have absorbed other runs of their ids."""

    chained: int
    absorbing: int


def _held(tx: Tx, session: Session, entries: Sequence[Complete]) -> HeldJobs | None:
    """Return what is known of jobs together; `None` unless every lease is held.

    A run's attempts never fall, so equal sums mean equal attempts.
    """
    runs = [entry.lease.run for entry in entries]
    *held, chained, absorbing = tx.run("complete", "held", session=session.id, runs=json.dumps(runs)).fetchone()
    return HeldJobs(chained, absorbing) if held == [len(runs), sum(entry.lease.attempt for entry in entries)] else None
