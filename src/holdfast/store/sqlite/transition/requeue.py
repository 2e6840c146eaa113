"""requeue: finished jobs run anew, each as a new run of its id."""

from __future__ import annotations

import msgspec

from ....core.state import State
from ....errors import ConfigError
from ...contract import Filter
from ..read import page
from ..tx import Row, Tx
from . import blocker, chain
from .claim import lane
from .enqueue import run_of_id, wait
from .row import NewRow, insert_row, keeps_payloads


def requeue(tx: Tx, which: Filter, limit: int, dry_run: bool) -> list[tuple[str, str, int]]:
    """Requeue the finished jobs that match, oldest first; with `dry_run`, only say which."""
    if any(not state.finished for state in which.states):
        raise ConfigError("only finished jobs are requeued: completed, failed or cancelled ones")
    states = which.states or (State.FAILED,)
    which = msgspec.structs.replace(which, states=states)
    found, _ = page.matching(tx, which, limit, requeued=False, most=None)
    done = []
    for row in reversed(found):
        current = run_of_id(tx, row["queue"], row["id"])
        if (current is not None and current["run"] != row["run"]) or not chain.is_last(tx, row):
            continue
        done.append((row["queue"], row["id"], row["run"] if dry_run else _requeue(tx, row)))
    return done


def _requeue(tx: Tx, row: Row) -> int:
    run = tx.next_runs(1)
    tx.run("requeue", "mark", run=row["run"], requeued_as=run)
    insert_row(tx, _as_new(tx, row, run))
    if row["position"]:
        chain.reopen(tx, row, run)
    if row["blockers"] is not None:
        waits = blocker.register_again(tx, row["run"], run, row["on_blocker_failed"])
        wait(tx, row["queue"], run, State.WAITING, waits, row["on_blocker_failed"])
    tx.append("requeue", [run], payload=keeps_payloads(tx, row["queue"]))
    lane.recheck_all(tx, row["queue"], {row["key"]})
    tx.wake(row["queue"], 1)
    return run


def _as_new(tx: Tx, row: Row, run: int) -> NewRow:
    """Return the row of the new run: what its caller asked for, with fresh counters."""
    return {
        "run": run,
        "queue": row["queue"],
        "id": row["id"],
        "state": "waiting",
        "task": row["task"],
        "priority": row["priority"],
        "key": row["key"],
        "run_at_ms": tx.now,
        "enqueued_at_ms": tx.now,
        "result_ttl_ms": row["result_ttl_ms"],
        "dedup_key": row["dedup_key"],
        "dedup_until_ms": None,
        "overrides": row["overrides"],
        "envelope": row["envelope"],
        "payload": row["payload"],
        "chain": row["chain"] if row["position"] else None,
        "position": row["position"],
        "ready_at_ms": tx.now,
    }
