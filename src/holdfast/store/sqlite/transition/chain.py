"""Chains: a job is continued by the next, and the row of the first job says where the chain stands."""

from __future__ import annotations

import json
from collections.abc import Sequence

import msgspec

from ....core.chain import OPEN
from ....core.state import State
from ...contract import Complete
from ..query import find
from ..tx import Row, Tx
from . import enqueue


def continue_chains(tx: Tx, entries: Sequence[Complete]) -> None:
    """complete: end these jobs, all of one queue, and enqueue the next job of each chain."""
    runs = [entry.lease.run for entry in entries]
    queue = entries[0].lease.queue
    numbers = json.dumps(runs)
    tx.run("chain", "continue_all", runs=numbers, now=tx.now, **tx.known_queue(queue).kept[State.COMPLETED])
    tx.moved(queue, "active", "completed", len(runs))
    tx.append("complete", runs, ran=True)
    places = {run: (chain, at) for run, chain, at in msgspec.json.decode(tx.value("chain", "places", runs=numbers))}
    tails: dict[int, int] = {}
    for target in {entry.then.queue for entry in entries if entry.then}:
        following = [
            (places[entry.lease.run], entry.then.job) for entry in entries if entry.then and entry.then.queue == target
        ]
        new = enqueue.enqueue_next(tx, target, [(job, chain, at + 1) for (chain, at), job in following])
        tails.update({chain: run for ((chain, _), _), run in zip(following, new, strict=True)})
    tx.run("chain", "move", tails=json.dumps(tails))


def end(tx: Tx, row: Row, state: State) -> Row | None:
    """End the chain whose last job, not its first, a run is; return the row of its first job.

    `None` when the chain continues, or is not there any more.
    """
    first = tx.job(row["chain"])
    if first is None:  # nothing else will expire its jobs
        queue_ttl = tx.queue(row["queue"]).settings.result_ttl_ms
        tx.run("chain", "orphan", chain=row["chain"], now=tx.now, queue_ttl=queue_ttl)
        return None
    if first["chain_state"] != OPEN or first["tail"] != row["run"]:
        return None
    kept = tx.queue(first["queue"]).kept[state]
    tx.run("chain", "end", run=first["run"], tail=row["run"], state=state, now=tx.now, **kept)
    return first


def reopen(tx: Tx, row: Row, tail: int) -> None:
    """Open the chain of a requeued job again, with its new run as the current one."""
    tx.run("chain", "reopen", run=row["chain"], tail=tail)


def is_last(tx: Tx, row: Row) -> bool:
    """Return whether a run may be requeued: the only job of a chain that is over, or its last."""
    if not row["position"]:
        return bool(row["chain_state"] != OPEN)
    first = tx.job(row["chain"])
    return first is not None and first["tail"] == row["run"]


def first_of(tx: Tx, queue: str, id: str, run: int | None) -> Row | None:
    """Return the row of a chain's first job, by that or by another of its jobs."""
    row = find(tx, queue, id, run)
    if row is not None and row["position"]:
        row = tx.job(row["chain"])
    return row


def current(tx: Tx, first: Row) -> Row:
    """Return the row of a chain's current job, or of its last; its first when that is gone."""
    return (tx.job(first["tail"]) if first["tail"] is not None else None) or first
