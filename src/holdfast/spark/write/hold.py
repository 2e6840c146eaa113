"""The end of a hold: from then on, the jobs of a write are kept for as long as other jobs are."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from ...core.bound import RESULT_TTL_MS
from ...core.duration import Duration, ttl_ms
from ...errors import ConfigError
from ...store import Store
from ..loop_thread import LoopThread
from ..store_url import reachable
from .report import WriteReport, find_report
from .run_ranges import RunRange

AT_ONCE = 2000
IN_FLIGHT = 4
LEAST_MS = 10 * 60 * 1000
"""Ids are held for at least so long: Spark may still run a second copy of a task whose first was committed."""


def end_hold(name: str, url: str, *, ttl: Duration | None = None) -> None:
    """Keep what a map, or a write with `until="hold"`, left for only `ttl` more; by default as its queue says."""
    with LoopThread(reachable(url)) as loop:
        report = loop.run(find_report(loop.store, name))
        if report is None:
            raise ConfigError(f"end_hold({name!r}): there is no such write here, or it is not held any more")
        loop.run(keep_runs(loop.store, report, None if ttl is None else ttl_ms(ttl), least_ms=0))


async def keep_runs(store: Store, report: WriteReport, ttl_ms: int | None, *, least_ms: int = LEAST_MS) -> None:
    """Keep a write's own runs for `ttl_ms`, from now or from their end; `None` is as their queue says."""
    if ttl_ms is None:
        usual = next(
            (each.settings.result_ttl_ms for each in await store.queues() if each.name == report.queue), RESULT_TTL_MS
        )
        kept = None if usual >= least_ms else least_ms
    else:
        kept = max(ttl_ms, least_ms)
    parts = list(_parts(report.runs))
    for index in range(0, len(parts), IN_FLIGHT):
        calls = [store.keep_runs(report.queue, first, last, kept) for first, last in parts[index : index + IN_FLIGHT]]
        await asyncio.gather(*calls)


def _parts(runs: list[RunRange]) -> Iterator[RunRange]:
    for first, last in runs:
        for start in range(first, last + 1, AT_ONCE):
            yield start, min(last, start + AT_ONCE - 1)
