"""complete: a run is over with its result, or its chain continues; and a chain that is completed from outside."""

from __future__ import annotations

from ....core.state import State
from ....core.transition import Reply, judge
from ...contract import Complete, Session
from ..tx import Row, Tx
from . import chain
from .claim import lane
from .end import abort, end_run


def complete(tx: Tx, session: Session, row: Row, entry: Complete) -> State:
    """Complete a run that the session holds, or continue its chain."""
    if entry.then is not None:
        chain.continue_chains(tx, [entry])
        if row["position"]:  # those who watch the first job wait for the whole chain
            tx.notify_watchers(row, State.COMPLETED)
        return State.COMPLETED
    tx.run(
        "complete", "finish", run=row["run"], attempt=entry.lease.attempt, session=session.id, result=entry.result,
        now=tx.now, ttl=entry.result_ttl_ms, **tx.known_queue(row["queue"]).kept[State.COMPLETED],
    )  # fmt: skip
    tx.moved(row["queue"], row["state"], "completed")
    tx.append("complete", [row["run"]], ran=True)
    end_run(tx, row, State.COMPLETED, None if row["position"] else entry.result)
    return State.COMPLETED


def complete_chain(tx: Tx, queue: str, id: str, run: int | None, result: bytes, ttl: int | None) -> Reply:
    """Complete a chain from outside with this result; a handler at work on it is told to stop."""
    first = chain.first_of(tx, queue, id, run)
    row = None if first is None else chain.current(tx, first)
    reply = judge("complete", State(row["state"]) if row else None, outside=True)
    if row is None or reply is not Reply.OK:
        return reply
    tx.run(
        "complete", "from_outside", run=row["run"], result=result, now=tx.now, ttl=ttl,
        **tx.queue(row["queue"]).kept[State.COMPLETED],
    )  # fmt: skip
    tx.moved(row["queue"], row["state"], "completed")
    tx.append("complete", [row["run"]], cause="outside", ran=row["state"] == "active")
    end_run(tx, row, State.COMPLETED)
    lane.recheck_all(tx, row["queue"], {row["key"]})
    if row["state"] == "active":
        abort(tx, row, "completed_elsewhere")
        tx.wake(row["queue"], 1)
    return reply
