"""The row of a new run, and the events of runs that begin."""

from __future__ import annotations

from typing import Any, TypedDict

import msgspec

from ....core.state import State
from ...contract import NewJob
from ..tx import Tx

encoded = msgspec.json.Encoder().encode


class NewRow(TypedDict):
    """The row of a new run, by its columns."""

    run: int
    queue: str
    id: str
    state: str
    task: str | None
    priority: int
    key: str | None
    run_at_ms: int
    enqueued_at_ms: int
    result_ttl_ms: int | None
    dedup_key: str | None
    dedup_until_ms: int | None
    overrides: bytes | None
    envelope: bytes | None
    payload: bytes
    chain: int | None
    position: int
    ready_at_ms: int


COLUMNS = tuple(NewRow.__annotations__)
"""The columns of a packed row, in its order, which is that of `enqueue.insert`. A test compares all three."""
Packed = tuple[Any, ...]
"""A row without names: binding a tuple costs two thirds of binding anything that has names."""


def packed(tx: Tx, queue: str, job: NewJob, run: int, chain: int | None = None, position: int = 0) -> Packed:
    """Return the row of a job that was asked for, at its position in a chain, in the order of `COLUMNS`."""
    run_at = starts_at(tx, job)
    dedup = job.dedup
    return (
        run,
        queue,
        job.id,
        "scheduled" if run_at > tx.now else "waiting",
        job.task,
        job.priority,
        job.key,
        run_at,
        tx.now,
        job.result_ttl_ms,
        dedup.key if dedup else None,
        dedup_until(tx, job),
        encoded(job.overrides) if job.overrides else None,
        job.envelope,
        job.payload,
        chain,
        position,
        run_at,
    )


def new_row(tx: Tx, queue: str, job: NewJob, run: int, chain: int | None, position: int) -> NewRow:
    """Return the row of a job that was asked for, by its columns."""
    return dict(zip(COLUMNS, packed(tx, queue, job, run, chain, position), strict=True))  # type: ignore[return-value]


def insert_row(tx: Tx, row: NewRow) -> State:
    """Insert one new run and count it; return its state."""
    tx.run_many("enqueue", "insert", [[row[column] for column in COLUMNS]])  # type: ignore[literal-required]
    state = State(row["state"])
    tx.moved(row["queue"], None, state)
    return state


def from_hex(text: str) -> str:
    """Return a text that was read in hex, for in SQLite's JSON one ends at its first NUL."""
    return bytes.fromhex(text).decode()


def keeps_payloads(tx: Tx, queue: str) -> bool:
    """Return whether the events of a queue have the payloads of its jobs."""
    return tx.queue(queue).settings.history == "payloads"


def starts_at(tx: Tx, job: NewJob) -> int:
    """Return the job's run_at, a past one raised to now."""
    if job.run_at_ms is not None:
        return max(job.run_at_ms, tx.now)
    return tx.now + max(job.delay_ms or 0, 0)


def dedup_until(tx: Tx, job: NewJob) -> int | None:
    """Return until when the job answers for its dedup key."""
    return tx.now + job.dedup.window_ms if job.dedup and job.dedup.window_ms is not None else None
