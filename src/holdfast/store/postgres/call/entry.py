"""The functions that are called from outside, as their headers in the SQL describe them.

The header is the one description of a call: from it the statement is made that gives each argument by its name, and
the names of the columns of the reply are taken. A test compares it with the code that packs and unpacks both.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from operator import itemgetter
from typing import Any, NamedTuple

from .. import sql

_HEADER = re.compile(r"^CREATE OR REPLACE FUNCTION holdfast\.(\w+)\((.*?)\)\s*(RETURNS\s.*?)?LANGUAGE", re.S | re.M)
_ARGUMENT = re.compile(r"(OUT )?(\w+) (.+?)( DEFAULT .+)?")
_TABLE = re.compile(r"RETURNS TABLE \((.*)\)", re.S)


class ServerFunction(NamedTuple):
    """One function: its arguments with their types, and the columns of its reply, in the order of the header."""

    name: str
    arguments: dict[str, str]
    """Names without their `p_`."""
    replies: tuple[str, ...]
    """Empty for a function that returns one value, or rows of a named type."""
    rows: bool
    """It returns rows, or several columns."""

    def statement(self, mark: Callable[[str, str], str] = lambda name, type: f"%({name})s::{type}") -> str:
        """Return the statement that calls it, with a mark for each argument."""
        arguments = ", ".join(f"p_{name} => {mark(name, type)}" for name, type in self.arguments.items())
        return f"SELECT {'* FROM ' if self.rows else ''}holdfast.{self.name}({arguments})"

    def columns(self, *names: str) -> Callable[[Any], Any]:
        """Return a function that takes these columns out of a row of the reply."""
        return itemgetter(*(self.replies.index(name) for name in names))


def entry(name: str) -> ServerFunction:
    """Return the function of this name."""
    return entries()[name]


@cache
def entries() -> dict[str, ServerFunction]:
    """Return every function of the SQL by its name."""
    return {name: _parse(name, *rest) for name, *rest in _HEADER.findall(sql.functions())}


def _parse(name: str, arguments: str, returns: str) -> ServerFunction:
    given, out = {}, []
    for part in _split(arguments):
        is_out, argument, type, _ = _ARGUMENT.fullmatch(part).groups()  # type: ignore[union-attr]
        if is_out:
            out.append(argument)
        else:
            given[argument.removeprefix("p_")] = type
    if table := _TABLE.match(returns):
        out = [column.split(" ")[0] for column in _split(table[1])]
    return ServerFunction(
        name, given, tuple(column.removeprefix("v_") for column in out), bool(out) or "SETOF" in returns
    )


def _split(text: str) -> list[str]:
    return [" ".join(part.split()) for part in text.split(",") if part.strip()]
