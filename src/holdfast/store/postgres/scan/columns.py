"""The columns of events and jobs, as a scan names them and as the tables do."""

from __future__ import annotations

from collections.abc import Callable, Mapping

EVENT = {"sequence": "e.seq", "epoch": "(SELECT value FROM holdfast.meta WHERE name = 'epoch')"}
"""Columns that the tables call something else."""
JOB = {
    "started_at_ms": "claimed_at_ms",
    "worker": "session",
    "holds_id": "(held AND (free_at_ms IS NULL OR free_at_ms > holdfast.clock(NULL)))",
    "cancel_requested": "cancel",
    "successor": "((state = 'active' OR chain_state = 'open') AND EXISTS (SELECT 1 FROM holdfast.successor s"
    " WHERE s.queue = e.queue AND s.id = e.id))",
    "chain_queue": "(SELECT c.queue FROM holdfast.job c WHERE c.run = e.chain)",
    "chain_id": "(SELECT c.id FROM holdfast.job c WHERE c.run = e.chain)",
    "chain_run": "(SELECT c.run FROM holdfast.job c WHERE c.run = e.chain)",
    "position": "e.position",
    "chain_state": "CASE chain_state WHEN 'open' THEN 'active' ELSE chain_state END",
    "blockers": "CASE state WHEN 'blocked' THEN coalesce(blockers, 0) ELSE 0 END",
}
WRITTEN = {
    "sequence": "e.seq AS sequence",
    "payload": "encode(e.payload, 'hex')",
    "envelope": "encode(e.envelope, 'hex')",
}
"""Columns of an event as text."""
UNSELECTABLE = {"holds_id", "cancel_requested", "successor", "progress", "error", "envelope"}
"""Columns of a job by which it cannot be chosen here."""
TEXTS = {
    "queue", "id", "transition", "state", "cause", "task", "worker", "key", "error_type", "error_signature", "message",
    "chain_state", "actor",
}  # fmt: skip


def compared(names: Mapping[str, str]) -> Callable[[str], str]:
    """Return how a column is spelled to be compared: texts by their bytes, not by the database's collation."""
    return lambda name: f'({names.get(name, name)} COLLATE "C")' if name in TEXTS else names.get(name, name)
