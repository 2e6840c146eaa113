"""Fast path of complete: a whole batch in a few statements.

It equals `settle.settle_each`, the slow path, which settles one job after the other. A batch is left to that when a
lease of it is not held, when a result is no plain text or has a TTL of its own, or when anything else would have to be
looked at for a job: successors or aborts; or, where something is watched or has a key, chains and absorbed runs.
Compared by tests/store/sqlite/test_sqlite_fast_paths.py.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from .....core.state import State
from .....core.transition import Reply
from ....contract import Complete, Session, Settled, Settlement
from ...tx import Tx
from .. import blocker, chain
from ..claim import lane
from ..end import end_run
from ..row import from_hex


def complete_all(tx: Tx, session: Session, settlements: Sequence[Settlement]) -> list[Settled] | None:
    """Complete a whole batch at once; `None`, with nothing changed, when a job of it needs a closer look."""
    entries = [entry for entry in settlements if type(entry) is Complete]
    if len(entries) < len(settlements):
        return None
    last = [entry for entry in entries if entry.then is None]
    continued = [entry for entry in entries if entry.then is not None]
    results = _results(entries)
    watched, keyed, *others = tx.run("session", "busy").fetchone()
    if results is None or any(others):
        return None
    found = _held(tx, session, entries)
    if found is None or ((watched or keyed) and (found.chained or found.absorbing or continued)):
        return None
    if last:
        _finish_all(tx, last, results, chained=found.chained > 0)
    if watched:
        tx.notify_all_watchers({entry.lease.run: entry.result for entry in last}, State.COMPLETED)
    if keyed:
        _recheck_lanes(tx, last)
    if continued:
        chain.continue_chains(tx, continued)
    return [Settled(Reply.OK, State.COMPLETED)] * len(entries)


def _finish_all(tx: Tx, entries: Sequence[Complete], results: Mapping[int, str], *, chained: bool) -> None:
    """Complete jobs that do not continue, and end the chains whose last jobs they are."""
    queues = Counter(entry.lease.queue for entry in entries)
    for kept, some in _by_retention(tx, queues):
        own = {entry.lease.run: results[entry.lease.run] for entry in entries if entry.lease.queue in some}
        tx.run("complete", "finish_all", results=json.dumps(own), now=tx.now, **kept)
    for queue, count in queues.items():
        tx.moved(queue, "active", "completed", count)
    runs = [entry.lease.run for entry in entries]
    tx.append("complete", runs, ran=True)
    if chained:
        later = [run for (run,) in tx.run("chain", "members_among", runs=json.dumps(runs)).fetchall()]
        for run in later:
            end_run(tx, tx.job(run) or {}, State.COMPLETED)
        runs = list({*runs} - {*later})
    blocker.report(tx, runs)


def _by_retention(tx: Tx, queues: Iterable[str]) -> Iterable[tuple[Mapping[str, int], set[str]]]:
    """Return the queues by how long they keep completed runs: those of most apps keep them equally long."""
    found: dict[tuple[int, ...], tuple[Mapping[str, int], set[str]]] = {}
    for queue in queues:
        kept = tx.known_queue(queue).kept[State.COMPLETED]
        found.setdefault(tuple(kept.values()), (kept, set()))[1].add(queue)
    return found.values()


def _recheck_lanes(tx: Tx, entries: Sequence[Complete]) -> None:
    """Check the lanes of jobs that are over, in their order."""
    runs = [entry.lease.run for entry in entries]
    keys: dict[str, str] = msgspec.json.decode(tx.value("complete", "keys", runs=json.dumps(runs)))
    lanes: dict[str, list[str]] = {}
    for entry in entries:
        if (key := keys.get(str(entry.lease.run))) is not None:
            lanes.setdefault(entry.lease.queue, []).append(from_hex(key))
    for queue, found in lanes.items():
        lane.recheck_all(tx, queue, found)


def _results(entries: Sequence[Complete]) -> dict[int, str] | None:
    """Return the results of jobs that do not continue, by run; `None` when one is no text, or a job is there twice.

    Those that continue must be of one queue: of the first.
    """
    results, seen = {}, set()
    for entry in entries:
        seen.add(entry.lease.run)
        if entry.then is not None:
            if entry.lease.queue != entries[0].lease.queue:
                return None
            continue
        if entry.result_ttl_ms is not None or b"\0" in entry.result:
            return None
        try:
            results[entry.lease.run] = entry.result.decode()
        except UnicodeDecodeError:
            return None
    return results if len(seen) == len(entries) else None


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
