"""The event log: pages of it, and the named readers for whom events are kept."""

from __future__ import annotations

import msgspec

from ...core.bound import READER_FORGOTTEN_MS
from ...core.event import Event, before_end
from ...errors import ConfigError
from ..contract import EventPage
from ..rows import event
from .repair.columns import STORED
from .tx import Row, Tx

_NEVER = 2**62


def events(tx: Tx, position: str | None, queue: str | None, id: str | None, limit: int) -> EventPage:
    """Return events after a position. In SQLite one writer commits at a time, so that order is commit order."""
    epoch = tx.value("job", "epoch")
    after, reset, gap = _after(tx, epoch, position)
    name = "events" if queue is None else "events_of_queue" if id is None else "events_of_job"
    end = max(after, tx.value("job", "last_event") or 0)
    found = tx.rows("job", name, after=after, queue=queue, id=id, limit=limit)
    # Everything up to the end was looked at, also what is not of this queue: trimming it later is no gap.
    last = found[-1]["seq"] if len(found) == limit else max([end, *(row["seq"] for row in found[-1:])])
    page = [_event(row, f"{epoch}:{row['seq']}") for row in found]
    return EventPage(events=page, position=f"{epoch}:{last}", gap=gap, reset=reset)


def _event(row: Row, position: str) -> Event:
    msgspec.convert(row, STORED["event"])
    return event(row, position)


def _after(tx: Tx, epoch: str, position: str | None) -> tuple[int, bool, int]:
    """Return where to read on, whether the log is another one, and how many events were trimmed unread."""
    if (back := before_end(position)) is not None:
        return max(0, (tx.value("job", "last_event") or 0) - back), False, 0
    if position is None:
        return 0, False, 0
    theirs, _, seq = position.partition(":")
    if not seq.isdigit():
        raise ConfigError(f"position {position!r} is not one that the event log gave")
    if theirs != epoch or int(seq) > (tx.value("job", "newest") or 0):
        return 0, True, 0  # another log, or this one as a backup had it, from before the position was made
    first = tx.value("job", "first_event")
    gap = max(0, first - int(seq) - 1) if first is not None else 0
    return int(seq), False, gap


def keep_events(tx: Tx, reader: str, position: str | None) -> None:
    """Keep the events behind a position for a named reader; with `None`, no longer. Forgotten readers are removed."""
    tx.run("reader", "forget", before=tx.now - READER_FORGOTTEN_MS)
    if position is None:
        tx.run("reader", "drop", reader=f"reader:{reader}")
        return
    read, _, _ = _after(tx, tx.value("job", "epoch"), position)
    tx.run("reader", "keep", reader=f"reader:{reader}", read=read, now=tx.now)


def first_unread(tx: Tx) -> int:
    """Return the first event that a named reader has still to read; beyond every event when there is no reader."""
    read = tx.value("reader", "read", after=tx.now - READER_FORGOTTEN_MS)
    return _NEVER if read is None else int(read) + 1
