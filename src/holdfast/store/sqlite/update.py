"""update: a run takes what a further dispatch brings, at once or by a successor."""

from __future__ import annotations

import msgspec

from ...core.state import State
from ..contract import Answer, Conflict, NewJob
from . import lane
from .tx import Row, Tx

encoded = msgspec.json.Encoder().encode


def update(tx: Tx, row: Row, job: NewJob, conflict: Conflict) -> Answer:
    """update: a run that has not started takes what is new, field by field."""
    new = job_as_update(tx, job, conflict, run=row["run"])
    state = merge(tx, row, new, cause=None)
    return Answer(status="updated", id=job.id, run=row["run"], state=state)


def put_successor(tx: Tx, active: Row, job: NewJob, conflict: Conflict) -> Answer:
    """The active run has a successor; a further dispatch updates that one by its own flags."""
    queue, id = active["queue"], active["id"]
    earlier = tx.row("update", "successor", queue=queue, id=id)
    run = earlier["run"] if earlier else tx.next_runs(1)
    new = {**job_as_update(tx, job, conflict, run=run), "queue": queue}
    if earlier:
        new = _combined(earlier, new)
    tx.run("update", "put_successor", **new)
    tx.append("update", [active["run"]], cause="successor")
    return Answer(status="successor", id=id, run=run, state=State.ACTIVE)


def job_as_update(tx: Tx, job: NewJob, conflict: Conflict, *, run: int) -> Row:
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
        "headers": encoded(job.headers) if job.headers else None,
        "payload": job.payload,
    }


def _combined(earlier: Row, later: Row) -> Row:
    """Return the successor after a further dispatch: as an update of the first by the second's flags."""
    both = dict(later)
    both["run"] = earlier["run"]
    both["enqueued_at_ms"] = earlier["enqueued_at_ms"]
    if not later["update_payload"]:
        for name in ("task", "priority", "key", "result_ttl_ms", "overrides", "headers", "payload"):
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


def merge(tx: Tx, row: Row, new: Row, *, cause: str | None) -> State:
    """A run that is not active has taken over what an update or a successor brings; return its state."""
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
        **{name: source[name] for name in ("task", "payload", "headers", "overrides", "priority", "key")},
        **{name: row[name] if keep else 0 for name in ("failures", "stalls", "timeouts", "releases")},
    )
    payload = bool(new["update_payload"]) and tx.queue(row["queue"]).settings.history == "payloads"
    tx.append("update", [row["run"]], cause=cause, payload=payload)
    lane.recheck_all(tx, row["queue"], {row["key"], source["key"]})
    if state is not State.BLOCKED:
        tx.wake_for(row["queue"], run_at)
    return state


def succeed(tx: Tx, row: Row) -> bool:
    """A finished run's successor, if it has one, is the id's next run. True when there was one."""
    new = tx.row("update", "successor", queue=row["queue"], id=row["id"])
    if new is None:
        return False
    tx.run("update", "drop_successor", queue=row["queue"], id=row["id"])
    tx.run("enqueue", "free_id", run=row["run"])
    run_at = max(new["run_at_ms"], tx.now)
    state = "scheduled" if run_at > tx.now else "waiting"
    values = (
        new["run"], row["queue"], row["id"], state, new["task"], new["priority"], new["key"], run_at, run_at,
        new["enqueued_at_ms"], new["result_ttl_ms"], new["dedup_key"], new["dedup_until_ms"], new["overrides"],
        new["headers"], new["payload"], None, 0,
    )  # fmt: skip
    tx.run_many("enqueue", "insert", [values])
    payload = tx.queue(row["queue"]).settings.history == "payloads"
    tx.append("enqueue", [new["run"]], cause="successor", payload=payload)
    if new["key"] is not None:
        lane.recheck(tx, row["queue"], new["key"])
    tx.wake_for(row["queue"], run_at)
    return True


def absorb(tx: Tx, row: Row) -> None:
    """A run that came back from active has merged with its successor, if it has one."""
    new = tx.row("update", "successor", queue=row["queue"], id=row["id"])
    if new is None:
        return
    tx.run("update", "drop_successor", queue=row["queue"], id=row["id"])
    tx.run("unblock", "repoint", run=row["run"], absorbed=new["run"])
    current = tx.job(row["run"])
    assert current is not None
    merge(tx, current, new, cause="successor")


def starts_at(tx: Tx, job: NewJob) -> int:
    """Return the job's run_at, a past one raised to now."""
    if job.run_at_ms is not None:
        return max(job.run_at_ms, tx.now)
    return tx.now + max(job.delay_ms or 0, 0)


def dedup_until(tx: Tx, job: NewJob) -> int | None:
    """Return until when the job answers for its dedup key."""
    return tx.now + job.dedup.window_ms if job.dedup and job.dedup.window_ms is not None else None
