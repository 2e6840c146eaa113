"""The library of server-side functions: assembled from one Lua file for each transition, loaded where it is missing."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from .keys import ENDINGS

MAJOR = 1
MINOR = 13
"""Raise it with every change of the Lua: a server with an older library gets this one."""
NAME = f"holdfast_{MAJOR}"
PREFIX = f"{NAME}_"
TRANSITIONS = (
    "enqueue", "update", "promote", "unblock", "claim", "extend", "progress", "complete", "retry", "fail", "snooze",
    "release", "cancel", "reap", "requeue", "expire", "delete",
)  # fmt: skip
FILES = (
    "prelude", "record", "hold", "log", "tell", "policy", "outbox", "plain", "give", "lane", "suspect", "reader",
    *TRANSITIONS, "chain", "go_on", "finish", "outside", "forget", "turn", "schedule", "steer",
)  # fmt: skip


def text(name: str) -> str:
    """Return one file of the library."""
    return files(__package__).joinpath("lua", f"{name}.lua").read_text("utf-8")


@cache
def source() -> str:
    """Return the whole library, as FUNCTION LOAD takes it."""
    names = ", ".join(f"{name} = {ending!r}" for name, (ending, _, _) in ENDINGS.items())
    head = f"#!lua name={NAME}\nlocal VERSION = {MINOR}\nlocal PREFIX = {PREFIX!r}\nlocal NAME = {{ {names} }}\n"
    prelude, *parts = (text(name) for name in FILES)
    # Each part is a block of its own, so that its locals stay its own.
    return head + prelude + "".join(f"do\n{part}end\n" for part in parts)


@cache
def function(name: str) -> bytes:
    """Return a function's name on the server."""
    return (PREFIX + name).encode()
