"""The write-ahead log of a SQLite file stays short, whoever writes, and a reader who keeps it long is named."""

# ruff: noqa: ASYNC240
from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import eventually
from test_sqlite_errors import limit_pages

from holdfast import ConfigError, Holdfast, StoreFull
from holdfast.store.sqlite import SqliteStore
from holdfast.store.sqlite.connection import lock_owner, wal
from holdfast.store.sqlite.url import LEAST_WAL_LIMIT, parse_url

SHORT = wal.SPARE * wal.LONG
LARGE = "x" * 200_000
READER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN")
connection.execute("SELECT count(*) FROM holdfast_job").fetchall()
print("reads", flush=True)
sys.stdin.read()
"""


def log_size(path: Path) -> int:
    """Return the bytes of the log beside a file."""
    try:
        return os.stat(f"{path}-wal").st_size
    except FileNotFoundError:
        return 0


@contextlib.contextmanager
def reader_process(path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that reads in a transaction which it does not end."""
    command = [sys.executable, "-c", READER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "reads\n"
            yield process
        finally:
            process.kill()


async def test_many_processes_that_each_write_little_keep_the_log_short(url: str, path: Path) -> None:
    """None of them writes as much as one log; all together write several."""
    apps = [Holdfast(url) for _ in range(4)]
    async with contextlib.AsyncExitStack() as stack:
        for app in apps:
            await stack.enter_async_context(app)
        for _ in range(8):
            for app in apps:
                for _ in range(60):
                    await app.queue("mail").enqueue("x" * 100)
            await eventually(lambda: log_size(path) <= SHORT)
        assert len((await apps[0].queue("mail").jobs(limit=2000)).jobs) == 8 * 4 * 60


async def test_one_process_at_full_speed_keeps_the_log_short(app: Holdfast, path: Path) -> None:
    async with app:
        for _ in range(20):
            await app.queue("mail").enqueue_many(({"n": n, "data": "x" * 300} for n in range(5_000)), chunk=1_000)
            await eventually(lambda: log_size(path) <= SHORT)
    assert path.stat().st_size > SHORT, "far more was written than the log may hold"


async def test_only_the_thread_makes_the_log_short(app: Holdfast) -> None:
    """Small jobs are taken in by the loop's own thread, which never waits for the disk."""
    async with app:
        store: Any = app.store
        where: list[str] = []

        def trace(statement: str) -> None:
            if "wal_checkpoint" in statement:
                where.append(threading.current_thread().name)

        store.database.writer.connection.set_trace_callback(trace)
        for _ in range(700):
            await app.queue("mail").enqueue("x" * 100)
        await eventually(lambda: where)
        assert set(where) == {"holdfast-writer"}
        store.database.writer.connection.set_trace_callback(None)


async def test_readers_that_come_and_go_do_not_keep_the_log_long(app: Holdfast, url: str, path: Path) -> None:
    other = Holdfast(url)
    done = asyncio.Event()

    async def read() -> None:
        while not done.is_set():
            await asyncio.gather(other.queues(), other.queue("mail").jobs(limit=100))

    async with app, other:
        reading = [asyncio.create_task(read()) for _ in range(3)]
        for _ in range(6):
            for _ in range(30):
                await app.queue("mail").enqueue(LARGE)
            await eventually(lambda: log_size(path) <= SHORT)
        done.set()
        await asyncio.gather(*reading)


async def test_each_look_is_a_transaction_of_its_own(app: Holdfast) -> None:
    """A hundred looks that were asked for together do not keep the first one's state."""
    async with app:
        store: Any = app.store
        begun: list[str] = []
        store.database.reader.connection.set_trace_callback(
            lambda text: begun.append(text) if text == "BEGIN" else None
        )
        await asyncio.gather(*(app.queue("mail").jobs() for _ in range(10)))
        store.database.reader.connection.set_trace_callback(None)
        assert len(begun) == 10


async def test_a_reader_that_stays_is_named_and_the_log_is_bounded_and_shrinks(
    url: str, path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(wal, "WARN_AFTER", 0.0)
    caplog.set_level(logging.WARNING, "holdfast")
    app = Holdfast(f"{url}?wal_limit={LEAST_WAL_LIMIT}")
    async with app:
        await app.queue("mail").enqueue(1)
        with reader_process(path) as reader:
            own = rf"(this process \({os.getpid()}\) or )?"  # its own readers come and go
            named = own + rf"process {reader.pid} \(python.*\) reads an old state of the file"
            with pytest.raises(StoreFull, match=rf"wal_limit={LEAST_WAL_LIMIT} on no new jobs are taken in: {named}"):
                await app.queue("mail").enqueue_many((LARGE for _ in range(1_000)), chunk=1)
            assert log_size(path) < LEAST_WAL_LIMIT + 2_000_000
            assert (await app.queue("mail").cancel("no-such-job")).reply == "missing", "what is no new job goes on"
            await eventually(lambda: f"process {reader.pid} (python" in caplog.text)
        await eventually(lambda: log_size(path) == 0)
        await app.queue("mail").enqueue(2)


async def test_at_twice_its_limit_the_log_takes_in_nothing_until_it_shrinks(
    app: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with app:
        handle = await app.queue("mail").enqueue(1)
        store: Any = app.store
        monkeypatch.setattr(store.database.writer.log, "size", lambda: 2 << 30)
        monkeypatch.setattr(store.database.writer.log, "_known", 2 << 30)
        with pytest.raises(StoreFull, match="nothing is written: a process reads an old state of the file"):
            await handle.cancel()
        monkeypatch.undo()
        await handle.cancel()


async def test_a_full_disk_gets_back_what_the_log_has(app: Holdfast, path: Path) -> None:
    async with app:
        await app.queue("mail").enqueue("small")
        assert log_size(path) > 0
        limit_pages(app, 2)
        with pytest.raises(StoreFull):
            await app.queue("mail").enqueue("x" * 100_000)
        await eventually(lambda: log_size(path) == 0)
        limit_pages(app, None)
        await app.queue("mail").enqueue("small")


async def test_a_file_that_was_large_gives_its_room_back(url: str, path: Path) -> None:
    store = SqliteStore(url)
    app = Holdfast(store=store)
    async with app:
        await app.queue("mail").enqueue_many((LARGE for _ in range(400)), chunk=50)
        for job in (await app.queue("mail").jobs(limit=400)).jobs:
            await store.delete("mail", job.id)
        largest = path.stat().st_size
        while (await store.expire("mail")).more:
            pass
        store.database.writer.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # type: ignore[union-attr]
    assert largest > 70_000_000
    assert path.stat().st_size < 20_000_000


def test_a_limit_that_is_too_low_is_refused() -> None:
    with pytest.raises(ConfigError, match=rf"wal_limit='1000' is not an option here; .*from {LEAST_WAL_LIMIT}"):
        parse_url("sqlite:///jobs.db?wal_limit=1000")
    assert parse_url(f"sqlite:///jobs.db?wal_limit={LEAST_WAL_LIMIT}").wal_limit == LEAST_WAL_LIMIT


def test_who_holds_a_file_is_unknown_where_the_kernel_does_not_say(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path(f"{path}-shm").touch()
    monkeypatch.setattr(lock_owner, "LOCKS", path / "nowhere")
    assert lock_owner.lock_owners(str(path), "writer") == []
