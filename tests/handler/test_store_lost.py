"""A store that does not answer until a lease may be over: handlers hear it while it is still away."""

from __future__ import annotations

import importlib
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import servers
from proxy import Proxy
from support import PATIENCE, Flaky, Running, eventually, ledger_lines, working

from holdfast import Counters, Holdfast, HookEvent, Job, StoreTooNew
from holdfast.store import open_store

LEASE = {"inline": 1.5, "thread": 1.5, "process": 6.0}
"""A process ends itself when the lease is over: its handler has a tenth of it to stop in, on a busy machine, too."""


class Away:
    """A place whose store can be made not to answer."""

    def __init__(self, url: str, going: Any) -> None:
        self.url = url
        self.away = going
        """A context manager: the store does not answer in its block."""


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """The file is locked for writing by somebody else."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        connection.close()


@contextmanager
def stopped(server: servers.RedisServer) -> Iterator[None]:
    assert server.process is not None
    server.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        server.process.send_signal(signal.SIGCONT)


@contextmanager
def silent(proxy: Proxy) -> Iterator[None]:
    """The server is cut off: nothing that it says arrives, and when it is back, every connection is another."""
    proxy.silent = True
    try:
        yield
    finally:
        proxy.silent = False
        proxy.cut()


@asynccontextmanager
async def place(kind: str, folder: Path) -> AsyncIterator[Away]:
    if kind == "sqlite":
        yield Away(f"sqlite:///{folder}/jobs.db", lambda: locked(folder / "jobs.db"))
    elif kind == "redis":
        binary = servers.valkey_binary() or servers.redis_binary()
        assert binary is not None
        server = servers.RedisServer(binary)
        try:
            yield Away(server.url, lambda: stopped(server))
        finally:
            server.close()
    else:
        async with Proxy(servers.postgres().port) as proxy:
            url = servers.postgres().url(f"lost_{folder.name}".replace("-", "_")[:60])
            yield Away(url.replace(f":{servers.postgres().port}/", f":{proxy.port}/"), lambda: silent(proxy))


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "ledger"


def tasks_on(url: str, ledger: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setenv("HOLDFAST_TEST_URL", url)
    monkeypatch.setenv("HOLDFAST_TEST_LEDGER", str(ledger))
    sys.modules.pop("process_tasks", None)
    return importlib.import_module("process_tasks")


every_store = pytest.mark.parametrize("kind", ["sqlite", "redis", "postgres"])


@every_store
@pytest.mark.parametrize("executor", ["inline", "thread", "process"])
async def test_handlers_hear_that_the_store_is_lost_while_it_is_away(
    kind: str, executor: str, tmp_path: Path, ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with place(kind, tmp_path) as there:
        tasks = tasks_on(there.url, ledger, monkeypatch)
        heard, back = list[HookEvent](), list[HookEvent]()
        tasks.app.on("store_lost")(heard.append)
        tasks.app.on("store_back")(back.append)
        task = tasks.heeds[executor]
        async with working(tasks.app, task.queue, lease=LEASE[executor], pool=1) as running:
            handle = await task.options(job_id="x").enqueue()
            await eventually(lambda: ledger_lines(ledger, "start"))
            with there.away():
                await eventually(lambda: ledger_lines(ledger, "store_lost"))
                assert [each.worker for each in heard] == [running.worker.name]
            assert await handle.result(timeout=PATIENCE * 2) == "done"
            await eventually(lambda: back, "it is told, too, that the store answers again")
            record = await handle.job()
        assert record.counters == Counters(attempts=2), "nobody pays for a store that was away"


async def test_what_completes_all_the_same_counts_if_nobody_has_taken_it(
    tmp_path: Path, ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with place("sqlite", tmp_path) as there:
        tasks = tasks_on(there.url, ledger, monkeypatch)
        async with working(tasks.app, "outlasts", lease=0.6):
            handle = await tasks.outlasts.options(job_id="x").enqueue()
            await eventually(lambda: ledger_lines(ledger, "start"))
            with there.away():
                await eventually(lambda: ledger_lines(ledger, "store_lost"))
            assert await handle.result(timeout=PATIENCE) == 1


async def test_turns_that_are_answered_keep_the_lease_where_heartbeats_are_not(url: str) -> None:
    """Every turn renews a lease of which a third has passed."""
    app = Holdfast(url)
    heard: list[Any] = []
    app.on("store_lost")(heard.append)

    @app.task()
    async def work(job: Job) -> None: ...

    async with app:
        app.store.twin = lambda: Flaky(open_store(url))  # type: ignore[method-assign]
        running = Running(app.worker(lease=0.6, poll=0.01))
        await eventually(lambda: running.worker.healthy)
        heartbeat = running.worker._run.life.heartbeat
        assert heartbeat is not None
        began = heartbeat._answered

        async def refused() -> None:
            raise StoreTooNew("of no interest")

        heartbeat._extend = lambda store: refused()  # type: ignore[method-assign]
        await eventually(lambda: heartbeat._answered - began > 1.2, "two leases have passed")
        await running.end()
    assert heard == []
