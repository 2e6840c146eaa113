"""delete: a job or a whole chain is gone, in whatever state."""

from __future__ import annotations

from ....core.chain import ChainRef
from ....core.state import State
from ....core.transition import Reply, judge
from ...contract import DeleteResult
from ...rows import outcome
from ..tx import Row, Tx
from . import blocker, chain, update
from .cancel import drop_successor
from .claim import lane
from .end import abort
from .enqueue import answering_run


def delete(tx: Tx, queue: str, id: str) -> Reply:
    """Delete a job, and with a first job its chain; handlers at work are told to stop."""
    row = answering_run(tx, queue, id)
    reply = judge("delete", State(row["state"]) if row else None)
    if row is None or reply is not Reply.OK:
        return reply
    if not row["position"]:
        _remove_chain(tx, row)
        return reply
    first = chain.end(tx, row, State.CANCELLED)
    _remove(tx, row)
    if first is not None:
        update.start_successor(tx, first)
        blocker.report(tx, [first["run"]])
        tx.notify_watchers(first, State.CANCELLED)
    return reply


def _remove_chain(tx: Tx, first: Row) -> None:
    """Delete every job of a chain; those who wait for it hear that it was cancelled."""
    blocker.report(tx, [first["run"]], gone=True)
    for row in tx.rows("chain", "members", run=first["run"]):
        _remove(tx, row)
    if outcome(first) is State.ACTIVE:
        drop_successor(tx, first, note=False)


def _remove(tx: Tx, row: Row) -> None:
    runs = f"[{row['run']}]"
    tx.run("event", "append_gone", now=tx.now, transition="delete", cause=None, actor=tx.actor, runs=runs)
    tx.run("delete", "remove", run=row["run"])
    tx.moved(row["queue"], row["state"], None)
    tx.run("unblock", "remove", runs=runs)
    if row["state"] == "active":
        abort(tx, row, "deleted")
        tx.wake(row["queue"], 1)
    lane.recheck_all(tx, row["queue"], {row["key"]})
    tx.notify_watchers(row, State.CANCELLED)


def delete_chain(tx: Tx, queue: str, id: str, run: int | None, cascade: bool) -> DeleteResult:
    """Delete a chain, and with `cascade` every chain that waits for it; without, refuse while one waits."""
    first = chain.first_of(tx, queue, id, run)
    if first is None:
        return DeleteResult(reply=judge("delete", None))
    waiting = tx.rows("unblock", "dependants", run=first["run"])
    if waiting and not cascade:
        refs = tuple(ChainRef(row["queue"], row["id"], row["run"]) for row in waiting)
        return DeleteResult(reply=Reply.WRONG_STATE, waiting=refs)
    todo, gone = [first["run"]], 0
    while todo:
        row = tx.job(todo.pop())
        if row is None:
            continue
        todo += [each["chain"] or each["run"] for each in tx.rows("unblock", "dependants", run=row["run"])]
        _remove_chain(tx, row)
        gone += 1
    return DeleteResult(reply=Reply.OK, chains=gone)
