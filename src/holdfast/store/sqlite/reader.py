"""Named readers of the log: what they have still to read is kept for them."""

from __future__ import annotations

from ..contract import FORGOTTEN_MS
from . import look
from .tx import Tx

_NEVER = 2**62


def hold(tx: Tx, reader: str, position: str | None) -> None:
    """Events behind the position are kept for the reader, or for it no more. The forgotten are gone."""
    tx.run("reader", "forget", before=tx.now - FORGOTTEN_MS)
    if position is None:
        tx.run("reader", "drop", reader=f"reader:{reader}")
        return
    read = look.read_to(tx, position)
    tx.run("reader", "hold", reader=f"reader:{reader}", read=read, now=tx.now)


def unread(tx: Tx) -> int:
    """Return the first event that some reader has still to read; beyond every event when nobody is known to read."""
    read = tx.value("reader", "read", after=tx.now - FORGOTTEN_MS)
    return _NEVER if read is None else int(read) + 1
