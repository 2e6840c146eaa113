"""The end of a write's life: its jobs are kept for as long as others are."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from ..core.duration import Duration, to_ms
from ..core.limit import HOUR_MS
from ..errors import ConfigError
from ..store import Store
from .line import Line
from .option import reachable
from .report import WriteReport, kept_report
from .runs import Span

AT_ONCE = 2000
IN_FLIGHT = 4
LEAST_MS = 10 * 60 * 1000
"""Spark may still run a second copy of a task whose first was committed: so long its ids are held all the same."""


def release(name: str, url: str, *, ttl: Duration | None = None) -> None:
    """What a map, or a write with `until="hold"`, left is kept for `ttl` more; by default as the queue says."""
    with Line(reachable(url)) as line:
        report = line(kept_report(line.store, name))
        if report is None:
            raise ConfigError(f"release({name!r}): there is no such write here, or it is not held any more")
        line(release_runs(line.store, report, None if ttl is None else to_ms(ttl, "ttl"), least_ms=0))


async def release_runs(store: Store, report: WriteReport, ttl_ms: int | None, *, least_ms: int = LEAST_MS) -> None:
    """The write's own runs are kept for so long, from now or from their end; `None` is as the queue says."""
    if ttl_ms is None:
        usual = next(
            (each.settings.result_ttl_ms for each in await store.queues() if each.name == report.queue), HOUR_MS
        )
        kept = None if usual >= least_ms else least_ms
    else:
        kept = max(ttl_ms, least_ms)
    parts = list(_parts(report.runs))
    for index in range(0, len(parts), IN_FLIGHT):
        calls = [store.keep_runs(report.queue, first, last, kept) for first, last in parts[index : index + IN_FLIGHT]]
        await asyncio.gather(*calls)


def _parts(runs: list[Span]) -> Iterator[Span]:
    for first, last in runs:
        for start in range(first, last + 1, AT_ONCE):
            yield start, min(last, start + AT_ONCE - 1)
