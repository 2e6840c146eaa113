"""Notes of records that were set aside: each is reported once by `reap`, and shown by `doctor`."""

from __future__ import annotations

import msgspec

from ....core.bound import MOST_SET_ASIDE
from ....core.job import ErrorRecord
from ...contract import Corrupt
from ..tx import Tx


def note_job(tx: Tx, queue: str, id: str, run: int, error: ErrorRecord) -> None:
    """Note a job that has just failed because it cannot be read."""
    note(tx, Corrupt(kind="job", queue=queue, id=id, run=run, detail=error.message))


def note(tx: Tx, what: Corrupt) -> None:
    """Note a record that was set aside."""
    tx.run("unreadable", "note", now=tx.now, **msgspec.structs.asdict(what))
    tx.run("unreadable", "keep_newest", most=MOST_SET_ASIDE)
