"""What operators look at: keys, what grows and is late, who waits for a chain, and where settings come from."""

from __future__ import annotations

import msgspec

from ....core.bound import KEYS_LOOKED_AT, MOST_COUNTED, READER_FORGOTTEN_MS
from ....core.chain import ChainRef
from ....core.declaration import DeclaredTask, Settings, View
from ....core.policy import Policy
from ...contract import Dependants, KeyInfo, KeyOrder, LogMeasure, QueueInfo, QueueMeasure, StoreMeasure
from ...lanes import Lane, at_limit, key_info, ranked
from ..transition import chain
from ..tx import Tx

RANKED_BY = 100
"""So many waiting jobs of a key are counted to compare it with others."""


def keys(tx: Tx, queue: str, order: KeyOrder, limit: int) -> list[KeyInfo]:
    """Return keys of a queue in an order. The jobs of those that are shown are counted, of others only some."""
    if tx.value("queue", "revision", queue=queue) is None:
        return []
    settings = tx.queue(queue).settings
    found = tx.run("lane", "looked_at", queue=queue, order=order, most=KEYS_LOOKED_AT).fetchall()
    chosen = ranked((_lane(tx, queue, key, RANKED_BY) for (key,) in found), order, limit)
    return [key_info(_lane(tx, queue, lane.key, MOST_COUNTED), settings, tx.now) for lane in chosen]


def _lane(tx: Tx, queue: str, key: str, most: int) -> Lane:
    return Lane(*tx.run("lane", "look", queue=queue, key=key, most=most).fetchone())


def measure(tx: Tx, queues: list[QueueInfo]) -> StoreMeasure:
    """Return what grows, waits and is late."""
    return StoreMeasure(now_ms=tx.now, queues=[_measured(tx, info) for info in queues], log=_log(tx))


def _measured(tx: Tx, info: QueueInfo) -> QueueMeasure:
    first = tx.value("lane", "first_scheduled", queue=info.name)
    active = dict(tx.run("lane", "active_keys", queue=info.name).fetchall())
    return QueueMeasure(
        info=info,
        keys_at_limit=at_limit(active, info.key_overrides, info.settings),
        scheduled_overdue_ms=0 if first is None else max(0, tx.now - first),
    )


def _log(tx: Tx) -> LogMeasure:
    """Return the size of the log by its numbers, of which none is left out."""
    first, last = tx.value("job", "first_event"), tx.value("job", "last_event")
    newest = tx.value("job", "newest") or 0
    readers = tx.run("reader", "all", after=tx.now - READER_FORGOTTEN_MS).fetchall()
    return LogMeasure(
        events=0 if first is None else last - first + 1,
        readers={name: max(0, newest - read) for name, read, _ in readers},
        lag_ms={name: 0 if since is None else max(0, tx.now - since) for name, _, since in readers},
    )


def dependants(tx: Tx, queue: str, id: str, run: int | None, limit: int) -> Dependants:
    """Return the jobs that wait for the chain of a job."""
    first = chain.first_of(tx, queue, id, run)
    if first is None:
        return Dependants(jobs=[], count=0)
    found = tx.run("unblock", "waiting_for", run=first["run"], limit=limit).fetchall()
    count = tx.value("unblock", "count_waiting", run=first["run"], most=MOST_COUNTED)
    return Dependants(jobs=[ChainRef(*each) for each in found], count=count)


def layers(tx: Tx, queue: str) -> View:
    """Return what workers declared and operators set. What cannot be decoded raises, and is set aside."""
    row = tx.row("queue", "get", queue=queue)
    if row is None:
        return View(queue=queue)
    tasks = tx.run("queue", "policies", queue=queue).fetchall()
    return View(
        queue=queue,
        version=row["version"],
        declared=msgspec.json.decode(row["declared"], type=Settings),
        operator=msgspec.json.decode(row["operator"], type=Settings),
        tasks={task: DeclaredTask(version, msgspec.json.decode(text, type=Policy)) for task, version, text in tasks},
        adjusted={
            task: msgspec.json.decode(text, type=Settings) for task, text in tx.run("queue", "adjustments", queue=queue)
        },
    )
