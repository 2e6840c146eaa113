"""Jobs in a caller's own transaction, on PostgreSQL, by every driver."""

from __future__ import annotations

import asyncio
import itertools
import os
import sqlite3
from collections.abc import Iterator
from typing import Any

import asyncpg
import psycopg
import pytest
import sqlalchemy
from callers import POSTGRES, Asyncpg, Caller, Psycopg, PsycopgAsync, connected
from schemas import drop
from servers import postgres
from support import eventually, postgres_value, run, transitions, working
from transaction_case import READY, TransactionCase, declare

from holdfast import ConfigError, Holdfast

_numbers = itertools.count(1)
PLACE = "postgresql://holdfast@127.0.0.1:{}/{}"


def database(name: str = "postgres") -> str:
    return PLACE.format(postgres().port, name)


def execute(statement: str, name: str = "postgres") -> list[Any]:
    with psycopg.connect(database(name), autocommit=True) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


@pytest.fixture
def schema() -> Iterator[str]:
    name = f"tx_{os.getpid()}_{next(_numbers)}"
    yield name
    drop(name)


@pytest.fixture
def url(schema: str) -> str:
    return postgres().url(schema)


@pytest.fixture
def place(app: Holdfast) -> str:
    """The database of the store, with its tables."""
    run(opened(app))
    return database()


async def opened(app: Holdfast) -> None:
    async with app:
        pass


@pytest.fixture
def table(place: str, schema: str) -> str:
    execute(READY.format(f"{schema}.mine"))
    return f"{schema}.mine"


@pytest.fixture
def other(schema: str) -> Iterator[str]:
    """Another database of the same server."""
    execute(f"CREATE DATABASE {schema}")
    yield schema
    execute(f"DROP DATABASE {schema} WITH (FORCE)")


@pytest.mark.parametrize("kind", POSTGRES)
class TestPostgres(TransactionCase):
    async def test_a_database_without_our_schema_is_refused(
        self, app: Holdfast, kind: type[Caller], place: str, other: str
    ) -> None:
        double = declare(app)
        async with app, connected(kind, database(other)) as caller:
            with pytest.raises(ConfigError, match="has no schema of Holdfast, or an older one, where the jobs are in"):
                await caller.enqueue(app, double, 1)

    async def test_a_database_with_jobs_of_its_own_is_refused(
        self, app: Holdfast, kind: type[Caller], place: str, other: str, schema: str
    ) -> None:
        double = declare(app)
        elsewhere = Holdfast(f"{database(other)}?schema={schema}")
        async with app, elsewhere, connected(kind, database(other)) as caller:
            with pytest.raises(ConfigError, match="it is to another database, with jobs of its own"):
                await caller.enqueue(app, double, 1)
            await caller.commit()
            assert [event async for event in elsewhere.events()] == []


@pytest.mark.parametrize("kind", [Psycopg, PsycopgAsync, Asyncpg])
async def test_the_commit_itself_wakes_a_parked_worker(app: Holdfast, kind: type[Caller], place: str) -> None:
    double = declare(app)
    async with working(app, poll=30), connected(kind, place) as caller:
        await eventually(lambda: parked(app))
        handle = await caller.enqueue(app, double, 21)
        await caller.commit()
        assert await handle.result() == 42


async def test_a_worker_need_not_wait_for_the_end_of_a_callers_transaction(app: Holdfast, place: str) -> None:
    double = declare(app)
    async with working(app, poll=0.1, lease=1.0) as worker, connected(PsycopgAsync, place) as caller:
        await eventually(lambda: parked(app))
        await caller.enqueue(app, double, 1, job_id="open")
        assert await double.call(21) == 42
        (session,) = await app.workers()
        heard = session.heard_at_ms

        async def heard_again() -> bool:
            return (await app.workers())[0].heard_at_ms > heard

        await eventually(heard_again)
        await caller.rollback()
        assert (await worker.end()).completed == 1


async def parked(app: Holdfast) -> bool:
    store: Any = app.store
    return bool(await postgres_value(store, "SELECT EXISTS (SELECT 1 FROM holdfast.session WHERE parked IS NOT NULL)"))


async def test_what_the_caller_has_set_is_neither_used_nor_changed(app: Holdfast, place: str) -> None:
    double = declare(app)
    async with app, connected(PsycopgAsync, place) as caller:
        await caller.execute("SET LOCAL search_path = pg_temp")
        before = await settings(caller)
        await caller.enqueue(app, double, 1, job_id="one")
        assert await settings(caller) == before
        await caller.commit()
        assert await transitions(app, "one") == ["enqueue"]


async def settings(caller: Caller) -> list[Any]:
    known = "SELECT name, setting FROM pg_settings WHERE name NOT LIKE 'plpgsql.%' ORDER BY name"
    found: list[Any] = await (await caller.execute(known)).fetchall()
    return found


async def test_a_connection_in_autocommit_commits_this_call(app: Holdfast, place: str) -> None:
    double = declare(app)
    async with app, await psycopg.AsyncConnection.connect(place, autocommit=True) as connection:
        await double.options(connection=connection, job_id="one").enqueue(1)
        assert await transitions(app, "one") == ["enqueue"]


async def test_the_drivers_own_errors_are_raised(app: Holdfast, place: str) -> None:
    double = declare(app)
    async with app:
        async with connected(PsycopgAsync, place) as caller:
            with pytest.raises(psycopg.errors.DivisionByZero):
                await caller.execute("SELECT 1 / 0")
            with pytest.raises(psycopg.errors.InFailedSqlTransaction):
                await caller.enqueue(app, double, 1)
        async with connected(Asyncpg, place) as caller:
            with pytest.raises(asyncpg.DivisionByZeroError):
                await caller.execute("SELECT 1 / 0")
            with pytest.raises(asyncpg.InFailedSQLTransactionError):
                await caller.enqueue(app, double, 1)
        closed = psycopg.connect(place)
        closed.close()
        with pytest.raises(psycopg.OperationalError, match="closed"):
            await double.options(connection=closed).enqueue(1)


async def test_many_callers_of_one_new_id_give_one_job_and_no_error(app: Holdfast, place: str) -> None:
    double = declare(app)

    async def one(n: int) -> str:
        async with connected(PsycopgAsync if n % 2 else Asyncpg, place) as caller:
            for m in range(5):  # ids in one order, as in any transaction that locks several rows
                handle = await caller.enqueue(app, double, n, job_id=f"job-{m}")
            await (caller.rollback() if n % 5 == 0 else caller.commit())
            return handle.status

    async with app:
        await asyncio.gather(*(one(n) for n in range(20)))
        for m in range(5):
            assert await transitions(app, f"job-{m}") == ["enqueue"]


async def test_what_is_no_connection_to_postgresql_is_refused(app: Holdfast, place: str) -> None:
    double = declare(app)
    with pytest.raises(ConfigError, match=r"cannot use a builtins\.object; give a connection of psycopg, asyncpg"):
        await double.options(connection=object()).enqueue(1)
    plain = sqlite3.connect(":memory:")
    with pytest.raises(ConfigError, match=r"cannot use a sqlite3\.Connection"):
        await double.options(connection=plain).enqueue(1)
    plain.close()
    engine = sqlalchemy.create_engine("sqlite://")
    with engine.connect() as connection, pytest.raises(ConfigError, match="the engine is one of sqlite"):
        await double.options(connection=connection).enqueue(1)
    engine.dispose()


async def test_a_store_whose_log_began_anew_is_still_the_same(app: Holdfast, place: str, schema: str) -> None:
    double = declare(app)
    async with app, connected(PsycopgAsync, place) as caller:
        await caller.enqueue(app, double, 1)
        await caller.commit()
        execute(f"UPDATE {schema}.meta SET value = 'another' WHERE name = 'epoch'")
        assert (await caller.enqueue(app, double, 1)).status == "queued"


async def test_a_store_that_was_never_opened_has_no_tables_to_join(app: Holdfast) -> None:
    double = declare(app)
    async with connected(PsycopgAsync, database()) as caller:
        with pytest.raises(ConfigError, match="has no tables yet; open the app once"):
            await caller.enqueue(app, double, 1)
