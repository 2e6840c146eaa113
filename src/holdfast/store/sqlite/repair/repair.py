"""Unreadable rows are set aside: found when a call fails on one, repaired, noted and reported once.

A call that meets no such row pays nothing for this.
"""

from __future__ import annotations

from ....core.bound import MENDED_AT_ONCE
from ....core.job import ErrorRecord
from ....core.policy import Cause
from ....core.state import FINISHED, State
from ....errors import HoldfastError, StoreError
from ...contract import Corrupt
from ..transition.claim import lane
from ..transition.fail import fail
from ..tx import Row, Tx
from .columns import INDEXED, TABLES
from .count import recount
from .note import note, note_job
from .statements import KEYS, NUMBERED


def may_be_unreadable(error: Exception) -> bool:
    """Return whether an unreadable row can raise such an error: one that was not foreseen, not Holdfast's own."""
    return type(error) is StoreError or not isinstance(error, HoldfastError)


def find_unreadable(tx: Tx) -> dict[str, list[int]]:
    """Return the tables with unreadable rows, and the numbers of those rows that have one."""
    found = {table: [row[0] for row in tx.run("unreadable_rows", f"find_{table}").fetchall()] for table in TABLES}
    return {table: numbers for table, numbers in found.items() if numbers}


def repair(tx: Tx, found: dict[str, list[int]]) -> None:
    """Set unreadable rows aside: jobs fail, and of other rows the unreadable values are reset."""
    for table in found.keys() - NUMBERED.keys():
        _repair_table(tx, table)
    tx.run("queue", "touch_all")  # caches of policies and settings are loaded again
    for seq in found.get("event", ()):
        _note_rows(tx, "event", number=seq)
        tx.run("unreadable_rows", "drop_event", number=seq)
    for run in found.get("job", ()):
        set_aside(tx, run)
    if "lane" in found:
        for queue, key in tx.run("lane", "with_jobs").fetchall():
            lane.recheck(tx, queue, key)


def _repair_table(tx: Tx, table: str) -> None:
    _note_rows(tx, table)
    waiting = tx.run("unreadable_rows", "waiting").fetchall() if table == "blocker" else []
    tx.run("unreadable_rows", f"drop_{table}")
    if table in KEYS:
        tx.run("unreadable_rows", f"repair_{table}", now=tx.now, number=0)
    for (run,) in waiting:
        row = tx.job(run) if isinstance(run, int) else None
        if row is not None and row["state"] == "blocked":
            _fail(tx, row, "what it waits for cannot be read")


def set_aside(tx: Tx, run: int) -> None:
    """Fail a job that cannot be read; its unreadable values are reset, and named in its error."""
    found = tx.run("unreadable_rows", "why_job", number=run).fetchone()
    if found is None or not found[-1]:
        return
    tx.run("unreadable_rows", "repair_job", now=tx.now, number=run)
    row = tx.job(run)
    assert row is not None
    if State(row["state"]) in FINISHED:
        note(tx, Corrupt(kind="finished job", queue=row["queue"], id=row["id"], run=run, detail=found[-1]))
    else:
        _fail(tx, row, found[-1])
    lane.recheck_queue(tx, row["queue"])


def _fail(tx: Tx, row: Row, detail: str) -> None:
    error = ErrorRecord(type="CorruptRecord", kind=Cause.CORRUPT, message=f"its record cannot be read: {detail}")
    fail(tx, row, error, Cause.CORRUPT, ran=row["state"] == "active")
    note_job(tx, row["queue"], row["id"], row["run"], error)


def _note_rows(tx: Tx, table: str, **number: int) -> None:
    """Note the unreadable rows of a table, as far as they can be named."""
    for queue, id, detail in tx.run("unreadable_rows", f"why_{table}", **number).fetchall():
        note(tx, Corrupt(kind=table.replace("_", " "), queue=queue, id=str(id), detail=detail))


def report_unreadable(tx: Tx) -> tuple[Corrupt, ...]:
    """Return what was set aside since the last report; rows on which no call would fail are set aside first."""
    for (run,) in tx.run("unreadable", "stateless", limit=MENDED_AT_ONCE).fetchall():
        set_aside(tx, run)
    found: dict[str, list[int]] = {table: [] for table in INDEXED if tx.value("unreadable_rows", f"any_{table}")}
    if found:
        repair(tx, found)
    told = tuple(Corrupt(**row) for row in tx.rows("unreadable", "report"))
    if told:  # the state in which such a record was counted is not known
        recount(tx)
    return told
