"""Connections: what a URL says of them holds, and what a role or a handler has set does the store no harm."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Iterator
from typing import Any

import psycopg
import psycopg_pool
import pytest
from psycopg.rows import dict_row
from schemas import drop
from servers import postgres
from support import PATIENCE, working

from holdfast import Holdfast, Job, Retry, StoreBusy, StoreClosed
from holdfast.store.contract import NewJob
from holdfast.store.postgres import PostgresStore
from holdfast.store.postgres.connection.connect import SESSION
from holdfast.store.postgres.connection.errors import is_lost
from holdfast.store.postgres.url import parse, url_of

_numbers = itertools.count(1)


def run(*statements: str) -> list[Any]:
    with psycopg.connect(postgres().url().partition("?")[0], autocommit=True) as connection:
        for statement in statements:
            cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


@pytest.fixture
def schema() -> Iterator[str]:
    name = f"linked_{os.getpid()}_{next(_numbers)}"
    yield name
    drop(name)


@pytest.fixture
def url(schema: str) -> str:
    return postgres().url(schema)


@pytest.fixture
def role(schema: str) -> Iterator[str]:
    """A user with a schema of its own, and settings that a test gives it."""
    name = f"role_{schema}"
    run(f"CREATE ROLE {name} LOGIN", f"CREATE SCHEMA {schema} AUTHORIZATION {name}")
    yield name
    run(f"DROP SCHEMA {schema} CASCADE", f"DROP ROLE {name}")


# --- what a URL says


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("postgresql:///jobs", {"dbname": "jobs"}),
        ("postgresql:///jobs?host=/run/pg&pool=2", {"dbname": "jobs", "host": "/run/pg"}),
        ("postgresql://h/db?options=-c%20geqo%3Doff", {"host": "h", "dbname": "db", "options": "-c geqo=off"}),
        ("postgresql://u@h/db?password=a+b", {"user": "u", "password": "a+b", "host": "h", "dbname": "db"}),
        ("postgresql://a:1,b:2/db", {"host": "a,b", "port": "1,2", "dbname": "db"}),
    ],
)
def test_libpq_is_told_what_the_url_says(url: str, words: dict[str, str]) -> None:
    assert psycopg.conninfo.conninfo_to_dict(parse(url).conninfo) == words


def test_options_of_a_pool_survive() -> None:
    made = psycopg_pool.ConnectionPool("dbname=db", kwargs={"options": "-c search_path=app"}, open=False)
    found = psycopg.conninfo.conninfo_to_dict(parse(url_of(made)).conninfo)
    assert found == {"dbname": "db", "options": "-c search_path=app"}


async def test_settings_and_a_name_in_the_url_are_those_of_the_connections(url: str) -> None:
    store = PostgresStore(f"{url}&application_name=my%20shop&options=-c%20geqo%3Doff")
    await store.open()
    found = await store.caller.rows("SELECT current_setting('application_name'), current_setting('geqo')", ())
    assert found == [("my shop", "off")]
    await store.close()


@pytest.mark.parametrize("name", ["IdleSessionTimeout", "TransactionTimeout", "IdleInTransactionSessionTimeout"])
def test_a_session_that_the_server_ended_is_a_lost_connection(name: str) -> None:
    assert is_lost(getattr(psycopg.errors, name)("terminating connection"))


# --- opening


async def test_whoever_opens_while_another_does_waits_for_it(url: str) -> None:
    app = Holdfast(url)

    async def enqueue(n: int) -> str:
        async with app:
            return (await app.queue("q").enqueue(n)).status

    assert await asyncio.gather(*(enqueue(n) for n in range(5))) == ["queued"] * 5


# --- callers that give up


async def test_whoever_gives_up_while_its_connection_is_set_up_leaves_none_open(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[psycopg.AsyncConnection[Any]] = []
    setting_up = asyncio.Event()
    execute = psycopg.AsyncConnection.execute

    async def watched(self: psycopg.AsyncConnection[Any], query: Any, *args: Any, **options: Any) -> Any:
        if query == SESSION:
            made.append(self)
            setting_up.set()
            await asyncio.Event().wait()
        return await execute(self, query, *args, **options)

    store = PostgresStore(url)
    await store.open()
    monkeypatch.setattr(psycopg.AsyncConnection, "execute", watched)
    asking = asyncio.create_task(store.caller.rows("SELECT 1", ()))
    await asyncio.wait_for(setting_up.wait(), PATIENCE)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert [connection.closed for connection in made] == [True]
    await store.close()


async def test_a_store_that_closes_before_it_could_listen_leaves_no_connection_open(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[psycopg.AsyncConnection[Any]] = []
    execute = psycopg.AsyncConnection.execute

    async def watched(self: psycopg.AsyncConnection[Any], query: Any, *args: Any, **options: Any) -> Any:
        if str(query).startswith("LISTEN"):
            made.append(self)
        return await execute(self, query, *args, **options)

    monkeypatch.setattr(psycopg.AsyncConnection, "execute", watched)
    store = PostgresStore(url)
    await store.open()
    await store.listen(lambda: None, lambda _: None)
    await store.close()
    assert [connection.closed for connection in made] == [True]


async def test_a_store_that_closes_while_it_begins_to_listen_leaves_no_connection_open(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[psycopg.AsyncConnection[Any]] = []
    beginning, closed = asyncio.Event(), asyncio.Event()
    execute = psycopg.AsyncConnection.execute

    async def held(self: psycopg.AsyncConnection[Any], query: Any, *args: Any, **options: Any) -> Any:
        if str(query).startswith("LISTEN"):
            made.append(self)
            beginning.set()
            await closed.wait()
        return await execute(self, query, *args, **options)

    monkeypatch.setattr(psycopg.AsyncConnection, "execute", held)
    store = PostgresStore(url)
    await store.open()
    listening = asyncio.create_task(store.listen(lambda: None, lambda _: None))
    await asyncio.wait_for(beginning.wait(), PATIENCE)
    await store.close()
    closed.set()
    with pytest.raises(StoreClosed, match="closed while it began to listen"):
        await listening
    assert [connection.closed for connection in made] == [True]


# --- locks


async def test_a_call_waits_for_a_lock_no_longer_than_its_patience(url: str) -> None:
    app = Holdfast(f"{url}&patience=0.3")

    @app.task()
    async def echo(text: str) -> str:
        return text

    async with app, await psycopg.AsyncConnection.connect(url.partition("?")[0]) as caller:
        await echo.options(connection=caller, key="k", job_id="same").enqueue("open")
        for call in (
            echo.options(key="k").enqueue("behind its queue's row"),
            echo.options(job_id="same").enqueue("behind its id"),
            app.queue("default").pause(),
        ):
            with pytest.raises(StoreBusy, match=r"locked by others for over 0\.3 s"):
                await asyncio.wait_for(call, PATIENCE)
        await caller.rollback()
        assert (await echo.options(key="k").enqueue("free")).status == "queued"


# --- what a role has set


@pytest.mark.parametrize("level", ["serializable", "repeatable read"])
async def test_a_role_with_a_stricter_isolation_works_the_same(url: str, schema: str, role: str, level: str) -> None:
    run(f"ALTER ROLE {role} SET default_transaction_isolation = '{level}'")
    app = Holdfast(url.replace("holdfast@", f"{role}@"))

    @app.task(retry=Retry(failures=1))
    async def echo(n: int) -> int:
        return n

    @app.task(retry=Retry(failures=1))
    async def kept(job: Job, n: int) -> int:
        async with job.complete(n) as tx:
            await tx.connection.execute("SELECT count(*) FROM pg_class")
        return n

    async with working(app, slots=5), working(app, slots=5):
        calls = [echo.options(key=f"k{n % 3}" if n % 2 else None).call(n) for n in range(40)]
        assert await asyncio.gather(*calls) == list(range(40))
        same = await asyncio.gather(*(echo.options(job_id="one").enqueue(n) for n in range(10)))
        assert sorted(handle.status for handle in same)[-1] == "queued"
        assert await asyncio.gather(*(kept.call(n) for n in range(20))) == list(range(20))


# --- what a handler does to the connection that it has


async def test_what_a_handler_sets_on_its_connection_ends_with_the_block(url: str) -> None:
    app = Holdfast(f"{url}&pool=1")

    @app.task(retry=Retry(failures=1))
    async def odd(job: Job, n: int) -> int:
        async with job.complete() as tx:
            tx.connection.row_factory = dict_row
            tx.connection.cursor_factory = psycopg.AsyncRawCursor
            row = await (await tx.connection.execute("SELECT $1::integer AS n", (n,))).fetchone()
            tx.result = row["n"]
        return 0

    @app.task()
    async def plain(n: int) -> int:
        return n

    async with working(app):
        assert await odd.call(1) == 1
        assert await plain.call(2) == 2
        assert (await plain.options(job_id="given").enqueue(3)).status == "queued"


async def test_a_connection_on_which_a_call_went_wrong_is_not_used_again(url: str) -> None:
    """As when a handler has changed the session in a way that nobody can see."""
    store = PostgresStore(f"{url}&pool=1")
    await store.open()
    await store.caller.rows("SET default_transaction_read_only = on", ())
    with pytest.raises(Exception, match="read-only"):
        await store.enqueue("q", [NewJob(id="j", task="t", payload=b"")])
    (answer,) = await store.enqueue("q", [NewJob(id="j", task="t", payload=b"")])
    assert answer.status == "queued"
    await store.close()


async def test_a_caller_need_not_wait_for_another_connection(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all connections are in transactions of callers, each would wait for the others."""
    app = Holdfast(url)
    async with app, await psycopg.AsyncConnection.connect(url.partition("?")[0]) as caller:
        monkeypatch.setattr(psycopg, "connect", lambda *args, **options: pytest.fail("another connection"))
        handle = await app.queue("q").enqueue(1, connection=caller)
        assert handle.status == "queued"
