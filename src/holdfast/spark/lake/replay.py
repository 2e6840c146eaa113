"""Enqueue jobs of the past again, each under a new id that names the old one.

The lake is read day by day and in windows, so that a replay of a million jobs needs the memory of one window. What was
replayed before is left out by a join; payloads are looked up in the partitions of the days in which a window's jobs
lived.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import QueryBuilder, write_deltalake

from ...app.app import Holdfast
from ...app.bulk import EnqueueCounts
from ...core.envelope import Envelope
from ...errors import ConfigError
from ...store.contract import KEEP, Filter, NewJob
from .delta_table import query
from .opening import open_tables
from .schemas import REPLAYS
from .storage.location import LakeLocation
from .storage.storage_errors import plain_storage_errors

CHUNK = 1000
WINDOW = 2000
"""How many jobs are in memory at once, with their payloads."""
HEADER = "holdfast-replay-of"
SHOWN = 20
LACKING = 1000
"""The most jobs without a payload that a result names."""
Old = dict[str, Any]  # a row of the table jobs
Key = tuple[str, str, str, int]
Found = dict[Key, tuple[bytes, Envelope]]
_COLUMNS = "epoch, queue, id, run, task, key, priority, tags, enqueued_at, finished_at"


@dataclass
class ReplayResult:
    """What a replay did, or with `dry_run` would do."""

    chosen: int = 0
    before: int = 0
    """How many were replayed before under the same name."""
    counts: EnqueueCounts = field(default_factory=EnqueueCounts)
    ids: list[tuple[str, str, str]] = field(default_factory=list)
    """(queue, old id, new id) of the first ones."""
    lacked: int = 0
    """How many have their payload neither in the store nor in the lake."""
    lacking: list[tuple[str, str, int]] = field(default_factory=list)
    """(queue, id, run) of the first thousand of those."""


def new_id(old: Old, name: str) -> str:
    """Return the id under which a run is replayed: the same each time."""
    return f"{old['id']}~{old['run']}" + (f"~{name}" if name else "")


class LakeReplay:
    """One replay: what is chosen, from which lake, into which store."""

    def __init__(self, path: str | Path | LakeLocation, app: Holdfast, name: str = "") -> None:
        self._tables = open_tables(path)
        self._done = self._tables[REPLAYS.name]
        self._app = app
        self._name = name

    async def run(self, where: str, *, dry_run: bool = False) -> ReplayResult:
        """Enqueue every finished run that meets the condition, unless it was replayed under this name before."""
        result = ReplayResult()
        for day, count in self._days(where):
            result.chosen += count
            fresh = 0
            for olds in self._windows(where, day):
                fresh += len(olds)
                await self._replay(olds, result, dry_run)
            result.before += count - fresh
        return result

    def _days(self, where: str) -> list[tuple[date, int]]:
        """Return the days of which jobs are chosen, and how many."""
        sql = (
            f"SELECT day, count(*) AS chosen FROM jobs WHERE day IS NOT NULL AND ({where}\n) GROUP BY day ORDER BY day"
        )
        try:
            rows = query(self._tables, sql).to_pylist()
        except Exception as error:
            first = str(error).splitlines()[0]
            raise ConfigError(f"--where {where!r} is no condition on the table jobs: {first}") from None
        return [(row["day"], row["chosen"]) for row in rows]

    def _windows(self, where: str, day: date) -> Iterator[list[Old]]:
        """Yield the chosen runs of a day that were not replayed before, some at a time."""
        name = self._name.replace("'", "''")
        same = " AND ".join(f"j.{column} = r.{column}" for column in ("epoch", "queue", "id", "run"))
        sql = (
            f"SELECT {_COLUMNS} FROM (SELECT {_COLUMNS} FROM jobs WHERE day = DATE '{day}' AND ({where}\n)) j "
            f"LEFT ANTI JOIN (SELECT epoch, queue, id, run FROM replays WHERE name = '{name}') r ON {same}"
        )
        builder = QueryBuilder()
        for table in ("jobs", REPLAYS.name):
            builder.register(table, self._tables[table].delta)
        waiting: list[Old] = []
        for batch in pa.RecordBatchReader.from_stream(builder.execute(sql)):
            waiting += batch.to_pylist()
            while len(waiting) >= WINDOW:
                yield _in_order(waiting[:WINDOW])
                del waiting[:WINDOW]
        if waiting:
            yield _in_order(waiting)

    async def _replay(self, olds: Sequence[Old], result: ReplayResult, dry_run: bool) -> None:
        found: Found = {}
        for queue, chunk in _chunks(olds):
            found |= await self._stored(queue, chunk)
        found |= self._from_lake([old for old in olds if _key(old) not in found])
        missing = [(old["queue"], old["id"], old["run"]) for old in olds if _key(old) not in found]
        result.lacked += len(missing)
        result.lacking += missing[: LACKING - len(result.lacking)]
        ready = [old for old in olds if _key(old) in found]
        result.ids += [(old["queue"], old["id"], new_id(old, self._name)) for old in ready[: SHOWN - len(result.ids)]]
        if dry_run or not ready:
            result.counts.queued += len(ready)
            return
        for queue, chunk in _chunks(ready):
            jobs = [self._job(old, *found[_key(old)]) for old in chunk]
            result.counts.add(await self._app.store.enqueue(queue, jobs, KEEP))
        self._note(ready)

    async def _stored(self, queue: str, olds: Sequence[Old]) -> Found:
        """Return payload and envelope of the runs that the store still keeps."""
        wanted = {(old["id"], old["run"]): _key(old) for old in olds}
        which = Filter(queue=queue, ids=tuple({old["id"] for old in olds}))
        cursor, found = None, {}
        while True:
            page = await self._app.store.jobs(which, limit=CHUNK, cursor=cursor)
            named = [(wanted.get((job.id, job.run)), job) for job in page.jobs]
            found.update({key: (job.payload, job.envelope) for key, job in named if key is not None})
            cursor = page.cursor
            if cursor is None:
                return found

    def _from_lake(self, olds: Sequence[Old]) -> Found:
        """Return the last payload, and the tags, of the runs whose events have one."""
        if not olds:
            return {}
        runs = sorted({old["run"] for old in olds})
        sql = (
            "SELECT epoch, queue, id, run, payload FROM events WHERE payload IS NOT NULL "
            f"AND {_lifetime(olds)} AND run BETWEEN {runs[0]} AND {runs[-1]} "
            f"AND run IN ({', '.join(map(str, runs))}) ORDER BY sequence"
        )
        wanted = {_key(old): Envelope(tags=tuple(old["tags"] or ())) for old in olds}
        rows = query(self._tables, sql).to_pylist()
        return {_key(row): (row["payload"], wanted[_key(row)]) for row in rows if _key(row) in wanted}

    def _job(self, old: Old, payload: bytes, envelope: Envelope) -> NewJob:
        origin = {HEADER: f"{old['queue']}/{old['id']}#{old['run']}"}
        return NewJob(
            id=new_id(old, self._name), task=old["task"], payload=payload, priority=old["priority"] or 0,
            key=old["key"], envelope=envelope.with_headers(origin).encoded(),
        )  # fmt: skip

    def _note(self, olds: Sequence[Old]) -> None:
        """Write down that these runs were replayed: the lake knows it when the store has long expired them."""
        now = datetime.now(UTC)
        rows = [
            {**{name: old[name] for name in ("epoch", "queue", "id", "run")}, "name": self._name,
             "new_id": new_id(old, self._name), "at": now}
            for old in olds
        ]  # fmt: skip
        with plain_storage_errors(self._done.lake):
            write_deltalake(self._done.delta, pa.Table.from_pylist(rows, REPLAYS.arrow), mode="append")
        self._done.refresh()


def _key(row: Old) -> Key:
    return row["epoch"], row["queue"], row["id"], row["run"]


def _lifetime(olds: Sequence[Old]) -> str:
    """Return the condition on the days in which these runs lived: their partitions are all that is read."""
    days = [old["finished_at"].date() for old in olds]
    begun = [old["enqueued_at"].date() for old in olds if old["enqueued_at"] is not None]
    upper = f"day <= DATE '{max(days + begun)}'"
    return f"day >= DATE '{min(days + begun)}' AND {upper}" if len(begun) == len(olds) else upper


def _in_order(olds: Sequence[Old]) -> list[Old]:
    return sorted(olds, key=lambda old: (old["queue"], old["epoch"], old["run"]))


def _chunks(olds: Sequence[Old]) -> Iterator[tuple[str, list[Old]]]:
    """Yield the runs by queue, in chunks without a run number twice."""
    for (queue, _), group in groupby(olds, key=lambda old: (old["queue"], old["epoch"])):
        mine = list(group)
        for start in range(0, len(mine), CHUNK):
            yield queue, mine[start : start + CHUNK]
