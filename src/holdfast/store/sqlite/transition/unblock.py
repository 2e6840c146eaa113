"""unblock: a run whose last blocker is done takes its place in the queue; one whose blocker failed is over."""

from __future__ import annotations

from ....core.chain import BlockerRef
from ....core.policy import Cause
from ..tx import Row, Tx
from . import blocker
from .cancel import cancel_run
from .claim import lane
from .fail import fail


def unblock_dependants(tx: Tx) -> None:
    """Unblock the runs that wait for nothing else; those whose blocker failed follow their policy."""
    while tx.dependants:
        run, (done, failed) = next(iter(tx.dependants.items()))
        del tx.dependants[run]
        row = tx.job(run)
        if row is None or row["state"] != "blocked":
            continue
        if failed is not None and row["on_blocker_failed"] != "ignore":
            _give_up(tx, row, failed)
        elif tx.value("unblock", "count_down", run=run, done=done) == 0:
            _unblock(tx, row)


def _unblock(tx: Tx, row: Row) -> None:
    run_at = max(row["run_at_ms"], tx.now)
    state = "scheduled" if run_at > tx.now else "waiting"
    tx.run("unblock", "unblock", run=row["run"], state=state, run_at=run_at)
    tx.moved(row["queue"], "blocked", state)
    tx.append("unblock", [row["run"]])
    lane.recheck_all(tx, row["queue"], {row["key"]})
    tx.wake_for(row["queue"], run_at)


def _give_up(tx: Tx, row: Row, failed: BlockerRef) -> None:
    """Cancel or fail a run whose blocker failed."""
    if row["on_blocker_failed"] == "cancel":
        cancel_run(tx, row, row["exit"] or "cancel", ran=False, cause=Cause.BLOCKER)
        return
    fail(tx, row, blocker.failure(failed), Cause.BLOCKER, ran=False)
