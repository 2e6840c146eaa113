"""A file that is full, locked, damaged, too new or not there: one clear line each, and what to do next."""

# ruff: noqa: ASYNC220, ASYNC222, ASYNC240
from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import Flaky, eventually, working

import holdfast
from holdfast import (
    Holdfast,
    State,
    StoreBusy,
    StoreClosed,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreTooNew,
)
from holdfast.store.sqlite.connection import connection
from holdfast.store.sqlite.connection.error import translate
from holdfast.store.sqlite.url import parse_url

WRITER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("writes", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def other_connection(path: Path, *statements: str) -> Iterator[sqlite3.Connection]:
    """Another program has done these statements on the file, and holds it open."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        for statement in statements:
            connection.execute(statement)
        yield connection
    finally:
        connection.close()


def limit_pages(app: Holdfast, pages: int | None) -> None:
    """The disk of the store has room for so many pages more."""
    connection = app.store.database.writer.connection  # type: ignore[attr-defined]
    used = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {used + pages if pages is not None else 2**30}")


async def test_a_full_disk_is_told_nothing_is_half_written_and_room_helps(app: Holdfast, path: Path) -> None:
    queue = app.queue("mail")
    async with app:
        await queue.enqueue("small")
        limit_pages(app, 2)
        with pytest.raises(StoreFull, match=r"jobs\.db: no room left on the disk; nothing of this call was written"):
            await queue.enqueue("x" * 100_000)
        with pytest.raises(StoreFull):
            await queue.enqueue_many(("x" * 2_000 for _ in range(100)), chunk=50)
        assert len((await queue.jobs()).jobs) == 1
        limit_pages(app, None)
        await queue.enqueue("x" * 100_000)
        assert len((await queue.jobs()).jobs) == 2


async def test_one_call_that_finds_the_disk_full_does_not_harm_its_neighbours(app: Holdfast) -> None:
    """Calls share a transaction: each hears of its own fate."""
    queue = app.queue("mail")
    async with app:
        await queue.enqueue("small")
        limit_pages(app, 8)
        calls = [queue.enqueue("x" * 500_000 if n == 5 else "small", job_id=str(n)) for n in range(10)]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        limit_pages(app, None)
        stored = {job.id for job in (await queue.jobs()).jobs}
        for n, answer in enumerate(answers):
            assert isinstance(answer, StoreFull) != (str(n) in stored), f"call {n} was told {answer!r}"
        assert isinstance(answers[5], StoreFull)


async def test_a_worker_on_a_full_disk_waits_for_room(app: Holdfast) -> None:
    troubles: list[Any] = []

    @app.task()
    async def work() -> str:
        return "x" * 200_000

    app.on("worker_error")(lambda happening: troubles.append(happening.error))
    async with working(app):
        limit_pages(app, 3)
        handle = await work.enqueue()
        await eventually(lambda: troubles)
        assert isinstance(troubles[0], StoreFull)
        assert (await handle.job()).state is State.ACTIVE
        limit_pages(app, None)
        assert len(await handle.result()) == 200_000
        assert (await handle.job()).counters.attempts == 1, "it was run once, and told until it was heard"


async def test_a_file_that_is_locked_for_too_long(url: str, path: Path) -> None:
    app = Holdfast(f"{url}?busy_timeout=0.05")
    queue = app.queue("mail")
    async with app:
        await queue.enqueue(1)
        with other_connection(path, "BEGIN IMMEDIATE") as other:
            with pytest.raises(StoreBusy) as caught:
                await queue.enqueue(2)
            assert len((await queue.jobs()).jobs) == 1, "readers go on"
            other.execute("ROLLBACK")
            await queue.enqueue(3)
    assert str(caught.value) == (
        f"{path} was locked by this process ({os.getpid()}) for over 0.05 s; end its long transaction, or raise "
        "busy_timeout"
    )


async def test_a_process_that_is_frozen_in_its_transaction_is_named(url: str, path: Path) -> None:
    app = Holdfast(f"{url}?busy_timeout=0.05")
    async with app:
        await app.queue("mail").enqueue(1)
        command = [sys.executable, "-c", WRITER, str(path)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            try:
                assert writer.stdout.readline() == "writes\n"
                writer.send_signal(signal.SIGSTOP)
                os.waitpid(writer.pid, os.WUNTRACED)
                named = rf"was locked by process {writer.pid} \(python.*, stopped\) for over 0\.05 s"
                with pytest.raises(StoreBusy, match=named):
                    await app.queue("mail").enqueue(2)
            finally:
                writer.kill()
        await app.queue("mail").enqueue(3)


async def test_a_file_that_is_locked_for_a_moment_costs_only_that_moment(app: Holdfast, path: Path) -> None:
    queue = app.queue("mail")
    async with app:
        await queue.enqueue(1)
        with other_connection(path, "BEGIN IMMEDIATE") as other:
            waiting = asyncio.create_task(queue.enqueue(2))
            await asyncio.to_thread(other.execute, "SELECT count(*) FROM holdfast_job")
            assert not waiting.done()
            other.execute("ROLLBACK")
            assert (await waiting).status == "queued"


async def test_opening_a_locked_file(url: str, path: Path) -> None:
    locked = other_connection(path, "CREATE TABLE mine (x)", "BEGIN EXCLUSIVE")
    with locked, pytest.raises(StoreBusy, match="was locked by another process for over 0 s"):
        await Holdfast(f"{url}?busy_timeout=0").open()


@pytest.mark.parametrize("content", [b"hello, this is no database" * 100, b"SQLite format 3\x00" + b"\xff" * 5000])
async def test_a_file_that_is_not_a_database_is_left_as_it_is(url: str, path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(StoreCorrupt, match=r"is damaged or not a SQLite file \(.*\); restore it from a backup"):
        await Holdfast(url).open()
    assert path.read_bytes() == content


async def test_a_file_that_gets_damaged(app: Holdfast, url: str, path: Path) -> None:
    queue = app.queue("mail")
    async with app:
        await queue.enqueue_many({"n": "x" * 500} for _ in range(500))
    data = bytearray(path.read_bytes())
    for page in range(2, len(data) // 4096):
        data[page * 4096 : page * 4096 + 2048] = b"\xee" * 2048
    path.write_bytes(bytes(data))
    with pytest.raises(StoreCorrupt, match="restore it from a backup"):
        async with Holdfast(url) as damaged:
            await damaged.queue("mail").jobs()


async def test_a_database_of_another_program_gets_our_tables_beside_its_own(url: str, path: Path) -> None:
    with other_connection(path, "CREATE TABLE mine (x)", "INSERT INTO mine VALUES (1)") as other:
        async with Holdfast(url) as app:
            await app.queue("mail").enqueue(1)
        assert other.execute("SELECT x FROM mine").fetchall() == [(1,)]


async def test_a_newer_schema(app: Holdfast, url: str, path: Path) -> None:
    async with app:
        pass
    with (
        other_connection(path, "UPDATE holdfast_meta SET value = 99 WHERE name = 'schema'"),
        pytest.raises(StoreTooNew, match=r"has schema 99, and this Holdfast knows \d+: upgrade holdfast to use it"),
    ):
        await Holdfast(url).open()


async def test_a_store_that_does_not_know_its_schema(app: Holdfast, url: str, path: Path) -> None:
    async with app:
        pass
    damaged = other_connection(path, "DELETE FROM holdfast_meta WHERE name = 'schema'")
    with damaged, pytest.raises(StoreCorrupt, match="the table holdfast_meta names no schema; restore the file"):
        await Holdfast(url).open()


async def test_a_missing_folder_and_what_happens_when_it_is_made(tmp_path: Path) -> None:
    app = Holdfast(f"sqlite:///{tmp_path}/not/here/jobs.db")
    with pytest.raises(StoreError, match=r"its folder does not exist; create .*/not/here"):
        await app.open()
    (tmp_path / "not" / "here").mkdir(parents=True)
    async with app:
        assert await app.queues() == []


async def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be opened; check the path and its rights"):
        await Holdfast(f"sqlite:///{tmp_path}").open()


def test_a_file_that_cannot_be_written(url: str, path: Path) -> None:
    """The error is SQLite's own, of a connection that may only read."""
    with other_connection(path, "CREATE TABLE mine (x)"):
        reader = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        with pytest.raises(sqlite3.Error) as caught:
            reader.execute("INSERT INTO mine VALUES (1)")
        reader.close()
    error = translate(caught.value, parse_url(url))
    assert isinstance(error, StoreReadOnly)
    assert str(error) == f"{path} cannot be written; check the rights of the file and its folder"


@pytest.mark.parametrize(
    ("text", "kind", "told"),
    [
        ("Cannot operate on a closed database.", StoreClosed, "is closed"),
        ("disk I/O error", StoreError, "disk I/O error"),
        ("database or disk is full", StoreFull, "no room left on the disk"),
        ("database is locked", StoreBusy, "was locked by another process"),
        ("database disk image is malformed", StoreCorrupt, "restore it from a backup"),
    ],
)
def test_every_error_of_sqlite_is_one_of_ours(url: str, text: str, kind: type[Exception], told: str) -> None:
    error = translate(sqlite3.OperationalError(text), parse_url(url))
    assert type(error) is kind
    assert told in str(error)


# --- the schema


async def test_a_fresh_file_is_created_and_opened_again(app: Holdfast, url: str, path: Path) -> None:
    async with app:
        first = await app.queue("mail").enqueue(1)
    async with Holdfast(url) as again:
        second = await again.queue("mail").enqueue(2)
        assert second.run == first.run + 1
    with other_connection(path) as other:
        assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert other.execute("PRAGMA integrity_check").fetchone() == ("ok",)


async def test_a_file_that_many_open_at_once_is_created_once(url: str) -> None:
    apps = [Holdfast(url) for _ in range(10)]
    await asyncio.gather(*(app.open() for app in apps))
    try:
        runs = [handle.run for handle in await asyncio.gather(*(app.queue("q").enqueue(1) for app in apps))]
        assert sorted(runs) == list(range(1, 11))
    finally:
        for app in apps:
            await app.close()


@pytest.mark.parametrize(("first", "second"), [("one", "two"), ("email-queue", "email-queue-2")])
async def test_namespaces_live_side_by_side_in_one_file(url: str, path: Path, first: str, second: str) -> None:
    one, two = Holdfast(f"{url}?namespace={first}"), Holdfast(f"{url}?namespace={second}")
    for app in (one, two):
        app.queue("mail", handler="plain_handlers:echo")
    async with one, two:
        await one.queue("mail").enqueue(1, job_id="x")
        assert (await two.jobs()).jobs == []
        assert (await two.queue("mail").enqueue(2, job_id="x")).status == "queued"
        await one.worker().run(burst=True)
        assert (await one.status("mail", "x")).state is State.COMPLETED
        assert (await two.status("mail", "x")).state is State.WAITING
    with other_connection(path) as other:
        tables = [name for (name,) in other.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    assert all(name.startswith((f"{first}_", f"{second}_", "sqlite_")) for name in tables)


async def test_memory_is_private_unless_it_has_a_name() -> None:
    async with Holdfast("memory://") as one, Holdfast("memory://") as two:
        await one.queue("mail").enqueue(1)
        assert (await two.jobs()).jobs == []
    async with Holdfast("memory://shared") as one, Holdfast("memory://shared") as two, Holdfast("memory://x") as three:
        await one.queue("mail").enqueue(1)
        assert len((await two.jobs()).jobs) == 1
        assert (await three.jobs()).jobs == []


async def test_namespaces_of_one_memory_are_apart() -> None:
    async with Holdfast("memory://n?namespace=a") as one, Holdfast("memory://n?namespace=b") as two:
        await one.queue("mail").enqueue(1)
        assert (await two.jobs()).jobs == []


async def test_memory_works_like_a_file() -> None:
    app = Holdfast("memory://")

    @app.task()
    async def double(n: int) -> int:
        return 2 * n

    async with working(app):
        assert await asyncio.gather(*(double.call(n) for n in range(50))) == [2 * n for n in range(50)]


async def test_a_wake_up_that_cannot_be_sent_costs_a_poll_and_not_the_store(app: Holdfast) -> None:
    """A session whose address makes no sense must not stop the writer."""
    app.queue("mail")
    async with app:
        for address in ("nonsense", "127.0.0.1:99999999", "a:b:c", "\x00:1"):
            await app.store.database.write(  # type: ignore[attr-defined]
                lambda tx, address=address: tx.watch("mail", [("x", 1, address)])
            )
        handle = await app.queue("mail").enqueue(1, job_id="x")
        await handle.cancel()
        assert (await app.queue("mail").enqueue(2, job_id="y")).status == "queued"


async def test_a_flaky_store_is_what_it_says(app: Holdfast) -> None:
    store = Flaky(app.store)
    async with app:
        store.refuse("queues", StoreError("no"))
        with pytest.raises(StoreError, match="no"):
            await store.queues()
        assert await store.queues() == []


def test_opening_waits_for_a_lock_that_sqlite_itself_does_not_wait_for(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("CREATE TABLE theirs (x)")
        other.execute("BEGIN IMMEDIATE")
        monkeypatch.setattr(connection, "pause", lambda: other.execute("COMMIT"))
        connection.connect(parse_url(f"sqlite:///{path}?busy_timeout=5")).close()


async def test_small_work_never_waits_for_a_lock_in_the_event_loop(app: Holdfast, path: Path) -> None:
    @app.task()
    async def work() -> None: ...

    async with app:
        await work.enqueue()
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            waiting = asyncio.create_task(work.enqueue())
            await asyncio.to_thread(lambda: None)
            assert not waiting.done(), "the loop moves while the lock is waited for elsewhere"
            other.execute("COMMIT")
        assert (await waiting).status == "queued"


async def test_work_that_comes_together_shares_a_commit(app: Holdfast) -> None:
    @app.task()
    async def work() -> None: ...

    async with app:
        store: Any = app.store
        commits: list[str] = []
        store.database.writer.connection.set_trace_callback(
            lambda text: commits.append(text) if text == "COMMIT" else None
        )
        await asyncio.gather(*(work.enqueue() for _ in range(50)))
        assert len(commits) < 10
        store.database.writer.connection.set_trace_callback(None)


def test_no_statement_numbers_its_parameters() -> None:
    """Python 3.12.0 to 3.12.3 warn of each `?1` that is given a tuple, which is an error under -W error."""
    folder = Path(holdfast.__file__).parent / "store" / "sqlite"
    files = [path for path in folder.rglob("*.*") if path.suffix in (".sql", ".py")]
    assert files
    assert not [path.name for path in files if re.search(r"\?\d", path.read_text("utf-8"))]
