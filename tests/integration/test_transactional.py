"""Enqueueing in the caller's own transaction: no commit, no job, no event, no wake-up."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest
from servers import postgres
from support import working

from holdfast import Holdfast
from holdfast.errors import ConfigError

_numbers = itertools.count(1)


@pytest.fixture
def url() -> Iterator[str]:
    schema = f"join_{os.getpid()}_{next(_numbers)}"
    yield postgres().url(schema)
    with psycopg.connect(plain(), autocommit=True) as connection:
        connection.execute(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE')


def plain(scheme: str = "postgresql") -> str:
    return postgres().url().partition("?")[0].replace("postgresql", scheme, 1)


def make_app(url: str) -> tuple[Holdfast, Any]:
    app = Holdfast(url)

    @app.task()
    async def echo(text: str) -> str:
        return text

    return app, echo


class Psycopg:
    """The same few steps for each driver."""

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Any]:
        connection = await psycopg.AsyncConnection.connect(plain())
        async with connection:
            yield connection

    async def commit(self, connection: Any) -> None:
        await connection.commit()

    async def rollback(self, connection: Any) -> None:
        await connection.rollback()


class PsycopgSync(Psycopg):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[Any]:
        with psycopg.connect(plain()) as connection:
            yield connection

    async def commit(self, connection: Any) -> None:
        connection.commit()

    async def rollback(self, connection: Any) -> None:
        connection.rollback()


class Asyncpg(Psycopg):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[Any]:
        asyncpg = pytest.importorskip("asyncpg")
        connection = await asyncpg.connect(plain())
        await connection.execute("BEGIN")
        try:
            yield connection
        finally:
            await connection.close()

    async def commit(self, connection: Any) -> None:
        await connection.execute("COMMIT; BEGIN")

    async def rollback(self, connection: Any) -> None:
        await connection.execute("ROLLBACK; BEGIN")


class SqlalchemyAsync(Psycopg):
    scheme = "postgresql+psycopg"

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Any]:
        pytest.importorskip("sqlalchemy")
        from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

        engine = create_async_engine(plain(self.scheme))
        async with AsyncSession(engine) as session:
            yield session
        await engine.dispose()


class SqlalchemyAsyncpg(SqlalchemyAsync):
    scheme = "postgresql+asyncpg"

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Any]:
        pytest.importorskip("asyncpg")
        async with super().open() as session:
            yield session


class SqlalchemySync(PsycopgSync):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[Any]:
        sqlalchemy = pytest.importorskip("sqlalchemy")
        from sqlalchemy.orm import Session

        engine = sqlalchemy.create_engine(plain("postgresql+psycopg"))
        with Session(engine) as session:
            yield session
        engine.dispose()


DRIVERS = [Psycopg, PsycopgSync, Asyncpg, SqlalchemyAsync, SqlalchemyAsyncpg, SqlalchemySync]


@pytest.mark.parametrize("driver", DRIVERS, ids=lambda driver: driver.__name__)
async def test_the_job_comes_with_the_commit_and_not_before(url: str, driver: type[Psycopg]) -> None:
    app, echo = make_app(url)
    async with working(app, poll=600), driver().open() as connection:
        handle = await echo.options(connection=connection, job_id="j", headers={"a": 'b"\\'}).enqueue("hello")
        assert handle.status == "queued"
        assert await app.client.find("default", "j") is None
        assert [event async for event in app.events()] == []
        await driver().commit(connection)
        assert await handle.result(10) == "hello"


@pytest.mark.parametrize("driver", DRIVERS, ids=lambda driver: driver.__name__)
async def test_rolled_back_there_is_no_job_and_no_event(url: str, driver: type[Psycopg]) -> None:
    app, echo = make_app(url)
    async with app, driver().open() as connection:
        await echo.options(connection=connection, job_id="j", key="k").enqueue("hello")
        await driver().rollback(connection)
        assert await app.client.find("default", "j") is None
        assert [event async for event in app.events()] == []
        await echo.options(connection=connection).enqueue_many(
            echo.options(connection=connection).args("x") for _ in "ab"
        )
        await driver().commit(connection)
        assert len((await app.jobs()).jobs) == 2


async def test_a_savepoint_rolled_back_takes_only_its_own(url: str) -> None:
    app, echo = make_app(url)
    async with app, await psycopg.AsyncConnection.connect(plain()) as connection:
        await echo.options(connection=connection, job_id="kept").enqueue("a")
        async with connection.transaction(force_rollback=True):
            await echo.options(connection=connection, job_id="gone").enqueue("b")
        await connection.commit()
        assert [job.id for job in (await app.jobs()).jobs] == ["kept"]


async def test_an_open_transaction_holds_up_no_worker(url: str) -> None:
    app, echo = make_app(url)
    async with working(app, poll=600), await psycopg.AsyncConnection.connect(plain()) as connection:
        await echo.call("the queue is there")
        await echo.options(connection=connection).enqueue("not yet")
        for number in range(5):
            assert await asyncio.wait_for(echo.call(str(number)), 5) == str(number)
        await connection.commit()


async def test_an_error_inside_is_the_drivers_own(url: str) -> None:
    app, echo = make_app(url)
    async with app, await psycopg.AsyncConnection.connect(plain()) as connection:
        with pytest.raises(psycopg.errors.DivisionByZero):
            await connection.execute("SELECT 1 / 0")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            await echo.options(connection=connection).enqueue("x")


async def test_what_cannot_be_is_refused(url: str) -> None:
    app, echo = make_app(url)
    async with app:
        with pytest.raises(ConfigError, match=r"cannot use a builtins\.int; give a connection of psycopg"):
            await echo.options(connection=3).enqueue("x")
        with pytest.raises(ConfigError, match="before your commit"):
            await echo.options(connection=3).call("x")
    async with Holdfast("memory://") as other:
        with pytest.raises(ConfigError, match="memory:// has no transactions"):
            await other.queue("q").enqueue("x", connection=3)
