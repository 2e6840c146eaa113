"""Enqueue jobs of the past again, each under a new id that names the old one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

from ...app.app import Holdfast
from ...app.bulk import EnqueueCounts
from ...core.envelope import Envelope
from ...errors import ConfigError
from ...store.contract import KEEP, Filter, NewJob
from .delta_table import query
from .opening import open_tables
from .schemas import REPLAYS
from .storage.location import LakeLocation

CHUNK = 1000
HEADER = "holdfast-replay-of"
Old = dict[str, Any]  # a row of the table jobs


@dataclass
class ReplayResult:
    """What a replay did, or with `dry_run` would do."""

    chosen: int = 0
    before: int = 0
    """How many were replayed before under the same name."""
    counts: EnqueueCounts = field(default_factory=EnqueueCounts)
    ids: list[tuple[str, str, str]] = field(default_factory=list)
    """(queue, old id, new id) of the first ones."""
    lacking: list[tuple[str, str, int]] = field(default_factory=list)
    """(queue, id, run) of those whose payload is neither in the store nor in the lake."""


SHOWN = 20


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
        chosen = self._chosen(where)
        done = self._known()
        fresh = [old for old in chosen if (old["epoch"], old["queue"], old["id"], old["run"]) not in done]
        result = ReplayResult(len(chosen), len(chosen) - len(fresh))
        for queue, olds in _chunks(fresh):
            await self._replay(queue, olds, result, dry_run)
        return result

    def _chosen(self, where: str) -> list[Old]:
        columns = "epoch, queue, id, run, task, key, priority, tags"
        sql = f"SELECT {columns} FROM jobs WHERE day IS NOT NULL AND ({where}) ORDER BY queue, epoch, run"
        try:
            rows: list[Old] = query(self._tables, sql).to_pylist()
        except Exception as error:
            first = str(error).splitlines()[0]
            raise ConfigError(f"--where {where!r} is no condition on the table jobs: {first}") from None
        return rows

    def _known(self) -> set[tuple[str, str, str, int]]:
        name = self._name.replace("'", "''")
        sql = f"SELECT epoch, queue, id, run FROM replays WHERE name = '{name}'"
        rows = query({"replays": self._done}, sql).to_pylist()
        return {(row["epoch"], row["queue"], row["id"], row["run"]) for row in rows}

    async def _replay(self, queue: str, olds: Sequence[Old], result: ReplayResult, dry_run: bool) -> None:
        found = await self._stored(queue, olds)
        found = {**self._from_lake([old for old in olds if old["run"] not in found]), **found}
        result.lacking += [(queue, old["id"], old["run"]) for old in olds if old["run"] not in found]
        ready = [old for old in olds if old["run"] in found]
        result.ids += [(queue, old["id"], new_id(old, self._name)) for old in ready[: SHOWN - len(result.ids)]]
        if dry_run or not ready:
            result.counts.queued += len(ready)
            return
        jobs = [self._job(old, *found[old["run"]]) for old in ready]
        result.counts.add(await self._app.store.enqueue(queue, jobs, KEEP))
        self._note(ready)

    async def _stored(self, queue: str, olds: Sequence[Old]) -> dict[int, tuple[bytes, Envelope]]:
        """Return payload and envelope of the runs that the store still keeps."""
        wanted = {old["run"]: old["id"] for old in olds}
        which = Filter(queue=queue, ids=tuple(set(wanted.values())))
        cursor, found = None, {}
        while True:
            page = await self._app.store.jobs(which, limit=CHUNK, cursor=cursor)
            found.update({job.run: (job.payload, job.envelope) for job in page.jobs if wanted.get(job.run) == job.id})
            cursor = page.cursor
            if cursor is None:
                return found

    def _from_lake(self, olds: Sequence[Old]) -> dict[int, tuple[bytes, Envelope]]:
        """Return the last payload, and the tags, of the runs whose events have one."""
        if not olds:
            return {}
        runs = ", ".join(str(old["run"]) for old in olds)
        queue = str(olds[0]["queue"]).replace("'", "''")
        sql = (
            "SELECT epoch, id, run, payload FROM events WHERE payload IS NOT NULL "
            f"AND queue = '{queue}' AND run IN ({runs}) ORDER BY sequence"
        )
        wanted = {(old["epoch"], old["id"], old["run"]): Envelope(tags=tuple(old["tags"] or ())) for old in olds}
        rows = query(self._tables, sql).to_pylist()
        named = [((row["epoch"], row["id"], row["run"]), row["payload"]) for row in rows]
        return {name[2]: (payload, wanted[name]) for name, payload in named if name in wanted}

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
        write_deltalake(self._done.delta, pa.Table.from_pylist(rows, REPLAYS.arrow), mode="append")
        self._done.refresh()


def _chunks(olds: Sequence[Old]) -> Iterator[tuple[str, list[Old]]]:
    """Yield the runs by queue, in chunks without a run number twice."""
    for (queue, _), group in groupby(olds, key=lambda old: (old["queue"], old["epoch"])):
        mine = list(group)
        for start in range(0, len(mine), CHUNK):
            yield queue, mine[start : start + CHUNK]
