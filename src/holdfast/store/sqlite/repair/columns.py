"""What each column holds: SQLite takes any value in any column, so that a row may hold something else."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from ....core.bound import LARGEST_NUMBER
from ....core.state import State

_STATES = ", ".join(f"'{state}'" for state in State)
Number = Annotated[int, msgspec.Meta(ge=-LARGEST_NUMBER, le=LARGEST_NUMBER)]
_TYPES: dict[str, tuple[Any, str, str]] = {
    "int": (Number, "integer", f"{{c}} NOT BETWEEN -{LARGEST_NUMBER} AND {LARGEST_NUMBER}"),
    "real": (float, "real', 'integer", "abs({c}) > 1e300"),
    "text": (str, "text", "0"),
    "blob": (bytes, "blob", "0"),
    "json": (bytes | str, "blob', 'text", "NOT json_valid(CAST({c} AS TEXT))"),
    "state": (State, "text", f"{{c}} NOT IN ({_STATES})"),
    "chain": (str, "text", f"{{c}} NOT IN ({_STATES}, 'open')"),
    "blocker": (str, "text", f"{{c}} NOT IN ({_STATES}, 'abandoned')"),
}
"""By kind: the type in Python, SQLite's names for it, and which of its values are never written."""

TABLES: dict[str, dict[str, str]] = {
    "job": {
        "queue": "text", "id": "text", "state": "state", "held": "int", "task": "text?", "priority": "int",
        "key": "text?", "run_at_ms": "int", "ready_at_ms": "int", "enqueued_at_ms": "int", "claimed_at_ms": "int?",
        "finished_at_ms": "int?", "free_at_ms": "int?", "expires_at_ms": "int?", "attempts": "int", "failures": "int",
        "stalls": "int", "timeouts": "int", "releases": "int", "session": "text?", "exit": "text?",
        "last_session": "text?", "last_exit": "text?", "cancel": "int", "absorbed_to": "int?", "requeued_as": "int?",
        "result_ttl_ms": "int?", "dedup_key": "text?", "dedup_until_ms": "int?", "progressed_at_ms": "int?",
        "progress": "blob?", "checkpoint": "blob?", "overrides": "blob?", "envelope": "blob?", "error": "blob?",
        "result": "blob?", "payload": "blob", "chain": "int?", "position": "int", "chain_state": "chain?",
        "ended_at_ms": "int?", "tail": "int?", "blockers": "int?", "on_blocker_failed": "text?", "company": "int?",
        "snoozes": "int", "spared": "int", "signature": "text?",
    },
    "event": {
        "at_ms": "int", "queue": "text", "id": "text", "run": "int", "attempt": "int", "transition": "text",
        "state": "state?", "cause": "text?", "task": "text?", "worker": "text?", "key": "text?", "priority": "int",
        "run_at_ms": "int?", "failures": "int", "stalls": "int", "timeouts": "int", "releases": "int",
        "wait_ms": "int?", "run_ms": "int?", "error_type": "text?", "error_signature": "text?", "progress": "real?",
        "message": "text?", "payload": "blob?", "envelope": "blob?", "actor": "text?",
    },
    "successor": {
        "queue": "text", "id": "text", "run": "int", "task": "text?", "priority": "int", "key": "text?",
        "run_at_ms": "int", "enqueued_at_ms": "int", "update_payload": "int", "update_run_at": "text",
        "reset_counts": "int", "result_ttl_ms": "int?", "dedup_key": "text?", "dedup_until_ms": "int?",
        "overrides": "blob?", "envelope": "blob?", "payload": "blob",
    },
    "queue": {
        "name": "text", "revision": "int", "version": "int", "declared": "json", "operator": "json", "turn": "int",
        "keyless_turn": "int", "tokens": "real?", "tokens_at_ms": "int?",
    },
    "policy": {"queue": "text", "task": "text", "version": "int", "declared": "json"},
    "adjustment": {"queue": "text", "task": "text", "operator": "json"},
    "lane": {
        "queue": "text", "key": "text", "turn": "int", "ready": "int", "ready_at_ms": "int?", "cooling": "int",
        "tokens": "real?", "tokens_at_ms": "int?",
    },
    "key_limit": {"queue": "text", "key": "text", "concurrency": "int"},
    "session": {
        "queue": "text", "id": "text", "info": "json", "started_at_ms": "int", "heard_at_ms": "int",
        "expires_at_ms": "int", "dead": "int", "parked": "int?", "address": "text?",
        "memory_bytes": "int?", "command": "text?",
    },
    "abort": {"session": "text", "run": "int", "attempt": "int", "queue": "text", "id": "text", "reason": "text"},
    "watch": {"queue": "text", "id": "text", "run": "int", "address": "text"},
    "blocker": {
        "run": "int", "place": "int", "queue": "text", "id": "text", "blocker": "int?", "state": "blocker?",
        "last_queue": "text?", "last_task": "text?", "error": "blob?", "result": "blob?",
    },
    "schedule": {"queue": "text", "name": "text", "revision": "text", "next_at_ms": "int?", "body": "blob"},
    "request": {"id": "text", "at_ms": "int", "answer": "blob"},
    "tally": {"queue": "text", "state": "text", "count": "int"},
}  # fmt: skip
"""Every column but the keys that SQLite itself keeps to whole numbers. A question mark: it may be NULL."""


def is_unreadable(column: str, kind: str, *, bytes: bool = True) -> str:
    """Return the condition, in SQL, under which a column holds what is never written: by its bytes or type alone."""
    _, names, never = _TYPES[kind.removesuffix("?")]
    wrong = f"typeof({column}) NOT IN ('{names}')" if "," in names else f"typeof({column}) <> '{names}'"
    if never != "0" and (bytes or kind.removesuffix("?") != "json"):
        wrong += f" OR {never.format(c=column)}"
    if "text" in names and bytes:
        wrong += f" OR NOT is_utf8(CAST({column} AS BLOB))"
    return f"({column} IS NOT NULL AND ({wrong}))" if kind.endswith("?") else f"({wrong})"


_TOGETHER = {"blocker": "(blocker IS NULL AND state IS NULL)"}
"""What columns never hold together: an open blocker names what it waits for."""


def unreadable(table: str, *columns: str) -> str:
    """Return the condition under which a row holds what is never written, in any of these columns or at all."""
    kinds = TABLES[table]
    together = [] if columns or table not in _TOGETHER else [_TOGETHER[table]]
    return "(" + " OR ".join([is_unreadable(column, kinds[column]) for column in columns or kinds] + together) + ")"


INDEXED = ("lane", "key_limit", "session", "blocker")
"""Tables with an index of rows that are unreadable by type: there such a row may hide a job without failing a call."""


def unreadable_type(table: str) -> str:
    """Return the condition of that index."""
    kinds = TABLES[table]
    together = [_TOGETHER[table]] if table in _TOGETHER else []
    return " OR ".join([is_unreadable(column, kind, bytes=False) for column, kind in kinds.items()] + together)


def is_utf8(value: object) -> bool:
    """True for bytes that are text. SQLite calls it, under the same name."""
    try:
        bytes(value).decode()  # type: ignore[call-overload]
    except UnicodeDecodeError:
        return False
    return True


def _struct(table: str) -> type[msgspec.Struct]:
    fields = [
        (column, _TYPES[kind.removesuffix("?")][0] | None if kind.endswith("?") else _TYPES[kind][0])
        for column, kind in TABLES[table].items()
    ]
    return msgspec.defstruct(f"Stored_{table}", fields, gc=False)


STORED = {table: _struct(table) for table in ("job", "event")}
"""The rows of jobs and events as types: to convert a row that holds what is never written raises."""
