"""With `synchronous=full` nobody is answered before the disk has it, and many share a flush; locks are waited for."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
from support import eventually

from holdfast.store.contract import Complete, Finished, NewJob, Session
from holdfast.store.sqlite import SqliteStore
from holdfast.store.sqlite.connection import connection, disk
from holdfast.store.sqlite.url import parse_url

WORKER = Session(id="w", name="w", host="-", pid=0, queues=("q",), lease_ms=600_000)


class Disk:
    """A disk that flushes when it is let."""

    def __init__(self) -> None:
        self.asked = 0
        self.error: OSError | None = None
        self._let = threading.Event()
        self._let.set()

    def flush(self, file: int) -> None:
        self.asked += 1
        assert self._let.wait(60)
        if self.error is not None:
            raise self.error

    def hold(self) -> None:
        self._let.clear()

    def go_on(self) -> None:
        self._let.set()


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Disk:
    held = Disk()
    monkeypatch.setattr(disk, "_flush", held.flush)
    return held


@asynccontextmanager
async def opened(folder: Path, held: Disk) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(f"sqlite:///{folder}/jobs.db?synchronous=full")
    await store.open()
    try:
        await store.register(WORKER)
        yield store
    finally:
        held.go_on()
        await store.close()


def job(number: int, watcher: str | None = None) -> NewJob:
    return NewJob(id=f"j{number}", task="t", payload=b"", watcher=watcher)


async def test_nobody_is_answered_before_the_flush_and_those_who_come_meanwhile_share_the_next(
    tmp_path: Path, held: Disk
) -> None:
    async with opened(tmp_path, held) as store:
        held.hold()
        before = held.asked
        asked = [asyncio.create_task(store.enqueue("q", [job(0)]))]
        await eventually(lambda: held.asked == before + 1)
        asked += [asyncio.create_task(store.enqueue(f"q{number}", [job(number)])) for number in range(1, 4)]
        await eventually(lambda: _committed(store) == 4)
        assert not any(task.done() for task in asked)
        held.go_on()
        await asyncio.gather(*asked)
        assert held.asked - before <= 4


def _committed(store: SqliteStore, state: str = "waiting") -> int:
    with closing(sqlite3.connect(str(store.address.path))) as reader:
        (found,) = reader.execute("SELECT count(*) FROM holdfast_job WHERE state = ?", (state,)).fetchone()
        return int(found)


async def test_a_turn_is_answered_before_its_flush_once_that_of_the_turn_before_is_done(
    tmp_path: Path, held: Disk
) -> None:
    async with opened(tmp_path, held) as store:
        heard: list[Finished] = []
        listener = await store.listen(lambda: None, heard.append)
        await store.enqueue("q", [job(number, listener.address) for number in range(2)])
        held.hold()
        before = held.asked
        turn = await store.settle_and_claim(WORKER, (), ("q",), 5)
        await eventually(lambda: held.asked == before + 1)
        done = [Complete(claimed.lease, b"1") for claimed in turn.claimed]
        settling = asyncio.create_task(store.settle_and_claim(WORKER, done, (), 0))
        await eventually(lambda: _committed(store, "completed") == 2)
        assert (settling.done(), heard) == (False, [])
        held.go_on()
        await settling
        await eventually(lambda: len(heard) == 2)
        listener.close()


async def test_no_waiter_hears_of_an_end_before_the_flush(tmp_path: Path, held: Disk) -> None:
    async with opened(tmp_path, held) as store:
        heard: list[Finished] = []
        listener = await store.listen(lambda: None, heard.append)
        await store.enqueue("q", [job(0, listener.address)])
        turn = await store.settle_and_claim(WORKER, (), ("q",), 5)
        await store.enqueue("q", [job(1)])  # whose flush came after that of the turn
        held.hold()
        done = [Complete(claimed.lease, b"1") for claimed in turn.claimed]
        await store.settle_and_claim(WORKER, done, (), 0)
        assert _committed(store, "completed") == 1
        await store.get("q", "j0")
        assert heard == []
        held.go_on()
        await eventually(lambda: heard)
        listener.close()


async def test_a_flush_that_fails_is_told_to_all_who_waited_for_it(tmp_path: Path, held: Disk) -> None:
    async with opened(tmp_path, held) as store:
        held.error = OSError(5, "Input/output error")
        many = asyncio.gather(*(store.enqueue("q", [job(number)]) for number in range(3)), return_exceptions=True)
        told = {str(error) for error in await many}
        assert told == {
            f"{store.address}: what was written may not be on the disk ([Errno 5] Input/output error); "
            "see to it, and ask again"
        }
        held.error = None
        assert [answer.status for answer in await store.enqueue("q", [job(0)])] == ["duplicate"]


async def test_a_store_that_is_closed_has_flushed(tmp_path: Path, held: Disk) -> None:
    store = SqliteStore(f"sqlite:///{tmp_path}/closed.db?synchronous=extra")
    await store.open()
    held.hold()
    asked = asyncio.create_task(store.enqueue("q", [job(0)]))
    await eventually(lambda: held.asked)
    closing = asyncio.create_task(store.close())
    held.go_on()
    await closing
    assert [answer.status for answer in await asked] == ["queued"]


@pytest.mark.parametrize("synchronous", ["off", "normal"])
async def test_without_full_nothing_is_flushed(synchronous: str, tmp_path: Path, held: Disk) -> None:
    store = SqliteStore(f"sqlite:///{tmp_path}/jobs.db?synchronous={synchronous}")
    await store.open()
    await store.enqueue("q", [job(0)])
    await store.close()
    assert held.asked == 0


def test_a_lock_of_another_process_is_looked_at_soon_and_then_ever_less_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = parse_url(f"sqlite:///{tmp_path}/jobs.db")
    with closing(connection.connect(address)) as ours, closing(connection.connect(address)) as theirs:
        connection.wait_for_lock_here(ours)
        theirs.execute("BEGIN IMMEDIATE")
        pauses: list[float] = []

        def sleep(seconds: float) -> None:
            pauses.append(seconds)
            if len(pauses) == 5:
                theirs.execute("ROLLBACK")

        monkeypatch.setattr(connection.time, "sleep", sleep)
        connection.begin(ours, address)
        assert ours.in_transaction
    assert len(pauses) == 5
    assert pauses == sorted(pauses)
    assert pauses[0] < 0.001
    assert max(pauses) <= connection.LONGEST_LOOK
