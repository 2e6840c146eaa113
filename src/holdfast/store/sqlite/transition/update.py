"""update: a run takes over what a further dispatch brings, at once or by a successor."""

from __future__ import annotations

from ....core.state import State
from ...contract import Answer, Conflict, NewJob
from ..tx import Row, Tx
from .claim import lane
from .row import NewRow, dedup_until, encoded, insert_row, keeps_payloads, starts_at


def update(tx: Tx, row: Row, job: NewJob, conflict: Conflict) -> Answer:
    """Update a run that has not started, field by field."""
    new = _job_as_update(tx, job, conflict, run=row["run"])
    state = _merge(tx, row, new, cause=None)
    return Answer(status="updated", id=job.id, run=row["run"], state=state)


def put_successor(tx: Tx, active: Row, job: NewJob, conflict: Conflict) -> Answer:
    """Give the active run a successor; a further dispatch updates that successor by its own flags."""
    queue, id = active["queue"], active["id"]
    earlier = tx.row("update", "successor", queue=queue, id=id)
    run = earlier["run"] if earlier else tx.next_runs(1)
    new = {**_job_as_update(tx, job, conflict, run=run), "queue": queue}
    if earlier:
        new = _combined(earlier, new)
    tx.run("update", "put_successor", **new)
    tx.append("update", [active["run"]], cause="successor", successor=True)
    return Answer(status="successor", id=id, run=run, state=State.ACTIVE)


def _job_as_update(tx: Tx, job: NewJob, conflict: Conflict, *, run: int) -> Row:
    """Return a job in the form of a successor's row: what it brings, and which of it counts."""
    return {
        "queue": "",
        "id": job.id,
        "run": run,
        "task": job.task,
        "priority": job.priority,
        "key": job.key,
        "run_at_ms": starts_at(tx, job),
        "enqueued_at_ms": tx.now,
        "update_payload": conflict.update_payload,
        "update_run_at": conflict.update_run_at,
        "reset_counts": conflict.resets,
        "result_ttl_ms": job.result_ttl_ms,
        "dedup_key": job.dedup.key if job.dedup else None,
        "dedup_until_ms": dedup_until(tx, job),
        "overrides": encoded(job.overrides) if job.overrides else None,
        "envelope": job.envelope,
        "payload": job.payload,
    }


def _combined(earlier: Row, later: Row) -> Row:
    """Return the successor after a further dispatch: as an update of the first by the second's flags."""
    both = dict(later)
    both["run"] = earlier["run"]
    both["enqueued_at_ms"] = earlier["enqueued_at_ms"]
    if not later["update_payload"]:
        for name in ("task", "priority", "key", "result_ttl_ms", "overrides", "envelope", "payload"):
            both[name] = earlier[name]
    if later["dedup_key"] is None:
        both["dedup_key"], both["dedup_until_ms"] = earlier["dedup_key"], earlier["dedup_until_ms"]
    both["update_payload"] = earlier["update_payload"] or later["update_payload"]
    both["reset_counts"] = earlier["reset_counts"] or later["reset_counts"]
    both["run_at_ms"] = _later_run_at(earlier["run_at_ms"], later)
    if later["update_run_at"] == "never" or earlier["update_run_at"] == "always":
        both["update_run_at"] = earlier["update_run_at"]
    return both


def _later_run_at(current: int, new: Row) -> int:
    mode, wanted = new["update_run_at"], int(new["run_at_ms"])
    if mode == "never":
        return current
    if mode == "if_later":
        return max(current, wanted)
    return min(current, wanted) if mode == "if_earlier" else wanted


def _merge(tx: Tx, row: Row, new: Row, *, cause: str | None) -> State:
    """Let a run that is not active take over what an update or a successor brings; return its state."""
    run_at = max(_later_run_at(row["run_at_ms"], new), 0)
    if row["state"] == "blocked":
        state = State.BLOCKED
    else:
        state = State.SCHEDULED if run_at > tx.now else State.WAITING
        # A waiting job keeps its place unless its time was really changed.
        run_at = run_at if state is State.SCHEDULED or run_at == row["run_at_ms"] else max(run_at, tx.now)
    source = new if new["update_payload"] else row
    keep = not new["reset_counts"]
    tx.run(
        "update",
        "change",
        run=row["run"],
        state=state,
        run_at=run_at,
        result_ttl=source["result_ttl_ms"],
        absorbed_to=max(new["run"], row["run"]),
        **{name: new[name] for name in ("dedup_key", "dedup_until_ms", "reset_counts", "update_payload")},
        **{name: source[name] for name in ("task", "payload", "envelope", "overrides", "priority", "key")},
        **{name: row[name] if keep else 0 for name in ("failures", "stalls", "timeouts", "releases", "snoozes")},
    )
    tx.moved(row["queue"], row["state"], state)
    payload = bool(new["update_payload"]) and keeps_payloads(tx, row["queue"])
    tx.append("update", [row["run"]], cause=cause, payload=payload)
    lane.recheck_all(tx, row["queue"], {row["key"], source["key"]})
    if state is not State.BLOCKED:
        tx.wake_for(row["queue"], run_at)
    return state


def successor_of(tx: Tx, row: Row) -> Row | None:
    """Return the successor of a run. A requeued chain may have lost its id: then the successor is another job's."""
    return tx.row("update", "successor", queue=row["queue"], id=row["id"]) if row["held"] else None


def start_successor(tx: Tx, row: Row) -> None:
    """Make the successor of a finished run, if it has one, the next run of its id."""
    new = successor_of(tx, row)
    if new is None:
        return
    tx.run("update", "drop_successor", queue=row["queue"], id=row["id"])
    tx.run("enqueue", "free_id", run=row["run"])
    run_at = max(new["run_at_ms"], tx.now)
    state = "scheduled" if run_at > tx.now else "waiting"
    insert_row(tx, _started(row, new, run_at, state))
    tx.append("enqueue", [new["run"]], cause="successor", payload=keeps_payloads(tx, row["queue"]))
    if new["key"] is not None:
        lane.recheck(tx, row["queue"], new["key"])
    tx.wake_for(row["queue"], run_at)


def _started(row: Row, new: Row, run_at: int, state: str) -> NewRow:
    """Return the row of the run that a successor becomes."""
    return {
        "run": new["run"],
        "queue": row["queue"],
        "id": row["id"],
        "state": state,
        "task": new["task"],
        "priority": new["priority"],
        "key": new["key"],
        "run_at_ms": run_at,
        "enqueued_at_ms": new["enqueued_at_ms"],
        "result_ttl_ms": new["result_ttl_ms"],
        "dedup_key": new["dedup_key"],
        "dedup_until_ms": new["dedup_until_ms"],
        "overrides": new["overrides"],
        "envelope": new["envelope"],
        "payload": new["payload"],
        "chain": None,
        "position": 0,
        "ready_at_ms": run_at,
    }


def merge_successor(tx: Tx, row: Row) -> None:
    """Merge a run that was put back with its successor, if it has one."""
    new = tx.row("update", "successor", queue=row["queue"], id=row["id"])
    if new is None:
        return
    tx.run("update", "drop_successor", queue=row["queue"], id=row["id"])
    tx.run("unblock", "repoint", run=row["run"], absorbed=new["run"])
    current = tx.job(row["run"])
    assert current is not None
    _merge(tx, current, new, cause="successor")
