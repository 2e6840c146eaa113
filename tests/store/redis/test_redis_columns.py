"""Entries of the log as columns: the same that one event at a time gives. No server."""

from __future__ import annotations

import struct

import msgspec
import pytest

from holdfast.store.redis.record.event import EVENT, event, event_or_none
from holdfast.store.redis.scan.columns import LogEntry, event_columns

HEX = "00ff" * 8
NAMES = ("sequence", "id", "transition", "state", "task", "worker", "run_at_ms", "wait_ms", "run_ms", "key", "failures")


def entry(
    sequence: int,
    id: bytes,
    transition: str,
    letter: bytes,
    *,
    task: bytes = b"",
    worker: bytes = b"",
    rest: object = None,
) -> LogEntry:
    """An entry as the Lua library writes it."""
    sizes = [number.to_bytes(width, "big") for number, width in ((7, 6), (1_000, 7), (2_000, 7), (41, 6), (0, 6))]
    run, at, run_at, wait, ran = sizes
    fixed = EVENT.pack(letter, run, 1, at, run_at, 5, wait, ran, len(task))
    raw = bytes([len(transition)]) + transition.encode() + fixed + task + struct.pack(">H", len(worker)) + worker
    raw += b"" if rest is None else msgspec.msgpack.encode(rest)
    return f"9-{sequence}".encode(), [b"i", id, b"e", raw]


def short(sequence: int, *, task: bytes = b"", rest: object = None) -> LogEntry:
    """The entry of a job that waits from its enqueue on, as the Lua library writes it."""
    raw = b"\x80" + (7).to_bytes(6, "big") + (2_000).to_bytes(7, "big") + struct.pack(">H", len(task)) + task
    raw += b"" if rest is None else msgspec.msgpack.encode(rest)
    return f"9-{sequence}".encode(), [b"i", b"\1" + bytes.fromhex(HEX), b"e", raw]


def read(entries: list[LogEntry]) -> dict[str, list[object]]:
    found = event_columns("mail", "9", entries, NAMES)
    listed = {name: values.to_pylist() if hasattr(values, "to_pylist") else values for name, values in found.items()}
    return {name: list(listed[name]) for name in NAMES}


ENTRIES = [
    entry(1, b"\1" + bytes.fromhex(HEX), "enqueue", b"w", task="grüßen".encode()),
    entry(
        2, b"\1" + bytes.fromhex(HEX), "claim", b"a", worker=b"host-1", rest={"key": "acme", "counters": (2, 0, 0, 0)}
    ),
    entry(3, b"\1" + bytes.fromhex(HEX), "operate", b"-"),
    short(4, task="grüßen".encode(), rest={"key": "acme"}),
    short(5),
]


def test_columns_are_what_each_event_is() -> None:
    columns = read(ENTRIES)
    events = [event("mail", "", dict(zip(flat[::2], flat[1::2], strict=True))) for _, flat in ENTRIES]
    assert columns["sequence"] == [1, 2, 3, 4, 5]
    for name in ("id", "transition", "task", "worker", "run_at_ms", "wait_ms", "run_ms", "key"):
        assert columns[name] == [getattr(each, name) for each in events], name
    assert columns["state"] == [each.state and str(each.state) for each in events]
    assert columns["failures"] == [each.counters.failures for each in events]
    assert columns["id"] == [HEX] * 5


def test_a_short_event_has_all_that_a_long_one_has() -> None:
    (_, flat) = short(1, task=b"mail", rest={"key": "acme"})
    found = event("mail", "", dict(zip(flat[::2], flat[1::2], strict=True)))
    assert (found.transition, found.state, found.run, found.attempt) == ("enqueue", "waiting", 7, 0)
    assert (found.at_ms, found.run_at_ms, found.priority, found.key, found.task) == (2_000, 2_000, 0, "acme", "mail")
    assert (found.worker, found.wait_ms, found.run_ms) == (None, None, None)


@pytest.mark.parametrize("kept", [1, 7, 14, 15, 18])
def test_a_short_event_that_is_cut_off_is_unreadable(kept: int) -> None:
    _, flat = short(1, task=b"mail")
    assert event_or_none("mail", {b"i": flat[1], b"e": flat[3][:kept]}) is None


def test_ids_that_are_kept_in_several_ways_are_each_read_in_theirs() -> None:
    kept = [b"\1" + bytes(16), b"\0" + b"x" * 16, b"order-7", "zwölf".encode()]
    columns = read([entry(number, id, "enqueue", b"w") for number, id in enumerate(kept)])
    assert columns["id"] == ["00" * 16, "x" * 16, "order-7", "zwölf"]


@pytest.mark.parametrize("cut", [1, 20, 60])
def test_an_entry_that_is_cut_off_never_takes_from_the_next(cut: int) -> None:
    id, flat = entry(2, b"short", "claim", b"a", task=b"t" * 30, worker=b"host")
    broken = (id, [*flat[:3], flat[3][:-cut]])
    with pytest.raises((ValueError, IndexError)):
        read([ENTRIES[0], broken, ENTRIES[2]])


def test_a_text_that_is_no_text_is_refused() -> None:
    with pytest.raises(ValueError):
        read([ENTRIES[0], entry(2, b"id", "claim", b"a", task=b"\xff\xfe")])
