"""Chains: a job goes on with the next, and what the first job's row says of all of them."""

from __future__ import annotations

import json
from collections.abc import Sequence

import msgspec

from ...core.chain import OPEN, ChainRef
from ...core.job import ErrorRecord
from ...core.state import State
from ..contract import ChainPage, ChainRecord, Complete, Filter
from ..row import decoded
from . import enqueue, look
from .tx import Row, Tx


def go_on(tx: Tx, entries: Sequence[Complete]) -> None:
    """complete: these jobs, all of one queue, are over, and the next job of each chain is there."""
    runs = [entry.lease.run for entry in entries]
    settings = tx.settings(entries[0].lease.queue)
    numbers = json.dumps(runs)
    tx.run(
        "chain", "continue_all", runs=numbers, now=tx.now, queue_ttl=settings.result_ttl_ms,
        kept=settings.retention.completed_ms,
    )  # fmt: skip
    tx.append("complete", runs, ran=True)
    places = {run: (chain, at) for run, chain, at in msgspec.json.decode(tx.value("chain", "places", runs=numbers))}
    tails: dict[int, int] = {}
    for queue in {entry.then.queue for entry in entries if entry.then}:
        following = [
            (places[entry.lease.run], entry.then.job) for entry in entries if entry.then and entry.then.queue == queue
        ]
        new = enqueue.follow(tx, queue, [(job, chain, at + 1) for (chain, at), job in following])
        tails.update({chain: run for ((chain, _), _), run in zip(following, new, strict=True)})
    tx.run("chain", "move", tails=json.dumps(tails))


def end(tx: Tx, row: Row, state: State) -> Row | None:
    """Return the job at whose end everything hangs that its chain ends with it: itself, or its chain's first.

    `None` when the chain goes on, or is not there any more.
    """
    if not row["position"]:
        return row
    first = tx.job(row["chain"])
    if first is None or first["chain_state"] != OPEN or first["tail"] != row["run"]:
        return None
    settings = tx.queue(first["queue"]).settings
    retention = settings.retention
    kept = {State.FAILED: retention.failed_ms, State.COMPLETED: retention.completed_ms}.get(state, 0)
    tx.run(
        "chain", "end", run=first["run"], tail=row["run"], state=state, now=tx.now, kept=kept,
        queue_ttl=settings.result_ttl_ms,
    )  # fmt: skip
    return first


def reopen(tx: Tx, row: Row, tail: int) -> None:
    """The chain of a job that runs anew goes on with it."""
    tx.run("chain", "reopen", run=row["chain"], tail=tail)


def is_last(tx: Tx, row: Row) -> bool:
    """True for the only job of a chain that is over, or its last: what may run anew."""
    if not row["position"]:
        return bool(row["chain_state"] != OPEN)
    first = tx.job(row["chain"])
    return first is not None and first["tail"] == row["run"]


def first_of(tx: Tx, queue: str, id: str, run: int | None) -> Row | None:
    """Return the row of a chain's first job, by that or by another of its jobs."""
    row = look.find(tx, queue, id, run)
    if row is not None and row["position"]:
        row = tx.job(row["chain"])
    return row


def get(tx: Tx, queue: str, id: str, run: int | None) -> ChainRecord | None:
    """Return a chain as it stands."""
    row = first_of(tx, queue, id, run)
    return None if row is None else record(tx, row)


def current(tx: Tx, first: Row) -> Row:
    """Return the row of a chain's current job, or of its last; its first when that is gone."""
    return (tx.job(first["tail"]) if first["tail"] is not None else None) or first


def record(tx: Tx, first: Row) -> ChainRecord:
    """Return a chain, by the row of its first job, as everybody else sees it."""
    last = current(tx, first)
    own = first["chain_state"] is None
    state = State(last["state"] if own or first["chain_state"] == OPEN else first["chain_state"])
    return ChainRecord(
        ref=ChainRef(first["queue"], first["id"], first["run"]),
        task=first["task"],
        state=state,
        position=last["position"],
        current=ChainRef(last["queue"], last["id"], last["run"]),
        enqueued_at_ms=first["enqueued_at_ms"],
        finished_at_ms=first["finished_at_ms"] if own else first["ended_at_ms"],
        result=first["result"],
        error=decoded(first["error"], ErrorRecord) if state is State.FAILED else None,
        expires_at_ms=first["expires_at_ms"],
    )


def chains(tx: Tx, which: Filter, limit: int, cursor: str | None) -> ChainPage:
    """Return chains of more than one job, newest first."""
    found = tx.rows("chain", "list", **look.conditions(tx, which, limit + 1, cursor))
    page = [record(tx, row) for row in found[:limit]]
    return ChainPage(chains=page, cursor=str(page[-1].ref.run) if len(found) > limit else None)
