"""Looking: jobs, queues, workers and the event log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ...core.chain import OPEN, BlockerRef, ChainRef
from ...core.job import ErrorRecord, JobRecord, run_number
from ...core.limit import QueueSettings
from ...core.policy import Policy, adjusted
from ...core.state import State
from ...errors import ConfigError
from ..contract import BlockerRecord, ChainRecord, EventPage, Filter, QueueInfo, Session, SessionInfo
from ..row import LAST, Row, decoded, event
from ..row import record as job_record
from .array import numbers, texts


def record(row: Row) -> JobRecord | None:
    """Return a row as everybody else sees it; `None` when its time is over."""
    now = row["now_ms"]
    if row["expires_at_ms"] is not None and row["expires_at_ms"] <= now:
        return None
    return job_record(row, now, _chain(row["chain_ref"], row["chain"]))


def _chain(ref: Sequence[str] | None, run: int) -> ChainRef | None:
    return ChainRef(ref[0], ref[1], run) if ref else None


def chain(row: Row) -> ChainRecord:
    """Return a chain, by the row of its first job and of its last."""
    last = "last_" if row["last_run"] is not None else ""
    going_on = row["chain_state"] in (None, OPEN)
    state = State(row[f"{last}state"] if going_on else row["chain_state"])
    return ChainRecord(
        ref=ChainRef(row["queue"], row["id"], row["run"]),
        task=row["task"],
        state=state,
        position=row[f"{last}position"],
        current=ChainRef(row[f"{last}queue"], row[f"{last}id"], row[f"{last}run"]),
        enqueued_at_ms=row["enqueued_at_ms"],
        finished_at_ms=row["finished_at_ms"] if row["chain_state"] is None else row["ended_at_ms"],
        result=row["result"],
        error=decoded(row["error"], ErrorRecord) if state is State.FAILED else None,
        expires_at_ms=row["expires_at_ms"],
    )


def blocker(row: Row) -> BlockerRecord:
    """Return one of the chains that a job waits for, or waited for."""
    return BlockerRecord(
        ref=BlockerRef(row["queue"], row["id"], row["blocker"]),
        state=State(row["state"]) if row["state"] not in (None, "abandoned") else None,
        queue=row["last_queue"],
        task=row["last_task"],
        result=row["result"],
        error=decoded(row["error"], ErrorRecord),
    )


def filter_values(which: Filter) -> dict[str, Any]:
    """Return a filter as the statements take it."""
    return {
        "queue": which.queue,
        "states": texts(which.states) if which.states else None,
        "task": which.task,
        "key": which.key,
        "ids": texts(which.ids) if which.ids else None,
        "after": which.enqueued_after_ms,
        "until": which.enqueued_before_ms,
    }


def chain_value(which: Filter) -> int | None:
    """Return the run of the first job of the chain that a filter names."""
    return run_number(which.chain.run) if which.chain else None


def queue(row: Row) -> QueueInfo:
    """Return a queue with its counts and settings."""
    counts = msgspec.json.decode(row["counts"]) if row["counts"] else {}
    return QueueInfo(
        name=row["name"],
        counts={state: counts.get(state, 0) for state in State},
        settings=msgspec.json.decode(row["settings"], type=QueueSettings),
        overrides=msgspec.json.decode(row["operator"]),
        key_overrides=msgspec.json.decode(row["keys"]) if row["keys"] else {},
        workers=row["workers"],
        oldest_waiting_ms=row["oldest"],
    )


def session(row: Row) -> SessionInfo:
    """Return a worker as the store knows it."""
    return SessionInfo(
        session=msgspec.json.decode(row["info"], type=Session),
        started_at_ms=row["started_at_ms"],
        heard_at_ms=row["heard_at_ms"],
        expires_at_ms=row["expires_at_ms"],
        active=row["active"],
        alive=row["alive"],
    )


def policy(declared: str | None, operator: str | None) -> Policy:
    """Return a task's policy in force."""
    stored = msgspec.json.decode(declared, type=Policy) if declared else Policy()
    return adjusted(stored, msgspec.json.decode(operator)) if operator else stored


class Position:
    """What a reader has read: all up to (xid, seq) in the order of transactions, but for those that were open then.

    `open` has the transactions below it that had not ended, each with the last of its events that was read.
    `seen` is the highest number of an event that was looked at; what is trimmed above it was never read.
    """

    def __init__(self, text: str | None = None) -> None:
        self.epoch = ""
        self.xid = self.seq = self.seen = 0
        self.open: dict[int, int] = {}
        if text is not None:
            self._parse(text)

    def _parse(self, text: str) -> None:
        try:
            self.epoch, xid, seq, seen, *rest = text.split(":")
            self.xid, self.seq, self.seen = int(xid), int(seq), int(seen)
            for entry in rest[0].split(",") if rest else ():
                name, _, read = entry.partition(".")
                self.open[int(name)] = int(read or 0)
        except ValueError:
            raise ConfigError(f"position {text!r} is not one that the event log gave") from None

    def __str__(self) -> str:
        text = f"{self.epoch}:{self.xid}:{self.seq}:{self.seen}"
        if self.open:
            text += ":" + ",".join(f"{xid}.{seq}" if seq else str(xid) for xid, seq in sorted(self.open.items()))
        return text

    def values(self) -> dict[str, Any]:
        """Return the position as the statement takes it."""
        skipped = sorted(self.open)
        return {
            "xid": str(self.xid),
            "seq": self.seq,
            "skipped": texts([str(xid) for xid in skipped]),
            "read": numbers([self.open[xid] for xid in skipped]),
        }

    def advance(self, xid: int, seq: int, in_flight: Sequence[int]) -> None:
        """An event, or the end of the log, has been reached."""
        self.seen = max(self.seen, seq)
        if (xid, seq) > (self.xid, self.seq):
            self.drop_ended(LAST, in_flight)
            for other in in_flight:
                if self.xid < other < xid:
                    self.open.setdefault(other, 0)
            self.xid, self.seq = xid, seq
        elif xid in self.open:
            self.drop_ended(xid, in_flight)
            self.open[xid] = seq

    def drop_ended(self, below: int, in_flight: Sequence[int]) -> None:
        """Transactions that have ended, and whose events have all been passed, are no longer open."""
        for xid in [xid for xid in self.open if xid < below and xid not in in_flight]:
            del self.open[xid]


def read_to(text: str) -> tuple[str, int]:
    """Return the last event, as (transaction, number), before which a reader at this position has read everything."""
    at = Position(text or None)
    return (str(min(at.open) - 1), LAST) if at.open else (str(at.xid), at.seq)


def events(rows: Sequence[Row], position: str | None, limit: int) -> EventPage | None:
    """Return a page from the rows that were found after a position; `None` when the log is another one."""
    first = rows[0]
    at = Position(None if position in (None, "end") else position)
    known, at.epoch = at.epoch, first["epoch"]
    if known not in ("", at.epoch) or at.seen > first["newest"]:
        return None  # another log, or this one as a backup had it, from before the position was made
    in_flight = [int(xid) for xid in first["snapshot"].split(":")[2].split(",") if xid]
    # How many events of a late transaction were trimmed, nobody knows: one of each is the least.
    gap = max(0, first["trimmed"] - at.seen) + first["lost"] if known else 0
    found = []
    for row in rows if position != "end" and first["xid_"] is not None else ():
        at.advance(int(row["xid_"]), row["seq"], in_flight)
        found.append(event(row, str(at)))
    if len(found) < limit and first["last"] is not None:
        # Everything up to the end was looked at, also what is not of this queue: trimming it later is no gap.
        xid, _, seq = first["last"].partition(".")
        at.advance(int(xid), int(seq), in_flight)
        at.drop_ended(LAST, in_flight)
    at.seen = max(at.seen, first["trimmed"])
    if found and len(found) < limit:
        found[-1] = msgspec.structs.replace(found[-1], position=str(at))
    return EventPage(events=found, position=str(at), gap=gap)
