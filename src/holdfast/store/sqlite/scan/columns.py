"""The columns of a scan: how each is spelled in SQL, and by which of them rows can be chosen."""

from __future__ import annotations

import time
from collections.abc import Callable

from ...scan import Table

_EVENT = {"sequence": "seq", "epoch": "(SELECT value FROM holdfast_meta WHERE name = 'epoch')"}
_JOB = {
    "started_at_ms": "claimed_at_ms",
    "worker": "session",
    "holds_id": "(held = 1 AND (free_at_ms IS NULL OR free_at_ms > {now}))",
    "cancel_requested": "(cancel = 1)",
    "successor": "((state = 'active' OR chain_state = 'open') AND EXISTS (SELECT 1 FROM holdfast_successor s"
    " WHERE s.queue = j.queue AND s.id = j.id))",
    "chain_queue": "(SELECT c.queue FROM holdfast_job c WHERE c.run = j.chain)",
    "chain_id": "(SELECT c.id FROM holdfast_job c WHERE c.run = j.chain)",
    "chain_run": "(SELECT c.run FROM holdfast_job c WHERE c.run = j.chain)",
    "position": "j.position",
    "chain_state": "CASE chain_state WHEN 'open' THEN 'active' ELSE chain_state END",
    "blockers": "CASE state WHEN 'blocked' THEN coalesce(blockers, 0) ELSE 0 END",
}
_NAMES: dict[Table, dict[str, str]] = {"events": _EVENT, "jobs": _JOB}
"""Columns that the tables call something else."""
AS_JSON = {
    "sequence": "seq",
    "progress": "CASE WHEN progress IS NOT NULL THEN printf('%!.17g', progress) END",
    "payload": "CASE WHEN payload IS NOT NULL THEN hex(payload) END",
    "envelope": "CASE WHEN envelope IS NOT NULL THEN hex(envelope) END",
}
"""Columns of an event that JSON would not give back as they are."""
UNCHOSEN = {"holds_id", "cancel_requested", "successor", "progress", "error", "envelope"}
"""Columns of a job by which it cannot be chosen here."""


def naming(table: Table) -> Callable[[str], str]:
    """Return how a column of the table is spelled in SQL."""
    names = {name: text.replace("{now}", str(now_ms())) for name, text in _NAMES[table].items()}
    return lambda column: names.get(column, column)


def now_ms() -> int:
    """Return the time of this machine, which is that of the store."""
    return time.time_ns() // 1_000_000
