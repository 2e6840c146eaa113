"""What a glance at the queues of a SQLite store costs, in steps of its virtual machine, however many jobs there are."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from holdfast.client import new_id
from holdfast.core.state import State
from holdfast.store.contract import Complete, NewJob, QueueInfo, Session
from holdfast.store.sqlite import SqliteStore, inspect, sql
from holdfast.store.sqlite.tx import Tx

SMALL, LARGE = 20, 2_000


async def test_a_glance_at_the_queues_costs_the_same_however_many_jobs_there_are(tmp_path: Path) -> None:
    found = {}
    for size in (SMALL, LARGE):
        await _fill(tmp_path / f"{size}.db", size)
        found[size] = _glance(tmp_path / f"{size}.db")
    (few, _), (many, queues) = found[SMALL], found[LARGE]
    assert queues[0].counts == dict.fromkeys(State, 0) | {
        State.COMPLETED: LARGE,
        State.WAITING: 4 * LARGE,
        State.SCHEDULED: LARGE,
    }
    assert queues[0].oldest_waiting_ms is not None
    assert many < 2 * few, f"{few} steps with {SMALL} of each kind, {many} with {LARGE}"


async def _fill(path: Path, size: int) -> None:
    store = SqliteStore(f"sqlite:///{path}")
    await store.open()
    try:
        worker = Session(id=new_id(), name="w", host="-", pid=0, queues=("q",), lease_ms=600_000)
        await store.register(worker)
        await store.enqueue("q", _jobs(size))
        done: Sequence[Complete] = []
        for _ in range(2):
            turn = await store.settle_and_claim(worker, done, ("q",), size if not done else 0)
            done = [Complete(job.lease, b"null", 600_000) for job in turn.claimed]
        for priority in range(3):
            await store.enqueue("q", _jobs(size, priority=priority))
        await store.enqueue("q", [NewJob(id=new_id(), task="t", payload=b"{}", key=f"k{n}") for n in range(size)])
        await store.enqueue("q", _jobs(size, delay_ms=600_000))
    finally:
        await store.close()


def _jobs(count: int, *, priority: int = 0, delay_ms: int = 0) -> list[NewJob]:
    return [
        NewJob(id=new_id(), task="t", payload=b"{}", priority=priority, delay_ms=delay_ms or None) for _ in range(count)
    ]


def _glance(path: Path) -> tuple[int, list[QueueInfo]]:
    """Return how many steps it took, and what there was to see."""
    steps = 0

    def step() -> int:
        nonlocal steps
        steps += 1
        return 0

    with closing(sqlite3.connect(path)) as connection:
        connection.set_progress_handler(step, 1)
        found = inspect.queues(Tx(connection, sql.statements("holdfast"), 0, {}, []))
        connection.set_progress_handler(None, 0)
    return steps, found
