"""The SQL, one file for each transition, by file and statement name."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

from ...core.bound import filled
from .repair import statements as repair_statements

_TABLE = re.compile(r"(?<!')\bholdfast_(?P<name>\w+)")
_TEXT = re.compile(r"'holdfast_(?P<name>\w+)'")
_STATEMENT = re.compile(r"^-- :(\w+)\n(.*?);\s*$", re.MULTILINE | re.DOTALL)


def text(path: str) -> str:
    """Return a file below `sql/`, with the bounds of `core.bound` filled in."""
    return filled(files(__package__).joinpath("sql", path).read_text("utf-8"))


def migrations() -> list[tuple[int, str]]:
    """Return every migration with its number, in order."""
    folder = files(__package__).joinpath("sql", "migration")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [(int(name.partition(".")[0]), text(f"migration/{name}")) for name in names]


@cache
def statements(namespace: str) -> dict[str, dict[str, str]]:
    """Return every statement for a namespace: `statements("holdfast")["claim"]["keyless"]`."""
    folder = files(__package__).joinpath("sql")
    names = [entry.name for entry in folder.iterdir() if entry.name.endswith(".sql")]
    found = {name.removesuffix(".sql"): _parse(text(name), namespace) for name in names}
    return {
        **found,
        "unreadable_rows": {name: rename(body, namespace) for name, body in repair_statements.statements().items()},
    }


def _parse(source: str, namespace: str) -> dict[str, str]:
    return {name: rename(body, namespace) for name, body in _STATEMENT.findall(source)}


def rename(source: str, namespace: str) -> str:
    """Put the namespace in front of every table and index, in quotes: it may have a dash."""
    name = rf"{namespace}_\g<name>"
    return _TABLE.sub(rf'"{name}"', _TEXT.sub(rf"'{name}'", source))
