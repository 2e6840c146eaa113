"""Rows of what is read, as the contract has them: jobs, chains, queues, workers and events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ....core.chain import OPEN, BlockerRef, ChainRef
from ....core.declaration import DeclaredTask, View
from ....core.job import ErrorRecord, JobRecord, run_number
from ....core.policy import Policy
from ....core.state import State
from ...contract import BlockerRecord, ChainRecord, EventPage, Filter, QueueInfo, SessionInfo
from ...rows import (
    Row,
    decoded,
    event,
    known_command,
    known_session,
    readable_adjustment,
    readable_policy,
    readable_settings,
)
from ...rows import record as job_record
from ..scan.position import Position, cut, end_of, is_of_another


def record(row: Row) -> JobRecord | None:
    """Return the job of a row; `None` when its time is over."""
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


def chain_value(which: Filter) -> int | None:
    """Return the run of the first job of the chain that a filter names."""
    return run_number(which.chain.run) if which.chain else None


def queue(row: Row) -> QueueInfo:
    """Return a queue with its counts and settings."""
    counts = msgspec.json.decode(row["counts"]) if row["counts"] else {}
    return QueueInfo(
        name=row["name"],
        counts={state: max(0, counts.get(state, 0)) for state in State},
        settings=readable_settings(row["name"], row["settings"]),
        overrides=decoded(row["operator"], dict[str, Any]) or {},
        key_overrides=msgspec.json.decode(row["keys"]) if row["keys"] else {},
        workers=row["workers"],
        oldest_waiting_ms=row["oldest"],
    )


def session(row: Row) -> SessionInfo:
    """Return a worker as the store knows it."""
    return SessionInfo(
        session=known_session(row["id"], row["info"]),
        started_at_ms=row["started_at_ms"],
        heard_at_ms=row["heard_at_ms"],
        expires_at_ms=row["expires_at_ms"],
        active=row["active"],
        alive=row["alive"],
        memory_bytes=row["memory_bytes"],
        command=known_command(row["command"]),
    )


def policy(queue: str, task: str, declared: str | None, operator: str | None) -> Policy:
    """Return a task's policy in force."""
    stored = readable_policy(queue, task, declared) if declared else Policy()
    return readable_adjustment(queue, task, stored, operator) if operator else stored


def layers(queue: str, row: Row | None, tasks: Sequence[Row]) -> View:
    """Return what workers declared and operators set of a queue. What cannot be read does not count."""
    if row is None:
        return View(queue=queue)
    operators = {each["task"]: decoded(each["operator"], dict[str, object]) for each in tasks}
    return View(
        queue=queue,
        version=row["version"],
        declared=decoded(row["declared"], dict[str, object]) or {},
        operator=decoded(row["operator"], dict[str, object]) or {},
        tasks={
            each["task"]: DeclaredTask(each["version"] or 0, readable_policy(queue, each["task"], each["declared"]))
            for each in tasks
            if each["declared"]
        },
        adjusted={task: known for task, known in operators.items() if known},
    )


def events(rows: Sequence[Row], position: str | None, limit: int) -> EventPage | None:
    """Return a page from the rows that were found after a position; `None` when the log is another one."""
    log = rows[0]
    at = Position() if position in (None, "end") else Position.parse(position or "")
    if is_of_another(at, log):
        return None
    # How many events of a late transaction were trimmed is unknown: one of each is the least.
    gap = max(0, log["trimmed"] - at.number) + log["lost"] if at.epoch else 0
    end = end_of(log, at)
    readable = [row for row in rows if row["seq"] is not None and (log["stop"] is None or row["seq"] < log["stop"])]
    found = [event(row, str(cut(at, end, row["seq"]))) for row in readable]
    if len(found) == limit and position != "end":
        return EventPage(events=found, position=found[-1].position, gap=gap)
    # Everything up to the end was looked at, also what is not of this queue: trimming it later is no gap.
    last = str(cut(at, end, end.number))
    if found:
        found[-1] = msgspec.structs.replace(found[-1], position=last)
    return EventPage(events=found, position=last, gap=gap)
