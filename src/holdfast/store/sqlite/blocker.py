"""unblock: what a run waits for, and what follows when one of those chains is over."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from ...core.chain import BlockerRef
from ...core.job import ErrorRecord, run_number
from ...core.state import State
from ..contract import BlockerRecord, NewJob
from ..row import decoded
from . import lane
from .tx import Row, Tx

_json = msgspec.json.Encoder().encode
Outcome = tuple[int | None, str | None, str | None, str | None, bytes | None, bytes | None]
"""Of one blocker: run of the chain's first job, state, queue and task of its last job, error, result."""
_OPEN: tuple[None, None, None, None, None] = (None, None, None, None, None)


class Waits(NamedTuple):
    """What a run that was just taken in waits for."""

    open: int
    failed: BlockerRef | None = None

    @property
    def blocked(self) -> bool:
        """True when it cannot run yet, or will never."""
        return self.open > 0 or self.failed is not None


def register(tx: Tx, run: int, job: NewJob) -> Waits:
    """The run is known to wait for these chains. Those that are over already count as done."""
    outcomes = [_outcome(tx, ref) for ref in job.blockers]
    rows = [
        (run, place, ref.queue, ref.id, *outcome)
        for place, (ref, outcome) in enumerate(zip(job.blockers, outcomes, strict=True))
    ]
    tx.run_many("unblock", "register", rows)
    return _waits(job.blockers, outcomes, job.on_blocker_failed)


def _waits(refs: Sequence[BlockerRef], outcomes: Sequence[Outcome], policy: str | None) -> Waits:
    states = [outcome[1] for outcome in outcomes]
    bad = next((ref for ref, state in zip(refs, states, strict=True) if state not in (None, "completed")), None)
    return Waits(states.count(None), None if policy == "ignore" else bad)


def _outcome(tx: Tx, ref: BlockerRef) -> Outcome:
    row = _found(tx, ref)
    if row is not None and row["position"]:
        row = tx.job(row["chain"])
    if row is None:
        return _missing(tx, ref)
    state = row["chain_state"] or row["state"]
    if state == "open" or not State(state).finished:
        return (row["run"], *_OPEN)
    if row["expires_at_ms"] is not None and row["expires_at_ms"] <= tx.now:
        return _missing(tx, ref)
    last = (row["tail"] and tx.job(row["tail"])) or row
    return row["run"], state, last["queue"], last["task"], row["error"], row["result"]


def _found(tx: Tx, ref: BlockerRef) -> Row | None:
    if ref.run is not None:
        row = tx.row("job", "run", queue=ref.queue, id=ref.id, run=ref.run)
        return row if row is not None and (row["queue"], row["id"]) == (ref.queue, ref.id) else None
    here = {"queue": ref.queue, "id": ref.id, "now": tx.now}
    return tx.row("job", "held", **here) or tx.row("job", "latest", **here)


def _missing(tx: Tx, ref: BlockerRef) -> Outcome:
    """A dispatch that waits for its forerunner to end is open; anything else that is not there counts as failed."""
    successor = tx.row("update", "successor", queue=ref.queue, id=ref.id)
    if successor is not None and successor["run"] == ref.run:
        return (ref.run, *_OPEN)
    error = ErrorRecord(type="BlockerMissing", kind="blocker", message=f"there is no job {ref.queue}/{ref.id}")
    return None, "failed", None, None, _json(error), None


def report(tx: Tx, runs: Sequence[int], *, gone: bool = False) -> None:
    """Whoever waits for these chains, which are over, has their outcome; what follows is left to `end.release`."""
    if not tx.value("unblock", "open"):
        return
    found = tx.run("unblock", "forsake" if gone else "report", runs=json.dumps(runs)).fetchall()
    for run, state, queue, id in found:
        done, failed = tx.dependants.get(run, (0, None))
        if failed is None and state != "completed":
            failed = BlockerRef(queue, id)
        tx.dependants[run] = (done + 1, failed)


def unblock(tx: Tx, row: Row) -> None:
    """unblock: the run takes its place in the queue."""
    run_at = max(row["run_at_ms"], tx.now)
    state = "scheduled" if run_at > tx.now else "waiting"
    tx.run("unblock", "release", run=row["run"], state=state, run_at=run_at)
    tx.append("unblock", [row["run"]])
    lane.recheck_all(tx, row["queue"], {row["key"]})
    tx.wake_for(row["queue"], run_at)


def again(tx: Tx, old: int, new: int, policy: str | None) -> Waits:
    """A run that starts anew has the results that the old one had, and asks again for those it had not."""
    tx.run("unblock", "hand_over", run=old, to=new)
    rows = tx.rows("unblock", "all", run=new)
    refs = [BlockerRef(row["queue"], row["id"]) for row in rows]
    outcomes: list[Outcome] = []
    for row, ref in zip(rows, refs, strict=True):
        if row["state"] == "completed":
            outcomes.append((row["blocker"], "completed", row["last_queue"], row["last_task"], None, row["result"]))
            continue
        outcomes.append(_outcome(tx, ref))
        names = ("blocker", "state", "last_queue", "last_task", "error", "result")
        tx.run("unblock", "again", run=new, place=row["place"], **dict(zip(names, outcomes[-1], strict=True)))
    return _waits(refs, outcomes, policy)


def look(tx: Tx, run: int) -> list[BlockerRecord]:
    """Return what a run waits for, or waited for, in order."""
    return [
        BlockerRecord(
            ref=BlockerRef(row["queue"], row["id"], row["blocker"]),
            state=State(row["state"]) if row["state"] not in (None, "abandoned") else None,
            queue=row["last_queue"],
            task=row["last_task"],
            result=row["result"],
            error=decoded(row["error"], ErrorRecord),
        )
        for row in tx.rows("unblock", "all", run=run_number(run))
    ]
