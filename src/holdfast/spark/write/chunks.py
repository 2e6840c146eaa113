"""Cut the jobs of a write into chunks, each for one call of a store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import attrgetter

from ...core.bound import MOST_CALL_BYTES
from ...store.contract import NewJob

SORTED_AT_ONCE = 32_000
"""Jobs of a file that are put in the order of their ids before they are cut."""
_by_id = attrgetter("id")


def chunks(jobs: Iterable[NewJob], size: int) -> Iterator[list[NewJob]]:
    """Yield chunks of `size` jobs; of fewer, where these have more bytes than one call of a store should carry."""
    chunk: list[NewJob] = []
    filled = 0
    for job in jobs:
        chunk.append(job)
        filled += len(job.payload)
        if len(chunk) >= size or filled >= MOST_CALL_BYTES:
            yield chunk
            chunk, filled = [], 0
    if chunk:
        yield chunk


def chunks_by_id(jobs: Iterable[NewJob], size: int) -> Iterator[list[NewJob]]:
    """Yield chunks of ids that are neighbours, for a file.

    A transaction writes every page of the index that one of its ids falls on, and ids that are hashes fall on all of
    them.
    """
    for many in chunks(jobs, max(size, SORTED_AT_ONCE)):
        many.sort(key=_by_id)
        yield from chunks(many, size)
