"""The end of a run: what follows from it, whichever transition brought it."""

from __future__ import annotations

from ....core.state import State
from ...contract import Abort
from ..tx import Row, Tx
from . import blocker, chain, update


def end_run(tx: Tx, row: Row, state: State, result: bytes | None = None) -> None:
    """End the run's chain, start its successor, and tell dependants and watchers; these hear the result, if given."""
    if row["state"] == "blocked":
        tx.run("unblock", "abandon", run=row["run"])
    first = chain.end(tx, row, state) if row["position"] else row
    if first is not None:
        succeeded, awaited = tx.run("job", "followed", queue=first["queue"], id=first["id"]).fetchone()
        if succeeded:
            update.start_successor(tx, first)
        if awaited:
            blocker.report(tx, [first["run"]])
        if first is not row:
            tx.notify_watchers(first, state)
    tx.notify_watchers(row, state, result)


def abort(tx: Tx, row: Row, reason: Abort) -> None:
    """Tell the handler of an active run to stop, with its worker's next turn."""
    tx.run(
        "cancel", "abort", session=row["session"], run=row["run"], attempt=row["attempts"],
        queue=row["queue"], id=row["id"], reason=reason,
    )  # fmt: skip
    tx.wake_session(row["session"])
