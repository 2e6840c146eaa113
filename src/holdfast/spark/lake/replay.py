"""Jobs chosen from history run again, each under a new id that names the old one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

from ...app import Holdfast
from ...bulk import Counts
from ...errors import ConfigError
from ...store.contract import KEEP, Filter, NewJob
from .query import query
from .report import open_tables
from .schema import REPLAYS
from .table import Table

CHUNK = 1000
HEADER = "holdfast-replay-of"
Old = dict[str, Any]


@dataclass
class Replayed:
    """What a replay did, or with `dry_run` would do."""

    chosen: int = 0
    before: int = 0
    """Replayed before under the same name."""
    counts: Counts = field(default_factory=Counts)
    ids: list[tuple[str, str, str]] = field(default_factory=list)
    """(queue, old id, new id) of the first ones."""
    lacking: list[tuple[str, str, int]] = field(default_factory=list)
    """(queue, id, run) of those whose payload neither the store nor the lake has."""


SHOWN = 20


def new_id(old: Old, name: str) -> str:
    """Return the id under which a run is replayed: the same each time."""
    return f"{old['id']}~{old['run']}" + (f"~{name}" if name else "")


class Replay:
    """One replay: what is chosen, from which lake, into which store."""

    def __init__(self, path: Path, app: Holdfast, name: str = "") -> None:
        self._tables = open_tables(path)
        self._done = Table(path, REPLAYS)
        self._app = app
        self._name = name

    async def run(self, where: str, *, dry_run: bool = False) -> Replayed:
        """Every finished run that the condition chooses is enqueued again, unless it was before under this name."""
        chosen = self._chosen(where)
        done = self._known()
        fresh = [old for old in chosen if (old["epoch"], old["queue"], old["id"], old["run"]) not in done]
        told = Replayed(len(chosen), len(chosen) - len(fresh))
        for queue, olds in _chunks(fresh):
            await self._again(queue, olds, told, dry_run)
        return told

    def _chosen(self, where: str) -> list[Old]:
        columns = "epoch, queue, id, run, task, key, priority"
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

    async def _again(self, queue: str, olds: Sequence[Old], told: Replayed, dry_run: bool) -> None:
        found = await self._stored(queue, olds)
        found = {**self._from_lake([old for old in olds if old["run"] not in found]), **found}
        told.lacking += [(queue, old["id"], old["run"]) for old in olds if old["run"] not in found]
        ready = [old for old in olds if old["run"] in found]
        told.ids += [(queue, old["id"], new_id(old, self._name)) for old in ready[: SHOWN - len(told.ids)]]
        if dry_run or not ready:
            told.counts.queued += len(ready)
            return
        jobs = [self._job(old, *found[old["run"]]) for old in ready]
        told.counts.add(await self._app.store.enqueue(queue, jobs, KEEP))
        self._note(ready)

    async def _stored(self, queue: str, olds: Sequence[Old]) -> dict[int, tuple[bytes, dict[str, str]]]:
        """Return payload and headers of the runs that the store still has."""
        wanted = {old["run"]: old["id"] for old in olds}
        which = Filter(queue=queue, ids=tuple(set(wanted.values())))
        cursor, found = None, {}
        while True:
            page = await self._app.store.jobs(which, limit=CHUNK, cursor=cursor)
            found.update({job.run: (job.payload, job.headers) for job in page.jobs if wanted.get(job.run) == job.id})
            cursor = page.cursor
            if cursor is None:
                return found

    def _from_lake(self, olds: Sequence[Old]) -> dict[int, tuple[bytes, dict[str, str]]]:
        """Return the last payload of the runs whose events have one."""
        if not olds:
            return {}
        runs = ", ".join(str(old["run"]) for old in olds)
        queue = str(olds[0]["queue"]).replace("'", "''")
        sql = (
            "SELECT epoch, id, run, payload FROM events WHERE payload IS NOT NULL "
            f"AND queue = '{queue}' AND run IN ({runs}) ORDER BY sequence"
        )
        wanted = {(old["epoch"], old["id"], old["run"]) for old in olds}
        rows = query(self._tables, sql).to_pylist()
        return {row["run"]: (row["payload"], {}) for row in rows if (row["epoch"], row["id"], row["run"]) in wanted}

    def _job(self, old: Old, payload: bytes, headers: dict[str, str]) -> NewJob:
        origin = {**headers, HEADER: f"{old['queue']}/{old['id']}#{old['run']}"}
        return NewJob(
            id=new_id(old, self._name), task=old["task"], payload=payload, priority=old["priority"] or 0,
            key=old["key"], headers=origin,
        )  # fmt: skip

    def _note(self, olds: Sequence[Old]) -> None:
        """These runs are known to have been replayed, also when their new ids have long been forgotten."""
        now = datetime.now(UTC)
        rows = [
            {**{name: old[name] for name in ("epoch", "queue", "id", "run")}, "name": self._name,
             "new_id": new_id(old, self._name), "at": now}
            for old in olds
        ]  # fmt: skip
        write_deltalake(self._done.delta, pa.Table.from_pylist(rows, REPLAYS.arrow), mode="append")
        self._done.refresh()


def _chunks(olds: Sequence[Old]) -> Iterator[tuple[str, list[Old]]]:
    """Yield the runs by queue, in chunks in which no run's number is there twice."""
    for (queue, _), group in groupby(olds, key=lambda old: (old["queue"], old["epoch"])):
        mine = list(group)
        for start in range(0, len(mine), CHUNK):
            yield queue, mine[start : start + CHUNK]
