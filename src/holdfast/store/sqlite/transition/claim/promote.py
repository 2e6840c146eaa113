"""promote: a scheduled job may be claimed, because its time has come or because it is asked for."""

from __future__ import annotations

from .....core.bound import MOST_PROMOTED
from .....core.state import State
from .....core.transition import Reply, judge
from ...tx import Tx
from ..enqueue import answering_run
from . import lane


def promote_due(tx: Tx, queue: str) -> None:
    """Promote the jobs whose time has come, and check the lanes that have a token again, a bounded number of each."""
    due = tx.run("promote", "due", queue=queue, now=tx.now, limit=MOST_PROMOTED).fetchall()
    if due:
        tx.moved(queue, "scheduled", "waiting", len(due))
        tx.append("promote", [run for run, _ in due])
        lane.recheck_all(tx, queue, [key for _, key in due])
    lane.recheck_due(tx, queue, MOST_PROMOTED)


def promote(tx: Tx, queue: str, id: str) -> Reply:
    """Promote a scheduled job, because it is asked for."""
    row = answering_run(tx, queue, id)
    reply = judge("promote", State(row["state"]) if row else None)
    if row is not None and reply is Reply.OK:
        tx.run("promote", "now", run=row["run"], now=tx.now)
        tx.moved(queue, "scheduled", "waiting")
        tx.append("promote", [row["run"]], cause="asked")
        lane.recheck_all(tx, queue, {row["key"]})
        tx.wake(queue, 1)
    return reply
