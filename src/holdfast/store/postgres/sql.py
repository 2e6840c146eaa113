"""The SQL: functions that live in the server, one file for each transition, and statements that read."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from ...core.bound import filled
from ...core.job import ErrorRecord
from ...core.policy import LIMITS, too_many

SCHEMA = "holdfast."
MINOR = 1
"""The functions' number. Raise it in every release that changes one of them; they must go on taking older calls."""
FOLDERS = ("lib", "transition", "serve", "inspect")
"""Where the functions are. `lib` is first: functions that are written in SQL itself need what they call before them."""
STATEMENTS = ("inspect/statements.sql", "inspect/pages.sql", "inspect/placed.sql", "inspect/measure.sql")
PLANNER = (
    "plan_cache_mode = force_generic_plan", "enable_seqscan = off", "enable_bitmapscan = off", "enable_hashjoin = off",
    "enable_mergejoin = off", "enable_sort = off", "enable_incremental_sort = off", "enable_memoize = off", "jit = off",
)  # fmt: skip
"""What holds in every function that is called from outside, and in those that it calls: plans are from indexes alone.

A plan that is kept may be from when the tables were small, or were thought to be: see docs/decisions/0008.
"""
LOCALLY = "SELECT " + ", ".join("set_config('{}', '{}', true)".format(*each.split(" = ")) for each in PLANNER)
"""The same for a transaction that calls several functions."""
CALLS = frozenset({"job", "runs"})
"""The statements that only call a function."""
_STATEMENT = re.compile(r"^-- :(\w+)\n(.*?);\s*$", re.MULTILINE | re.DOTALL)
_NAMED = re.compile(r"(?<!:):([a-z]+)\b")


def text(path: str) -> str:
    """Return a file below `sql/`."""
    return files(__package__).joinpath("sql", path).read_text("utf-8")


def migrations() -> list[tuple[int, str]]:
    """Return every migration with its number, in order."""
    folder = files(__package__).joinpath("sql", "migration")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [(int(name.partition(".")[0]), filled(text(f"migration/{name}"))) for name in names]


@cache
def functions() -> str:
    """Return every function, to be made anew after the tables, with the bounds of `core.bound` in it."""
    source = "\n".join(text(name) for name in _files())
    settings = " ".join(f"SET {each}" for each in PLANNER)
    return filled(source.replace("/* signatures */", _signatures()).replace("/* planner */", settings))


def _files() -> list[str]:
    folder = files(__package__).joinpath("sql")
    names = [
        f"{part}/{name}" for part in FOLDERS for name in sorted(file.name for file in folder.joinpath(part).iterdir())
    ]
    return [name for name in names if name.endswith(".sql") and name not in STATEMENTS]


@cache
def digest() -> str:
    """Return what tells these functions from others."""
    return hashlib.sha256(functions().encode()).hexdigest()[:16]


def _signatures() -> str:
    """Return the cases of `signature`: the server cannot hash as `ErrorRecord` does."""
    errors = [
        ErrorRecord(type="Stalled", message="its worker vanished while it ran"),
        ErrorRecord(type="CorruptRecord", message="the stored record of the job cannot be decoded"),
        ErrorRecord(type="BlockerFailed", message="it waited for #, which did not complete"),
        *(ErrorRecord(type="LimitReached", message=f"the limit for {cause} was lowered") for cause in LIMITS),
        *(ErrorRecord(type=type, message=message) for type, message in (too_many(cause, "#") for cause in LIMITS)),
    ]
    return "\n        ".join(f"WHEN '{each.type}|{each.message}' THEN '{each.signature}'" for each in errors)


@cache
def statements(schema: str) -> dict[str, str]:
    """Return every statement that reads, by name. One that another names is put in there."""
    found = dict(_STATEMENT.findall(filled("\n".join(text(name) for name in STATEMENTS))))
    return {name: rename(_whole(body, found), schema) for name, body in found.items()}


def _whole(body: str, named: Mapping[str, str]) -> str:
    return _NAMED.sub(lambda match: _whole(named[match[1]], named), body)


def rename(source: str, schema: str) -> str:
    """Put every name into a schema."""
    return source.replace(SCHEMA, f'"{schema}".')
