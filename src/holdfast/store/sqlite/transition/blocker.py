"""Blockers: the chains that a run waits for, and their outcomes once they are over."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from ....core.chain import BlockerRef
from ....core.job import ErrorRecord
from ....core.policy import Cause
from ....core.state import State
from ...contract import NewJob
from ..query import answering
from ..tx import Row, Tx

_json = msgspec.json.Encoder().encode


class BlockerOutcome(NamedTuple):
    """How a blocker stands: open while it has no state. The names are those of the columns."""

    blocker: int | None
    """The run of the chain's first job."""
    state: str | None = None
    last_queue: str | None = None
    last_task: str | None = None
    error: bytes | None = None
    result: bytes | None = None


class Waits(NamedTuple):
    """What a new run waits for."""

    open: int
    failed: BlockerRef | None = None

    @property
    def blocked(self) -> bool:
        """True when the run cannot start yet, or never will."""
        return self.open > 0 or self.failed is not None


def register(tx: Tx, run: int, job: NewJob) -> Waits:
    """Note which chains a new run waits for. Those that are over already count as done."""
    outcomes = [_outcome(tx, ref) for ref in job.blockers]
    for place, (ref, outcome) in enumerate(zip(job.blockers, outcomes, strict=True)):
        tx.run("unblock", "register", run=run, place=place, queue=ref.queue, id=ref.id, **outcome._asdict())
    return _waits(job.blockers, outcomes, job.on_blocker_failed)


def _waits(refs: Sequence[BlockerRef], outcomes: Sequence[BlockerOutcome], policy: str | None) -> Waits:
    states = [outcome.state for outcome in outcomes]
    bad = next((ref for ref, state in zip(refs, states, strict=True) if state not in (None, "completed")), None)
    return Waits(states.count(None), None if policy == "ignore" else bad)


def _outcome(tx: Tx, ref: BlockerRef) -> BlockerOutcome:
    row = _found(tx, ref)
    if row is not None and row["position"]:
        row = tx.job(row["chain"])
    if row is None:
        return _missing(tx, ref)
    state = row["chain_state"] or row["state"]
    if state == "open" or not State(state).finished:
        return BlockerOutcome(row["run"])
    if row["expires_at_ms"] is not None and row["expires_at_ms"] <= tx.now:
        return _missing(tx, ref)
    last = (row["tail"] and tx.job(row["tail"])) or row
    return BlockerOutcome(row["run"], state, last["queue"], last["task"], row["error"], row["result"])


def _found(tx: Tx, ref: BlockerRef) -> Row | None:
    if ref.run is not None:
        row = tx.row("job", "run", queue=ref.queue, id=ref.id, run=ref.run)
        return row if row is not None and (row["queue"], row["id"]) == (ref.queue, ref.id) else None
    return answering(tx, ref.queue, ref.id)


def _missing(tx: Tx, ref: BlockerRef) -> BlockerOutcome:
    """Return the outcome of a job that has no row: open for a successor, failed for any other."""
    successor = tx.row("update", "successor", queue=ref.queue, id=ref.id)
    if successor is not None and successor["run"] == ref.run:
        return BlockerOutcome(ref.run)
    error = ErrorRecord(type="BlockerMissing", kind="blocker", message=f"there is no job {ref.queue}/{ref.id}")
    return BlockerOutcome(None, "failed", error=_json(error))


def report(tx: Tx, runs: Sequence[int], *, gone: bool = False) -> None:
    """Copy the outcome of chains that are over to the runs that wait for them; `unblock_dependants` does the rest."""
    if not tx.value("unblock", "open"):
        return
    found = tx.run("unblock", "report_gone" if gone else "report", runs=json.dumps(runs)).fetchall()
    for run, state, queue, id in found:
        done, failed = tx.dependants.get(run, (0, None))
        if failed is None and state != "completed":
            failed = BlockerRef(queue, id)
        tx.dependants[run] = (done + 1, failed)


def register_again(tx: Tx, old: int, new: int, policy: str | None) -> Waits:
    """Give a requeued run the results that the old one had, and look again for those it had not."""
    tx.run("unblock", "move", run=old, to=new)
    rows = tx.rows("unblock", "all", run=new)
    refs = [BlockerRef(row["queue"], row["id"]) for row in rows]
    outcomes: list[BlockerOutcome] = []
    for row, ref in zip(rows, refs, strict=True):
        if row["state"] == "completed":
            outcomes.append(
                BlockerOutcome(row["blocker"], "completed", row["last_queue"], row["last_task"], result=row["result"])
            )
            continue
        outcomes.append(_outcome(tx, ref))
        tx.run("unblock", "register_again", run=new, place=row["place"], **outcomes[-1]._asdict())
    return _waits(refs, outcomes, policy)


def failure(failed: BlockerRef) -> ErrorRecord:
    """Return what a job fails with whose blocker did not complete."""
    return ErrorRecord(
        type="BlockerFailed",
        kind=Cause.BLOCKER,
        message=f"it waited for '{failed.queue}/{failed.id}', which did not complete",
        fields={"queue": failed.queue, "id": failed.id},
    )
