"""Entries of a queue's log as columns: what `record/event.py` does, for thousands at a time."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Collection, Sequence
from typing import Any

from ....core.action import OPERATE
from ....core.bound import LOWEST_PRIORITY
from ....core.job import ErrorRecord
from ....distribution import pip_install
from ....errors import MissingExtra
from ..keys import long
from ..record.event import EVENT, EVENT_FIELDS, TELLING, EventRest, event_rest, whole
from ..record.job import LETTERS

try:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute
except ImportError as error:
    raise MissingExtra(f"reading whole tables needs pyarrow and numpy: {pip_install('spark')}") from error

LogEntry = tuple[bytes, list[bytes]]
_STATES = pa.array([{ord(letter): str(state) for letter, state in LETTERS.items()}.get(code) for code in range(256)])
"""The state of each letter, by its code; none where there is no such letter."""
_DIGITS = np.frombuffer(b"".join(b"%02x" % code for code in range(256)), np.uint16)
_SHORT_ID = 17
"""The bytes of an id that is kept in short: a mark, and what 32 hexadecimal digits say."""


def _places() -> dict[str, tuple[int, int]]:
    """Return where each field of the fixed part of an event begins and ends."""
    sizes = [struct.calcsize(f">{form}") for form in re.findall(r"\d*[a-zA-Z]", EVENT.format)]
    ends = np.cumsum(sizes).tolist()
    return {name: (end - size, end) for name, size, end in zip(EVENT_FIELDS, sizes, ends, strict=True)}


_PLACES = _places()


class _Page:
    """Some entries, their bytes as one array, so that a field of all of them is taken at once."""

    def __init__(self, entries: Sequence[LogEntry]) -> None:
        self.raws = [whole(fields[3]) for _, fields in entries]
        sizes = np.fromiter(map(len, self.raws), np.int64, len(self.raws))
        self.starts = np.cumsum(sizes) - sizes
        self.sizes = sizes
        self.bytes = np.frombuffer(b"".join(self.raws), np.uint8)
        self.head = self.starts + 1 + self.bytes[self.starts]
        self.task = self.head + EVENT.size
        self.worker = self.task + self.number("task_size") + 2
        self.end = self.worker + (self.bytes[self.worker - 2].astype(np.int64) << 8) + self.bytes[self.worker - 1]
        if (self.end > self.starts + sizes).any():
            raise ValueError("an entry of the log is shorter than it says")

    def number(self, name: str) -> Any:
        """Return a field as whole numbers."""
        first, last = _PLACES[name]
        total = np.zeros(len(self.raws), np.int64)
        for offset in range(first, last):
            total = (total << 8) + self.bytes[self.head + offset]
        return total

    def text(self, start: Any, end: Any) -> pa.Array:
        """Return the texts between two places of each entry. An empty one is none."""
        sizes = np.maximum(end - start, 0)
        ends = np.concatenate([[0], np.cumsum(sizes)])
        found = self.bytes[np.repeat(start - ends[:-1], sizes) + np.arange(ends[-1])]
        return _texts(found, ends, sizes == 0)

    def rests(self) -> list[tuple[int, EventRest]]:
        """Return what most entries do without, and whose it is."""
        more = np.flatnonzero(self.end - self.starts < self.sizes).tolist()
        rest = (self.end - self.starts).tolist()
        return [(index, event_rest(self.raws[index][rest[index] :])) for index in more]


def event_columns(queue: str, epoch: str, entries: Sequence[LogEntry], names: Collection[str]) -> dict[str, Any]:
    """Return entries as those of the columns of `EVENT_COLUMNS` that are named."""
    page, count = _Page(entries), len(entries)
    transitions = page.text(page.starts + 1, page.head)
    made: dict[str, Callable[[], Any]] = {
        "epoch": lambda: pa.repeat(pa.scalar(epoch), count),
        "queue": lambda: pa.repeat(pa.scalar(queue), count),
        "sequence": lambda: pa.array([int(id.partition(b"-")[2]) for id, _ in entries], pa.int64()),
        "at_ms": lambda: pa.array(page.number("when")),
        "id": lambda: _ids([fields[1] for _, fields in entries]),
        "run": lambda: pa.array(page.number("run")),
        "attempt": lambda: pa.array(page.number("attempt")),
        "transition": lambda: transitions,
        "state": lambda: _STATES.take(pa.array(page.number("letter"))),
        "task": lambda: page.text(page.task, page.worker - 2),
        "worker": lambda: page.text(page.worker, page.end),
        "priority": lambda: pa.array(page.number("priority") + LOWEST_PRIORITY),
        "run_at_ms": lambda: _run_at(page.number("run_at"), transitions),
        "wait_ms": lambda: _one_less(page.number("wait")),
        "run_ms": lambda: _one_less(page.number("ran")),
        "payload": lambda: [fields[5] if len(fields) > 4 else None for _, fields in entries],
    }
    found = {name: make() for name, make in made.items() if name in names}
    return found if made.keys() >= set(names) else {**found, **_rest_columns(page.rests(), transitions.to_pylist())}


def _rest_columns(rests: list[tuple[int, EventRest]], transitions: list[str]) -> dict[str, Any]:
    count = len(transitions)
    counters = np.zeros((4, count), np.int64)
    columns: dict[str, list[Any]] = {
        name: [None] * count
        for name in ("key", "cause", "error_type", "error_signature", "progress", "message", "envelope", "actor")
    }
    for index, each in rests:
        counters[:, index] = each.counters
        columns["key"][index], columns["cause"][index] = each.key, each.cause
        columns["progress"][index], columns["actor"][index] = each.progress, each.actor
        columns["envelope"][index] = None if each.envelope is None else each.envelope.encode()
        if each.error_type:
            columns["error_type"][index], columns["error_signature"][index] = each.error_type, _signature(each)
        if transitions[index] in TELLING:
            columns["message"][index] = each.message
    numbers = zip(("failures", "stalls", "timeouts", "releases"), map(pa.array, counters), strict=True)
    return {**columns, **dict(numbers)}


def _signature(rest: EventRest) -> str | None:
    if rest.signature is None and rest.error_type:  # an error that the store made itself
        return ErrorRecord(type=rest.error_type, message=rest.message or "").signature
    return rest.signature


def _texts(found: Any, ends: Any, empty: Any) -> pa.Array:
    """Return bytes as texts, without a Python object for each. Raise for what is no UTF-8."""
    valid = pa.py_buffer(np.packbits(~empty, bitorder="little")) if empty.any() else None
    texts = pa.StringArray.from_buffers(
        len(empty), pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(np.ascontiguousarray(found)), valid
    )
    texts.validate(full=True)
    return texts


def _ids(stored: Sequence[bytes]) -> Any:
    """Return ids as they were given. Where all are kept in short, as is usual, they are spelled out at once."""
    raw = np.frombuffer(b"".join(stored), np.uint8)
    if len(raw) != len(stored) * _SHORT_ID or {len(id) for id in stored} != {_SHORT_ID}:
        return [long(id) for id in stored]
    rows = raw.reshape(-1, _SHORT_ID)
    if (rows[:, 0] != 1).any():
        return [long(id) for id in stored]
    ends = np.arange(0, (len(stored) + 1) * 32, 32)
    return _texts(_DIGITS[rows[:, 1:]].view(np.uint8).ravel(), ends, np.zeros(len(stored), bool))


def _run_at(values: Any, transitions: pa.Array) -> Any:
    """Return when jobs may run; an action has no such time."""
    acted = pa.compute.fill_null(pa.compute.equal(transitions, OPERATE), False)
    return pa.array(values, mask=acted.to_numpy(zero_copy_only=False))


def _one_less(values: Any) -> Any:
    """Return durations, which are kept one larger so that zero is none."""
    return pa.array(values - 1, mask=values == 0)
