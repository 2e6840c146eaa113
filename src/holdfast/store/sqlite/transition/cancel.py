"""cancel: a job and its successor are over, or its handler is told to stop."""

from __future__ import annotations

from ....core.action import signalled
from ....core.chain import OPEN
from ....core.state import State
from ....core.transition import Reply, judge
from ...contract import Abort, CancelResult, Running
from ..tx import Row, Tx
from . import blocker, chain, update
from .claim import lane
from .end import abort, end_run
from .enqueue import answering_run


def cancel(tx: Tx, queue: str, id: str, running: Running) -> CancelResult:
    """Cancel a job and its successor; an active job is left alone, or its handler is told to stop."""
    row = answering_run(tx, queue, id)
    if row is None:
        return CancelResult(reply=judge("cancel", None))
    successor = drop_successor(tx, row)
    if row["chain_state"] == OPEN:  # the current job of its chain is meant
        row = chain.current(tx, row)
    state = State(row["state"])
    if state is State.ACTIVE:
        told = running != "refuse"
        if told:
            _signal(tx, row, running)
        return CancelResult(
            reply=Reply.OK if told or successor else Reply.WRONG_STATE,
            state=state, run=row["run"], signalled=told, successor=successor,
        )  # fmt: skip
    reply = judge("cancel", state)
    if reply is Reply.OK:
        cancel_run(tx, row, row["exit"] or "cancel", ran=False)
        lane.recheck_all(tx, row["queue"], {row["key"]})
    return CancelResult(reply=Reply.OK if successor else reply, state=state, run=row["run"], successor=successor)


def drop_successor(tx: Tx, row: Row, *, note: bool = True) -> bool:
    """Cancel the successor of a run; return whether there was one. Without `note` it leaves no cancelled run."""
    successor = update.successor_of(tx, row)
    if successor is None:
        return False
    if note:
        ttl = tx.queue(row["queue"]).settings.result_ttl_ms
        tx.run("cancel", "insert_cancelled", queue=row["queue"], id=row["id"], now=tx.now, queue_ttl=ttl)
        tx.moved(row["queue"], None, "cancelled")
        tx.append("cancel", [successor["run"]], cause="successor")
    tx.run("update", "drop_successor", queue=row["queue"], id=row["id"])
    blocker.report(tx, [successor["run"]], gone=True)
    tx.notify_watchers({**row, "run": successor["run"], "absorbed_to": None}, State.CANCELLED)
    return True


def _signal(tx: Tx, row: Row, running: Running) -> None:
    reason: Abort = "killed" if running == "kill" else "cancelled"
    tx.run("cancel", "signal", run=row["run"])
    tx.append_action(row["queue"], signalled(row["id"], row["run"], running))
    abort(tx, row, reason)


def cancel_run(tx: Tx, row: Row, exit: str, *, ran: bool = True, cause: str | None = None) -> State:
    """Cancel a run; its id is free."""
    settings = tx.queue(row["queue"]).settings
    tx.run("cancel", "finish", run=row["run"], exit=exit, now=tx.now, queue_ttl=settings.result_ttl_ms)
    tx.moved(row["queue"], row["state"], "cancelled")
    tx.append("cancel", [row["run"]], cause=exit if ran else cause, ran=ran)
    end_run(tx, row, State.CANCELLED)
    if row["state"] == "blocked":
        lane.recheck_all(tx, row["queue"], {row["key"]})
    return State.CANCELLED
