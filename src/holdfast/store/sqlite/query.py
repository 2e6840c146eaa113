"""Rows of jobs and chains: by id, by run and by filter, for those who read and for transitions alike."""

from __future__ import annotations

import json

import msgspec

from ...core.chain import ChainRef
from ...core.job import JobRecord, run_number
from ..contract import Filter
from ..rows import before
from ..rows import record as job_record
from .repair.columns import STORED
from .tx import Row, Tx, Value


def get(tx: Tx, queue: str, id: str, run: int | None) -> JobRecord | None:
    """Return the run that answers for an id, or else its latest that is still kept; or a given run of it."""
    row = find(tx, queue, id, run)
    return None if row is None else record(tx, row)


def find(tx: Tx, queue: str, id: str, run: int | None) -> Row | None:
    """Return the row of the run that answers for an id, or else of its latest; or of a given run of it."""
    run = run_number(run)
    row = tx.row("job", "run", queue=queue, id=id, run=run) if run is not None else answering(tx, queue, id)
    if row is None or (row["queue"], row["id"]) != (queue, id) or _is_expired(tx, row):
        return None
    return row


def answering(tx: Tx, queue: str, id: str) -> Row | None:
    """Return the row of the run that has an id now, or else of its latest run that is still kept."""
    here = {"queue": queue, "id": id, "now": tx.now}
    return tx.row("job", "of_id", **here) or tx.row("job", "latest", **here)


def _is_expired(tx: Tx, row: Row) -> bool:
    return row["expires_at_ms"] is not None and row["expires_at_ms"] <= tx.now


def record(tx: Tx, row: Row) -> JobRecord:
    """Return a row as the record that the contract promises; raise `msgspec.ValidationError` when it is unreadable."""
    msgspec.convert(row, STORED["job"])
    return job_record(row, tx.now, _chain(tx, row))


def _chain(tx: Tx, row: Row) -> ChainRef | None:
    if row["chain"] is None:
        return None
    found = tx.run("chain", "ref", run=row["chain"]).fetchone()
    return ChainRef(*found) if found else None


def matching(tx: Tx, which: Filter, limit: int, cursor: str | None, *, requeued: bool) -> list[Row]:
    """Return the rows that match, newest first. Without `requeued`, runs that were requeued are left out."""
    chain = run_number(which.chain.run) if which.chain else None
    values = {"requeued": requeued, "chain": chain, "tag": which.tag, **conditions(tx, which, limit, cursor)}
    runs = _candidates(tx, which)
    return tx.rows("job", "list", **values) if runs is None else tx.rows("job", "list_of", runs=runs, **values)


def _candidates(tx: Tx, which: Filter) -> str | None:
    """Return the runs that an index finds for a filter, as JSON; `None` where only a walk through the table helps."""
    found: set[int] | None = None
    if which.holders:
        found = {run for (run,) in tx.run("job", "runs_of_holders", holders=json.dumps(which.holders))}
    if which.ids:
        of_ids = {run for (run,) in tx.run("job", "runs_of_ids", ids=json.dumps(which.ids), queue=which.queue)}
        found = of_ids if found is None else found & of_ids
    return None if found is None else json.dumps(sorted(found))


def conditions(tx: Tx, which: Filter, limit: int, cursor: str | None) -> dict[str, Value]:
    """Return a filter as the parameters of the statements that list jobs and chains."""
    return {
        "before": before(cursor),
        "queue": which.queue,
        "states": json.dumps(which.states) if which.states else None,
        "task": which.task,
        "key": which.key,
        "ids": json.dumps(which.ids) if which.ids else None,
        "after": which.enqueued_after_ms,
        "until": which.enqueued_before_ms,
        "now": tx.now,
        "limit": limit,
    }
