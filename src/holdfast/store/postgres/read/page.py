"""Pages of jobs: the runs that may match, by the index that has them, and the rows of those that do."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import msgspec

from ....core.bound import GATHERED_AT_ONCE, LOOKED_AT_ONCE
from ....core.job import JobRecord
from ...contract import Filter, JobCount
from ...cursor import LAST
from ...pages import LookAhead, Source, behind, by_counters, counted, source_of, states_of
from ..call import records
from ..call.arguments import selection
from ..call.array import blob, numbers, texts
from ..connection.caller import PostgresCaller, Rows

COUNTED_IN = 5
"""A count looks at as many rows as so many pages."""


class CandidateSource(NamedTuple):
    """Where the runs come from that may match, and what their statements take."""

    name: str
    values: dict[str, object]


class PostgresPages:
    """Finds the jobs that match a filter."""

    def __init__(self, caller: PostgresCaller) -> None:
        self._caller = caller

    async def matching(
        self, which: Filter, limit: int, before: int = LAST, *, requeued: bool = True, most: int | None = LOOKED_AT_ONCE
    ) -> tuple[list[JobRecord], int | None]:
        """Return the jobs that match, newest first, and below which run to look on: `None` when there is nothing more.

        At most `most` rows are looked at, or all. Without `requeued`, runs that were requeued are left out.
        """
        source, found, look = await self._candidates(which, requeued), list[JobRecord](), LookAhead(limit, most)
        while size := look.next():
            left = limit + 1 - len(found)
            bounds = {"before": before, "most": size, "limit": left}
            ask = partial(self._caller.by_index, f"jobs_{source.name}", **bounds, **source.values)
            part = await self._caller.readable(ask, part_of)
            found += [job for job in part.jobs if _is_signed(which, job)]
            if len(found) > limit:
                return found[:limit], found[limit - 1].run
            if len(part.jobs) < left and part.seen < size:
                return found, None
            before = part.jobs[-1].run if len(part.jobs) == left else part.below
        return found, before

    async def count(self, which: Filter, most: int) -> JobCount:
        """Return how many jobs match, within bounds."""
        if by_counters(which):
            return JobCount(number=counted(which, await self._counts()))
        source, number, before = await self._candidates(which, True), 0, LAST
        look = LookAhead(LOOKED_AT_ONCE // 2, COUNTED_IN * LOOKED_AT_ONCE)
        while size := look.next():
            (row,) = await self._caller.by_index(f"count_{source.name}", before=before, most=size, **source.values)
            number += row["number"]
            more = row["seen"] == size
            if number >= most or not more:
                return JobCount(number=min(number, most), more=number > most or more)
            before = row["below"]
        return JobCount(number=number, more=True)

    async def _counts(self) -> dict[tuple[str, str], int]:
        return {(row["queue"], row["state"]): row["count"] for row in await self._caller.query("counts")}

    async def _candidates(self, which: Filter, requeued: bool) -> CandidateSource:
        values = await values_of(self._caller, which, requeued=requeued)
        counts = await self._counts() if which.states or which.queue is not None else {}
        source = source_of(which, counts)
        if source in ("signature", "rare", "walk"):
            return CandidateSource(source, values)
        runs = await self._gathered(source, values)
        return (
            CandidateSource("walk", values)
            if runs is None
            else CandidateSource("few", {**values, "runs": numbers(runs)})
        )

    async def _gathered(self, source: Source, values: dict[str, object]) -> list[int] | None:
        """Return all runs that an index has for a filter; `None` when they are too many."""
        rows = await self._caller.by_index(f"runs_{source}", **values)
        runs: list[int] = rows[0]["array_agg"] or []
        bounded = source in ("prefix", "queue", "states")
        return None if bounded and len(runs) > GATHERED_AT_ONCE else runs


class Part(NamedTuple):
    """Jobs, how many runs were looked at, and which was the last."""

    jobs: list[JobRecord]
    seen: int
    below: int


def part_of(rows: Rows) -> Part:
    """Return what a statement found."""
    jobs = [job for row in rows if row["run"] is not None and (job := records.record(row))]
    return Part(jobs, rows[0]["seen"], rows[0]["below"] or 0)


def _is_signed(which: Filter, job: JobRecord) -> bool:
    """Return whether a job has the error that is asked for: the server does not know the signature of every error."""
    return which.signature is None or (job.error is not None and job.error.signature == which.signature)


async def values_of(caller: PostgresCaller, which: Filter, *, requeued: bool = True) -> dict[str, object]:
    """Return a filter as the statements take it. Without a queue, it has the names of all of them."""
    states = states_of(which)
    names = [row["name"] for row in await caller.query("names")] if which.queue is None else [which.queue]
    return {
        **selection(which),
        "states": texts(states) if states else None,
        "queues": texts(names),
        "prefix": which.id_prefix or None,
        "behind": behind(which.id_prefix or ""),
        "signature": which.signature,
        "holders": texts(which.holders) if which.holders else None,
        "chain": records.chain_value(which),
        "started_after": which.started_after_ms,
        "started_before": which.started_before_ms,
        "finished_after": which.finished_after_ms,
        "finished_before": which.finished_before_ms,
        "tag": which.tag,
        "encoded_tag": None if which.tag is None else blob(msgspec.json.encode(which.tag)),
        "requeued": requeued,
    }
