"""Rows of jobs by id and by run, for those who read and for transitions alike."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ...core.chain import ChainRef
from ...core.job import JobRecord, run_number
from ..rows import record as job_record
from .repair.columns import STORED
from .tx import Row, Tx


def get(tx: Tx, queue: str, id: str, run: int | None) -> JobRecord | None:
    """Return the run that answers for an id, or else its latest that is still kept; or a given run of it."""
    row = find(tx, queue, id, run)
    return None if row is None else record(tx, row)


def get_all(tx: Tx, asked: Sequence[tuple[str, str, int | None]]) -> list[JobRecord | None]:
    """Return the same for several, in their order."""
    return [get(tx, *each) for each in asked]


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
