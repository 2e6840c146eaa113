"""Rows that hold what we never write are set aside: found when a call stumbles on one, mended, noted and told of once.

Nothing of this costs a call that finds no garbage.
"""

from __future__ import annotations

import msgspec

from ...core.job import ErrorRecord
from ...core.policy import Cause
from ...core.state import FINISHED, State
from ...errors import HoldfastError, StoreError
from ..contract import Corrupt
from . import lane
from .column import INDEXED, TABLES
from .end import fail
from .odd import AT_ONCE, KEYS, NUMBERED
from .tx import Row, Tx

MOST_NOTED = 1000


def may_be_garbage(error: Exception) -> bool:
    """True for an error that a row of garbage can raise: not what we say ourselves, but what surprised us."""
    return type(error) is StoreError or not isinstance(error, HoldfastError)


def find(tx: Tx) -> dict[str, list[int]]:
    """Return the tables in which something is odd, with the numbers of rows that have one."""
    found = {table: [row[0] for row in tx.run("odd", f"find_{table}").fetchall()] for table in TABLES}
    return {table: numbers for table, numbers in found.items() if numbers}


def mend(tx: Tx, found: dict[str, list[int]]) -> None:
    """What is odd is set aside: jobs fail, and the rest is as if it had never been set."""
    for table in found.keys() - NUMBERED.keys():
        _mend_table(tx, table)
    tx.run("queue", "touch_all")  # whoever has policies and settings in memory looks again
    for seq in found.get("event", ()):
        _note(tx, "event", number=seq)
        tx.run("odd", "drop_event", number=seq)
    for run in found.get("job", ()):
        set_aside(tx, run)
    if "lane" in found:
        for queue, key in tx.run("lane", "with_jobs").fetchall():
            lane.recheck(tx, queue, key)


def _mend_table(tx: Tx, table: str) -> None:
    _note(tx, table)
    waiting = tx.run("odd", "waiting").fetchall() if table == "blocker" else []
    tx.run("odd", f"drop_{table}")
    if table in KEYS:
        tx.run("odd", f"mend_{table}", now=tx.now, number=0)
    for (run,) in waiting:
        row = tx.job(run) if isinstance(run, int) else None
        if row is not None and row["state"] == "blocked":
            _fail(tx, row, "what it waits for cannot be read")


def set_aside(tx: Tx, run: int) -> None:
    """fail: a job that cannot be read is a dead letter; what was odd of it is neutral now, and named in its error."""
    found = tx.run("odd", "why_job", number=run).fetchone()
    if found is None or not found[-1]:
        return
    tx.run("odd", "mend_job", now=tx.now, number=run)
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
    note_job(tx, row, error)


def note_job(tx: Tx, row: Row, error: ErrorRecord) -> None:
    """It will be told of a job that has just failed because it cannot be read."""
    note(tx, Corrupt(kind="job", queue=row["queue"], id=row["id"], run=row["run"], detail=error.message))


def note(tx: Tx, what: Corrupt) -> None:
    """Somebody will be told of it, once, and `doctor` shows it."""
    tx.run("corrupt", "note", now=tx.now, **msgspec.structs.asdict(what))
    tx.run("corrupt", "keep_newest", most=MOST_NOTED)


def _note(tx: Tx, table: str, **number: int) -> None:
    """It will be told of odd rows of a table, as far as they can be named."""
    for queue, id, detail in tx.run("odd", f"why_{table}", **number).fetchall():
        note(tx, Corrupt(kind=table.replace("_", " "), queue=queue, id=str(id), detail=detail))


def tell(tx: Tx) -> tuple[Corrupt, ...]:
    """Return what was set aside since anybody was last told; what no call would stumble on is set aside first."""
    for (run,) in tx.run("corrupt", "stateless", limit=AT_ONCE).fetchall():
        set_aside(tx, run)
    found: dict[str, list[int]] = {table: [] for table in INDEXED if tx.value("odd", f"any_{table}")}
    if found:
        mend(tx, found)
    return tuple(Corrupt(**row) for row in tx.rows("corrupt", "tell"))
