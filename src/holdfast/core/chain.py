"""Chains of jobs, and what a job waits for."""

from __future__ import annotations

from typing import Literal

import msgspec

from .bound import MOST_ID_BYTES

OnBlockerFailed = Literal["fail", "cancel", "ignore"]
OPEN = "open"
"""What a store notes of a chain that goes on."""


class ChainRef(msgspec.Struct, frozen=True):
    """A chain, known by its first job."""

    queue: str
    id: str
    run: int


class BlockerRef(msgspec.Struct, frozen=True):
    """A chain that a job waits for. With no run it is the one that answers for the id when the job is taken in."""

    queue: str
    id: str
    run: int | None = None


def continuation_id(chain: ChainRef, position: int, queue: str) -> str:
    """Return the id of the job at a position of a chain: the same in every process, and however often."""
    home = "" if queue == chain.queue else f"{chain.queue}:"
    id = f"{home}{chain.id}/{chain.run}/{position}"
    return id.encode()[-MOST_ID_BYTES:].decode(errors="ignore")


def is_of_chain(ref: BlockerRef, chain: ChainRef, position: int) -> bool:
    """True when a reference leads to the chain, by its first job or by one of the jobs up to a position."""
    if (ref.queue, ref.id) == (chain.queue, chain.id):
        return ref.run in (None, chain.run)
    number = ref.id.rpartition("/")[2]
    is_number = number.isascii() and number.isdigit() and len(number) < 10
    return is_number and 0 < int(number) <= position and continuation_id(chain, int(number), ref.queue) == ref.id
