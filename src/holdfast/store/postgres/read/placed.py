"""Pages of the jobs of one state, in the order of its index."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from ....core.bound import NO_INSTANT
from ....core.job import JobRecord
from ....core.state import State
from ...contract import Filter
from ...pages import FIRST_PLACE, LookAhead, SortPlace
from ..call import records
from ..connection.caller import PostgresCaller, Rows
from .page import Part, part_of, values_of

FEWEST_ROWS = 8
"""Rows of `expiry` that are read at least: each has the runs of one turn."""
Found = tuple[list[JobRecord], SortPlace | None]
"""Jobs, and behind which place to look on: `None` when there is nothing more."""


class PlacedPart(NamedTuple):
    """Jobs with their places, and down to which place these are all; `None`: nothing is left."""

    jobs: list[tuple[SortPlace, JobRecord]]
    reach: SortPlace | None


class PostgresPlaced:
    """Lists the jobs of one state."""

    def __init__(self, caller: PostgresCaller) -> None:
        self._caller = caller

    async def page(self, which: Filter, state: State, limit: int, place: SortPlace) -> Found:
        """Return the jobs that match, and behind which place to look on."""
        values, found = await values_of(self._caller, which), list[tuple[SortPlace, JobRecord]]()
        look = LookAhead(limit, first=limit + 1)
        while size := look.next():
            left = limit + 1 - len(found)
            part = await self._part(
                state, place, {**values, "most": size, "rows": max(FEWEST_ROWS, size // 4), "limit": left}, size
            )
            found += part.jobs
            if len(found) > limit:
                return [job for _, job in found[:limit]], found[limit - 1][0]
            if part.reach is None:
                return [job for _, job in found], None
            place = part.reach
        return [job for _, job in found], place

    async def _part(self, state: State, place: SortPlace, values: dict[str, object], size: int) -> PlacedPart:
        if place.at <= NO_INSTANT:
            return await self._unended(place, values, size)
        ask = partial(self._caller.by_index, f"placed_{state}", at=place.at, below=place.run, **values)
        part = await self._caller.readable(ask, partial(_placed_part, size))
        if part.reach is None and state is State.COMPLETED and await self._any_chain():
            return part._replace(reach=SortPlace(NO_INSTANT, FIRST_PLACE.run))
        return part

    async def _any_chain(self) -> bool:
        return bool((await self._caller.by_index("any_chain"))[0]["exists"])

    async def _unended(self, place: SortPlace, values: dict[str, object], size: int) -> PlacedPart:
        ask = partial(self._caller.by_index, "placed_unended", before=place.run, **values)
        part: Part = await self._caller.readable(ask, part_of)
        jobs = [(SortPlace(NO_INSTANT, job.run), job) for job in part.jobs]
        return PlacedPart(jobs, SortPlace(NO_INSTANT, part.below) if part.seen == size else None)


def _placed_part(size: int, rows: Rows) -> PlacedPart:
    jobs = [
        (SortPlace(row["place_at"], row["place_number"]), job)
        for row in rows
        if row["run"] is not None and (job := records.record(row))
    ]
    first = rows[0]
    if first["seen"] >= size:
        return PlacedPart(jobs, SortPlace(first["last_at"], first["last_number"]))
    return PlacedPart(jobs, None if first["reach"] is None else SortPlace(first["reach"], 0))
