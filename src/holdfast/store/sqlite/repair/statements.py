"""Statements that find and repair rows which hold what is never written, made from what each column should hold."""

from __future__ import annotations

from ....core.bound import DEFAULT_LEASE_MS, MENDED_AT_ONCE
from .columns import INDEXED, TABLES, is_unreadable, unreadable, unreadable_type

NUMBERED = {"job": "run", "event": "seq"}
KEYS: dict[str, tuple[str, ...]] = {
    "successor": ("queue", "id", "run"), "queue": ("name",), "session": ("queue", "id"), "schedule": ("queue", "name"),
    "blocker": ("run", "place"),
}  # fmt: skip
"""Tables whose rows are repaired, unless one of these is unreadable: then, and in every other table, the row goes."""
_NAMES = {
    "queue": ("name", "name"), "policy": ("queue", "task"), "adjustment": ("queue", "task"), "lane": ("queue", "key"),
    "key_limit": ("queue", "key"), "schedule": ("queue", "name"), "request": ("id", "id"),
    "tally": ("queue", "state"),
}  # fmt: skip
"""Which columns say whose row it is, where those are not its queue and id."""
_NEUTRAL = {
    "run_at_ms": ":now", "ready_at_ms": ":now", "enqueued_at_ms": ":now", "started_at_ms": ":now",
    "heard_at_ms": ":now", "expires_at_ms": f":now + {DEFAULT_LEASE_MS}", "state": "'waiting'", "payload": "x''",
    "declared": "'{}'", "operator": "'{}'", "body": "x''", "revision": ":now", "update_run_at": "'true'",
    "queue": "'unreadable'", "id": "'unreadable-' || :number",
    "info": "json_object('id', id, 'name', id, 'host', '?', 'pid', 0, 'queues', json_array(queue),"
    f" 'lease_ms', {DEFAULT_LEASE_MS})",
}  # fmt: skip
"""What a column gets whose value was unreadable, unless it may be NULL. The rest get 0, or a word."""
_OWN = {
    ("successor", "overrides"): "x'00'",  # so that its claim finds it out, when it is a job
    ("blocker", "state"): "'abandoned'",
}


def statements() -> dict[str, str]:
    """Return the statements by name: `find_job`, `why_job`, `repair_job`, `drop_lane`, ..."""
    found: dict[str, str] = {}
    for table in TABLES:
        number = NUMBERED.get(table, "0")
        one = f"{number} = :number" if table in NUMBERED else unreadable(table)
        found[f"find_{table}"] = (
            f"SELECT {number} FROM holdfast_{table} WHERE {unreadable(table)} LIMIT {MENDED_AT_ONCE}"
        )
        found[f"why_{table}"] = (
            f"SELECT {_names(table)}, {_why(table)} FROM holdfast_{table} WHERE {one} LIMIT {MENDED_AT_ONCE}"
        )
        gone = unreadable(table, *KEYS[table]) if table in KEYS else one
        found[f"drop_{table}"] = f"DELETE FROM holdfast_{table} WHERE {gone}"
        if table in KEYS or table == "job":
            found[f"repair_{table}"] = f"UPDATE holdfast_{table} SET {_neutral(table)} WHERE {one}"
    for table in INDEXED:
        index = f"holdfast_{table} INDEXED BY holdfast_{table}_unreadable"
        found[f"any_{table}"] = f"SELECT EXISTS (SELECT 1 FROM {index} WHERE {unreadable_type(table)})"
    found["waiting"] = f"SELECT DISTINCT run FROM holdfast_blocker WHERE {unreadable('blocker')}"
    return found


def _names(table: str) -> str:
    columns = [(column, TABLES[table][column]) for column in _NAMES.get(table, ("queue", "id"))]
    return ", ".join(f"CASE WHEN {is_unreadable(column, kind)} THEN '' ELSE {column} END" for column, kind in columns)


def _why(table: str) -> str:
    """Return, in SQL, what is unreadable of a row: each column with its type and the beginning of its bytes."""
    parts = [
        f"CASE WHEN {is_unreadable(column, kind)} THEN '{column} is ' || typeof({column}) || ' '"
        f" || substr(hex(CAST({column} AS BLOB)), 1, 32) || '; ' ELSE '' END"
        for column, kind in TABLES[table].items()
    ]
    return "rtrim(" + " || ".join(parts) + ", '; ')"


def _neutral(table: str) -> str:
    """Return, in SQL, the changes that make a row readable."""
    return ", ".join(f"{column} = {_repaired(table, column, kind)}" for column, kind in TABLES[table].items())


def _repaired(table: str, column: str, kind: str) -> str:
    if (table, column) == ("successor", "overrides"):
        return _OWN[table, column]
    if (table, column) == ("job", "held"):
        # It must not take the id of another job.
        return f"CASE WHEN {unreadable('job', 'held', 'queue', 'id')} THEN 0 ELSE held END"
    neutral = "NULL" if kind.endswith("?") else _NEUTRAL.get(column, "'unreadable'" if kind == "text" else "0")
    return f"CASE WHEN {is_unreadable(column, kind)} THEN {_OWN.get((table, column), neutral)} ELSE {column} END"
