"""reap: the jobs of expired sessions wait in their old place, with a stall counted; or fail at their limit."""

from __future__ import annotations

from ....core.job import ErrorRecord
from ....core.policy import Cause
from ....core.state import PENDING, State
from ...contract import Lease, Reaped, ReapedJob
from ...rows import reaped
from ..repair.repair import report_unreadable
from ..tx import Row, Tx
from .cancel import cancel_run
from .claim import lane
from .put_back import put_back
from .session import shift_after_outage

COUNTER_NAMES = ("failures", "stalls", "timeouts", "releases")


def reap(tx: Tx, queue: str, limit: int, but: str) -> Reaped:
    """Reap the jobs of expired sessions, at most `limit` of them; those of the session `but` are left alone."""
    tx.queue(queue)
    shifted = shift_after_outage(tx)
    tx.run("reap", "cut_back", queue=queue, now=tx.now)
    tx.run("reap", "declare_dead", queue=queue, now=tx.now, but=but)
    dead = [id for (id,) in tx.run("reap", "dead", queue=queue, but=but).fetchall()]
    next_ms = tx.value("reap", "next", queue=queue, now=tx.now, but=but)
    if not dead:
        return Reaped(shifted_ms=shifted, next_ms=next_ms, corrupt=report_unreadable(tx))
    jobs = [_reap_one(tx, row) for row in tx.rows("reap", "held", queue=queue, limit=limit, but=but)]
    tx.wake(queue, len(jobs))
    tx.run("reap", "forget", queue=queue)
    tx.run("reap", "forget_aborts")
    return Reaped(
        sessions=tuple(dead),
        jobs=tuple(jobs),
        returned=sum(job.state in PENDING for job in jobs),
        failed=sum(job.state is State.FAILED for job in jobs),
        shifted_ms=shifted,
        more=len(jobs) == limit,
        next_ms=next_ms,
        corrupt=report_unreadable(tx),
    )


def _reap_one(tx: Tx, row: Row) -> ReapedJob:
    lease = Lease(row["queue"], row["id"], row["run"], row["attempts"])
    if row["cancel"]:
        state = cancel_run(tx, row, "reap")
    else:
        error = ErrorRecord(
            type="Stalled",
            kind=Cause.STALL,
            message="its worker vanished while it ran",
            fields={"worker": row["session"]},  # not in the message, so that all stalls have one signature
        )
        slots = tx.value("reap", "slots", queue=row["queue"], session=row["session"])
        state = put_back(tx, row, Cause.STALL, error, exit="reap", company=slots)
    lane.recheck_all(tx, str(row["queue"]), {row["key"]})
    counts = [row[name] for name in COUNTER_NAMES]
    return reaped(lease, row["task"], state, counts, tx.now - (row["claimed_at_ms"] or tx.now))
