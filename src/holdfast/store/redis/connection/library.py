"""The library of server-side functions, put together from the files in `lua/`: one for each transition, and others."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

from ....core.bound import injected
from ....core.state import LETTER, State
from ....core.transition import TRANSITIONS
from ..arguments.entry import EntryPoint, lua, snake
from ..arguments.entry_points import ENTRY_POINTS
from ..keys import ENDINGS

MAJOR = 1
MINOR = 35
"""Raise it with every change of the Lua: a server with an older library gets this one."""
NAME = f"holdfast_{MAJOR}"
PREFIX = f"{NAME}_"
FILES: dict[str, tuple[str, ...]] = {
    "lib": (
        "record", "jobs", "aside", "active", "ids", "log", "retention", "request", "policy", "lane", "suspect",
        "session", "successor", "batch",
    ),
    "notify": ("wake", "watchers", "aborts", "hand_over"),
    "chain": ("outbox", "chain", "continue_chain", "end_chain", "blockers", "dependants"),
    "fast": (
        "bytes", "lane", "enqueue", "claim", "claim_alike", "complete", "complete_alike", "continue_chain", "hand_over",
        "enqueue_one", "complete_one", "keep_runs",
    ),
    "transition": tuple(TRANSITIONS),
    "serve": (
        "session", "turn", "complete_chain", "delete_chain", "result_ttl", "outbox", "schedule", "operate", "watch",
        "reader", "inspect", "search", "placed", "measure", "aside",
        "chores",
    ),
}  # fmt: skip
"""By folder, in the order in which they are loaded; `lib/prelude` comes before all others.

`lib` keeps records, ids, lanes and the log; `notify` reaches workers and callers; `chain` is for chains, blockers and
steps across queues; `fast` is quicker for plain jobs, to the same effect; `transition` has one file for each
transition; `serve` has the entry points that are none.
"""


def text(folder: str, name: str) -> str:
    """Return one file of the library."""
    return files(__package__.rpartition(".")[0]).joinpath("lua", folder, f"{name}.lua").read_text("utf-8")


@cache
def source() -> str:
    """Return the whole library, as FUNCTION LOAD takes it."""
    # Each part is a block of its own, so that its locals stay its own.
    parts = "".join(f"do\n{text(folder, name)}end\n" for folder, names in FILES.items() for name in names)
    return _head(parts) + text("lib", "prelude") + lua(ENTRY_POINTS) + parts


def _head(parts: str) -> str:
    """Return what Lua gets from Python: version, names and types of keys, letters of states, and the bounds it uses."""
    words = set(re.findall(r"\b[A-Z_]+\b", parts + text("lib", "prelude")))
    lines = {
        "VERSION": str(MINOR),
        "PREFIX": _quoted(PREFIX),
        "NAME": _table({name: _quoted(ending) for name, (ending, _, _) in ENDINGS.items()}),
        "KIND": _table({name: _quoted(kind) for name, (_, kind, _) in ENDINGS.items()}),
        "LETTER": _table({str(state): _quoted(letter) for state, letter in LETTER.items()}),
        "STATE": _table({letter: _quoted(state) for state, letter in LETTER.items()}),
        "BYTE": _table({str(state): str(ord(letter)) for state, letter in LETTER.items()}),
        "FINISHED": _table({str(state): "true" for state in State if state.finished}),
        **{name: str(value) for name, value in injected().items() if name in words},
    }
    return f"#!lua name={NAME}\n" + "".join(f"local {name} = {value}\n" for name, value in lines.items())


def _quoted(word: str) -> str:
    return f"'{word}'"


def _table(values: dict[str, str]) -> str:
    return "{ " + ", ".join(f"{name} = {value}" for name, value in values.items()) + " }"


@cache
def function(entry: EntryPoint) -> bytes:
    """Return the name on the server of an entry point."""
    return (PREFIX + snake(entry)).encode()


VERSION = f"{PREFIX}version".encode()
