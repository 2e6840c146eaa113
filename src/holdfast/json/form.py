"""The JSON that commands print and the HTTP API answers. Keys are stable; instants are ISO 8601 in UTC."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import Any

import msgspec

from ..app.app import Holdfast
from ..codec import Codec, codec
from ..core.event import Event
from ..core.job import ErrorRecord, JobRecord
from ..core.policy import ADJUSTABLE, Policy
from ..core.schedule import Schedule
from ..store.contract import ChainRecord, KeyInfo, QueueInfo, SessionInfo

TASK_SETTINGS = tuple(name.removesuffix("_ms") for name in ADJUSTABLE)
"""What operators may adjust of a task."""
JsonObject = dict[str, Any]
"""What is printed as a JSON object; its fields are documented in the reference."""


def job(record: JobRecord) -> JsonObject:
    """Return a job as a list shows it."""
    error = record.error
    return {
        "queue": record.queue,
        "id": record.id,
        "run": record.run,
        "task": record.task,
        "state": record.state,
        "failing": record.failing,
        "priority": record.priority,
        "key": record.key,
        "tags": list(record.tags),
        "run_at": iso(record.run_at_ms),
        "enqueued_at": iso(record.enqueued_at_ms),
        "started_at": iso(record.started_at_ms),
        "finished_at": iso(record.finished_at_ms),
        "expires_at": iso(record.expires_at_ms),
        "counters": msgspec.to_builtins(record.counters),
        "worker": record.worker,
        "progress": msgspec.to_builtins(record.progress),
        "error": _error(error),
        "holds_id": record.holds_id,
        "cancel_requested": record.cancel_requested,
        "successor": record.successor,
        "chain": msgspec.to_builtins(record.chain),
        "position": record.position,
        "chain_state": record.chain_state,
        "blockers": record.blockers,
        "snoozes": record.snoozes,
        "company": record.company,
    }


def _error(error: ErrorRecord | None) -> JsonObject | None:
    if error is None:
        return None
    return {"type": error.type, "message": error.message, "kind": error.kind, "signature": error.signature}


def chain(record: ChainRecord) -> JsonObject:
    """Return a chain as a list shows it."""
    error = record.error
    return {
        "queue": record.ref.queue,
        "id": record.ref.id,
        "run": record.ref.run,
        "task": record.task,
        "state": record.state,
        "position": record.position,
        "current": msgspec.to_builtins(record.current),
        "enqueued_at": iso(record.enqueued_at_ms),
        "finished_at": iso(record.finished_at_ms),
        "expires_at": iso(record.expires_at_ms),
        "error": {"type": error.type, "message": error.message, "kind": error.kind} if error else None,
    }


def chain_result(app: Holdfast, record: ChainRecord) -> object:
    """Return the result of a chain, by the codec of its first task where the app is known."""
    if record.result is None:
        return None
    task = app.registry.tasks.get(record.task or "")
    return untyped(task.result_codec if task is not None else "json", record.result)


def job_detail(app: Holdfast, record: JobRecord, timeline: list[Event]) -> JsonObject:
    """Return a job with everything that the store keeps of it."""
    return {
        **job(record),
        "error": msgspec.to_builtins(record.error),
        "headers": record.headers,
        "payload": decoded(app, record, "codec", record.payload),
        "result": decoded(app, record, "result_codec", record.result),
        "checkpoint": None if record.checkpoint is None else untyped("json", record.checkpoint),
        "timeline": [event(each) for each in timeline],
    }


def schedule(app: Holdfast, found: Schedule) -> JsonObject:
    """Return a schedule with all that it does."""
    plan = found.plan
    task = app.registry.tasks.get(plan.task or "")
    return {
        "queue": found.queue,
        "name": found.name,
        "task": plan.task,
        "spec": msgspec.to_builtins(plan.spec),
        "payload": untyped(task.codec if task is not None else "json", plan.payload),
        "priority": plan.priority,
        "key": plan.key,
        "catch_up": plan.catch_up,
        "limit": plan.limit,
        "grace_ms": plan.grace_ms,
        "overlap": plan.overlap,
        "paused": found.paused,
        "next_at": iso(found.next_at_ms),
        "last_at": iso(found.last_at_ms),
        "fired": found.fired,
        "declared": found.declared is not None,
        "version": found.version,
        "changed": sorted(found.changes) if found.declared is not None else [],
    }


def schedule_detail(app: Holdfast, found: Schedule, count: int) -> JsonObject:
    """Return a schedule with its spec in words and its next ticks."""
    ticks = [iso(round(tick.timestamp() * 1000)) for tick in found.upcoming(count)]
    return {**schedule(app, found), "when": str(found.spec), "ticks": ticks}


def policy(found: Policy) -> JsonObject:
    """Return what operators may adjust of a task's policy, as it holds. Durations are in seconds."""
    timeout = None if found.timeout_ms is None else found.timeout_ms / 1000
    known = {**msgspec.structs.asdict(found.retry), "timeout": timeout}
    return {name: known[name] for name in TASK_SETTINGS}


def decoded(app: Holdfast, record: JobRecord, which: str, data: bytes | None) -> object:
    """Return bytes as the values that they hold, by the task's codec where the app is known, else as JSON."""
    if data is None:
        return None
    task = app.registry.tasks.get(record.task or "")
    return untyped(getattr(task, which) if task is not None else "json", data)


def untyped(choice: str | Codec, data: bytes) -> object:
    """Return decoded bytes; as base64 where they cannot be decoded."""
    try:
        value = codec(choice).decode(data)
        msgspec.json.encode(value)
    except Exception:  # a user's codec may raise anything
        return {"base64": base64.b64encode(data).decode()}
    return value


def event(each: Event) -> JsonObject:
    """Return an event with all of its fields."""
    return {
        "position": each.position,
        "at": iso(each.at_ms),
        "queue": each.queue,
        "id": each.id,
        "run": each.run,
        "attempt": each.attempt,
        "transition": each.transition,
        "state": each.state,
        "cause": each.cause,
        "task": each.task,
        "worker": each.worker,
        "key": each.key,
        "tags": list(each.tags),
        "priority": each.priority,
        "run_at": iso(each.run_at_ms),
        "counters": msgspec.to_builtins(each.counters),
        "wait_ms": each.wait_ms,
        "run_ms": each.run_ms,
        "error_type": each.error_type,
        "error_signature": each.error_signature,
        "actor": each.actor,
        "message": each.message,
        "payload": None if each.payload is None else untyped("json", each.payload),
    }


def queue(info: QueueInfo, now_ms: int) -> JsonObject:
    """Return a queue with its counts and settings."""
    oldest = info.oldest_waiting_ms
    return {
        "name": info.name,
        "counts": info.counts,
        "workers": info.workers,
        "oldest_waiting_at": iso(oldest),
        "oldest_waiting_age_ms": None if oldest is None else max(0, now_ms - oldest),
        "settings": msgspec.to_builtins(info.settings),
        "overrides": info.overrides,
        "key_overrides": info.key_overrides,
    }


def key(info: KeyInfo, now_ms: int) -> JsonObject:
    """Return a concurrency key with its jobs and limits."""
    oldest = info.oldest_waiting_ms
    return {
        "key": info.key,
        "waiting": info.waiting,
        "active": info.active,
        "limit": info.limit,
        "own_limit": info.own_limit,
        "at_limit": info.at_limit,
        "tokens": info.tokens,
        "ready_at": iso(info.ready_at_ms),
        "oldest_waiting_at": iso(oldest),
        "oldest_waiting_age_ms": None if oldest is None else max(0, now_ms - oldest),
    }


def worker(info: SessionInfo) -> JsonObject:
    """Return a worker as the store knows it."""
    return {
        "id": info.session.id,
        "name": info.session.name,
        "host": info.session.host,
        "pid": info.session.pid,
        "queues": list(info.session.queues),
        "slots": info.session.slots,
        "active": info.active,
        "alive": info.alive,
        "lease_ms": info.session.lease_ms,
        "version": info.session.version,
        "python": info.session.python,
        "memory_bytes": info.memory_bytes,
        "command": info.command,
        "started_at": iso(info.started_at_ms),
        "heard_at": iso(info.heard_at_ms),
        "expires_at": iso(info.expires_at_ms),
    }


def iso(ms: int | None) -> str | None:
    """Return an instant in ISO 8601, in UTC, with milliseconds."""
    if ms is None:
        return None
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
