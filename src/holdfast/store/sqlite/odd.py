"""Statements that find and mend rows which hold what we never write, made from what each column should hold."""

from __future__ import annotations

from .column import INDEXED, TABLES, is_odd, odd, odd_type

NUMBERED = {"job": "run", "event": "seq"}
KEYS = {
    "successor": ("queue", "id", "run"), "queue": ("name",), "session": ("queue", "id"), "schedule": ("queue", "name"),
    "blocker": ("run", "place"),
}  # fmt: skip
"""Tables whose rows are mended, unless one of these is odd: then, and in every other table, the row goes."""
_NAMES = {
    "queue": ("name", "name"), "policy": ("queue", "task"), "adjustment": ("queue", "task"), "lane": ("queue", "key"),
    "key_limit": ("queue", "key"), "schedule": ("queue", "name"), "request": ("id", "id"),
}  # fmt: skip
"""Which columns say whose row it is, where those are not its queue and id."""
LEASE_MS = 15_000
_NEUTRAL = {
    "run_at_ms": ":now", "ready_at_ms": ":now", "enqueued_at_ms": ":now", "started_at_ms": ":now",
    "heard_at_ms": ":now", "expires_at_ms": f":now + {LEASE_MS}", "state": "'waiting'", "payload": "x''",
    "declared": "'{}'", "operator": "'{}'", "body": "x''", "revision": ":now", "update_run_at": "'true'",
    "queue": "'unreadable'", "id": "'unreadable-' || :number",
    "info": "json_object('id', id, 'name', id, 'host', '?', 'pid', 0, 'queues', json_array(queue),"
    f" 'lease_ms', {LEASE_MS})",
}  # fmt: skip
"""What a column gets whose value was odd, unless it may be NULL. The rest get 0, or a word."""
_OWN = {
    ("successor", "overrides"): "x'00'",  # so that its claim finds it out, when it is a job
    ("blocker", "state"): "'abandoned'",
}
AT_ONCE = 1000


def statements() -> dict[str, str]:
    """Return the statements by name: `find_job`, `why_job`, `mend_job`, `drop_lane`, ..."""
    found: dict[str, str] = {}
    for table in TABLES:
        number = NUMBERED.get(table, "0")
        one = f"{number} = :number" if table in NUMBERED else odd(table)
        found[f"find_{table}"] = f"SELECT {number} FROM holdfast_{table} WHERE {odd(table)} LIMIT {AT_ONCE}"
        found[f"why_{table}"] = (
            f"SELECT {_names(table)}, {_why(table)} FROM holdfast_{table} WHERE {one} LIMIT {AT_ONCE}"
        )
        gone = odd(table, *KEYS[table]) if table in KEYS else one
        found[f"drop_{table}"] = f"DELETE FROM holdfast_{table} WHERE {gone}"
        if table in KEYS or table == "job":
            found[f"mend_{table}"] = f"UPDATE holdfast_{table} SET {_neutral(table)} WHERE {one}"
    for table in INDEXED:
        found[f"any_{table}"] = (
            f"SELECT EXISTS (SELECT 1 FROM holdfast_{table} INDEXED BY holdfast_{table}_odd WHERE {odd_type(table)})"
        )
    found["waiting"] = f"SELECT DISTINCT run FROM holdfast_blocker WHERE {odd('blocker')}"
    return found


def _names(table: str) -> str:
    columns = [(column, TABLES[table][column]) for column in _NAMES.get(table, ("queue", "id"))]
    return ", ".join(f"CASE WHEN {is_odd(column, kind)} THEN '' ELSE {column} END" for column, kind in columns)


def _why(table: str) -> str:
    """Return, in SQL, what is odd of a row: each column with its type and the beginning of its bytes."""
    parts = [
        f"CASE WHEN {is_odd(column, kind)} THEN '{column} is ' || typeof({column}) || ' '"
        f" || substr(hex(CAST({column} AS BLOB)), 1, 32) || '; ' ELSE '' END"
        for column, kind in TABLES[table].items()
    ]
    return "rtrim(" + " || ".join(parts) + ", '; ')"


def _neutral(table: str) -> str:
    """Return, in SQL, what makes a row one that we could have written."""
    return ", ".join(f"{column} = {_mended(table, column, kind)}" for column, kind in TABLES[table].items())


def _mended(table: str, column: str, kind: str) -> str:
    if (table, column) == ("successor", "overrides"):
        return _OWN[table, column]
    if (table, column) == ("job", "held"):
        return f"CASE WHEN {odd('job', 'held', 'queue', 'id')} THEN 0 ELSE held END"  # nobody else's id is taken
    neutral = "NULL" if kind.endswith("?") else _NEUTRAL.get(column, "'unreadable'" if kind == "text" else "0")
    return f"CASE WHEN {is_odd(column, kind)} THEN {_OWN.get((table, column), neutral)} ELSE {column} END"
