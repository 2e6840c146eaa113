"""A server that is away for a moment, and a lock that is held for longer than anybody wants to wait."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest
from servers import PostgresServer, postgres
from support import PATIENCE, Running, eventually, working

from holdfast import ConfigError, Holdfast, StoreError
from holdfast.store.contract import Session
from holdfast.store.postgres import PostgresStore
from holdfast.store.postgres.connection.pool import PostgresPool

PLAIN = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = 'holdfast'"


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """A server of the test's own, to be stopped and started."""
    server = PostgresServer()
    server.start()
    yield server
    server.close()


def app_on(url: str) -> tuple[Holdfast, Any]:
    app = Holdfast(url)

    @app.task()
    async def echo(text: str) -> str:
        return text

    return app, echo


async def test_calls_wait_for_a_server_that_is_away_and_go_on_when_it_is_back(server: PostgresServer) -> None:
    app, echo = app_on(f"{server.url()}&patience={PATIENCE}")
    async with app:
        await echo.enqueue("before")
        await asyncio.to_thread(server.stop)
        calls = [
            asyncio.create_task(echo.options(job_id="given").enqueue("a")),  # may not be repeated once it was begun
            asyncio.create_task(echo.enqueue("b")),
            asyncio.create_task(app.queues()),
        ]
        done, _ = await asyncio.wait(calls, timeout=0.3)
        assert not done
        await asyncio.to_thread(server.start)
        given, fresh, _ = await asyncio.gather(*calls)
        assert (given.status, fresh.status) == ("queued", "queued")
        assert (await app.queue("default").info()).counts["waiting"] == 3


async def test_an_app_opens_when_the_server_comes_up(server: PostgresServer) -> None:
    await asyncio.to_thread(server.stop)
    store = PostgresStore(f"{server.url()}&patience={PATIENCE}")
    opening = asyncio.create_task(store.open())
    await asyncio.to_thread(server.start)
    await opening
    await store.close()


async def test_patience_has_an_end_and_the_error_says_what_to_look_at(server: PostgresServer) -> None:
    app, echo = app_on(f"{server.url()}&patience=0.5")
    async with app:
        await asyncio.to_thread(server.stop)
        began = time.monotonic()
        with pytest.raises(StoreError, match=r"the connection was lost or refused .* is the server running") as raised:
            await echo.options(job_id="given").enqueue("a")
        assert time.monotonic() - began >= 0.5
        assert type(raised.value) is StoreError, "whoever catches it knows the name"


async def test_what_no_patience_helps_is_told_at_once() -> None:
    url = postgres().url().replace("/postgres?", "/no_such_database?")
    with pytest.raises(
        StoreError, match=r'the server refuses .*database "no_such_database" does not exist.*check user'
    ):
        await asyncio.wait_for(PostgresStore(f"{url}&patience=600").open(), PATIENCE)


@asynccontextmanager
async def answering(*replies: bytes) -> AsyncIterator[int]:
    """Yield the port of something that answers what a client says with these bytes, one after another."""
    tasks = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.current_task())
        for reply in replies:
            await reader.read(1024)
            writer.write(reply)
        await reader.read()  # until the client hangs up
        writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await asyncio.gather(*tasks, return_exceptions=True)


WANTS_A_PASSWORD = b"R" + struct.pack("!ii4s", 12, 5, b"salt")


@pytest.mark.parametrize(
    ("replies", "options", "told"),
    [
        (
            (),
            "sslmode=wrong",
            r'no connection can be made .*invalid sslmode value: "wrong".*; check host, port and TLS',
        ),
        ((b"N",), "sslmode=require", r"no connection can be made .*SSL was required"),
        ((b"H",), "sslmode=require", r"no connection can be made .*invalid response to SSL negotiation"),
        (
            (b"S",),
            "sslmode=verify-full&sslrootcert=/no/such/file",
            r'no connection can be made .*root certificate file "/no/such/file" does not exist',
        ),
        (
            (b"N", WANTS_A_PASSWORD),
            "sslmode=prefer",
            r"the server refuses .*no password supplied.*; check user, password",
        ),
    ],
    ids=["a wrong sslmode", "a server without TLS", "another kind of server", "a missing file", "a missing password"],
)
async def test_a_connection_that_cannot_be_is_told_at_once(replies: tuple[bytes, ...], options: str, told: str) -> None:
    async with answering(*replies) as port:
        url = f"postgresql://holdfast@127.0.0.1:{port}/postgres?patience=600&{options}"
        with pytest.raises(StoreError, match=told):
            await asyncio.wait_for(PostgresStore(url).open(), PATIENCE)


def failing_lookup(number: int) -> Callable[..., Awaitable[Any]]:
    async def look_up(*args: Any, **options: Any) -> Any:
        raise socket.gaierror(number, os.strerror(0))

    return look_up


async def test_a_host_that_nobody_knows_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", failing_lookup(socket.EAI_NONAME))
    with pytest.raises(StoreError, match=r"no connection can be made .*failed to resolve host 'nowhere'"):
        await asyncio.wait_for(PostgresStore("postgresql://nowhere/db?patience=600").open(), PATIENCE)


async def test_a_name_server_that_is_away_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", failing_lookup(socket.EAI_AGAIN))
    began = time.monotonic()
    with pytest.raises(StoreError, match=r"failed to resolve host 'here'.*is the server running"):
        await PostgresStore("postgresql://here/db?patience=0.3").open()
    assert time.monotonic() - began >= 0.3


async def test_a_host_that_cannot_be_a_name_is_told_at_once() -> None:
    with pytest.raises(ConfigError, match="this cannot be the name of a host"):
        await asyncio.wait_for(PostgresStore("postgresql://a..b/db?patience=600").open(), PATIENCE)


async def test_a_worker_outlives_a_server_that_is_away(server: PostgresServer) -> None:
    app, echo = app_on(f"{server.url()}&patience=0.2")
    troubles: list[Any] = []
    app.hooks.add("worker_error", troubles.append)
    async with working(app, poll=0.05):
        assert await echo.call("before") == "before"
        await asyncio.to_thread(server.stop)
        await eventually(lambda: troubles, "its patience is over, and it goes on")
        await asyncio.to_thread(server.start)
        assert await eventually(lambda: _echoed(echo)) == "after"


async def test_a_worker_can_be_stopped_while_the_server_is_away(server: PostgresServer) -> None:
    app, _ = app_on(f"{server.url()}&patience=600")
    troubles: list[Any] = []
    app.hooks.add("worker_error", troubles.append)
    async with working(app, poll=0.05) as running:
        await asyncio.to_thread(server.stop)
        await eventually(lambda: troubles)
        assert (await running.end()).started == 0


async def _echoed(echo: Any) -> Any:
    try:
        return await asyncio.wait_for(echo.call("after"), PATIENCE)
    except StoreError:
        return None  # the server is not quite back


async def test_a_worker_that_waits_behind_somebodys_lock_can_be_stopped() -> None:
    url = postgres().url(f"away_{os.getpid()}")
    app, _ = app_on(url)
    async with app:
        await app.queue("default").pause()  # there is a row to lock
        async with await psycopg.AsyncConnection.connect(url.partition("?")[0]) as holder:
            await holder.execute(f'SELECT 1 FROM "away_{os.getpid()}".queue FOR UPDATE')
            running = Running(app.worker(grace=0.2))
            await eventually(lambda: _somebody_waits(url))
            report = await running.end()
            assert report.started == 0
            await holder.rollback()
        assert await app.workers() == []
    with psycopg.connect(url.partition("?")[0], autocommit=True) as connection:
        connection.execute(f'DROP SCHEMA "away_{os.getpid()}" CASCADE')


async def _somebody_waits(url: str) -> bool:
    async with await psycopg.AsyncConnection.connect(url.partition("?")[0]) as connection:
        return await (await connection.execute(PLAIN)).fetchone() is not None


async def test_a_server_that_was_started_anew_is_noticed_behind_a_pooler(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be another one, which lacks the last settlements; the connections to the pooler stay as they are."""
    monkeypatch.setattr(PostgresPool, "made", property(lambda pool: 0, lambda pool, made: None), raising=False)
    store = PostgresStore(f"{server.url()}&patience={PATIENCE}")
    await store.open()
    session = Session(id="s", name="w", host="-", pid=0, queues=("q",), lease_ms=60_000)
    await store.register(session)
    before = [(await store.settle_and_claim(session, [], ("q",), 1)).unsure for _ in range(2)]
    await asyncio.to_thread(server.stop)
    await asyncio.to_thread(server.start)
    after = [(await store.settle_and_claim(session, [], ("q",), 1)).unsure for _ in range(2)]
    assert (before, after) == ([False, False], [True, False])
    await store.close()
