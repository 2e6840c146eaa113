"""Stores on a connection that its owner lends: jobs are enqueued, run and rolled back inside of one transaction."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import psycopg
import pytest
from schemas import pool
from servers import postgres

from holdfast import ConfigError, Holdfast, Job
from holdfast.store.sqlite.connection.schema import migrate
from holdfast.store.sqlite.transaction.lent import LentSqliteStore
from holdfast.store.sqlite.url import parse_url
from holdfast.testing import drain

T = TypeVar("T")


class Lent:
    """A connection in a transaction, and the store on it."""

    def __init__(self, connection: Any, store: Callable[[Any], Any]) -> None:
        self.connection = connection
        self.store = store(self._lend)

    def _lend(self, work: Callable[[Any], T]) -> Awaitable[T]:
        return asyncio.to_thread(work, self.connection)


@pytest.fixture(params=["sqlite", "postgres"])
def lent(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lent]:
    """A connection with a transaction begun, and a savepoint in it."""
    if request.param == "sqlite":
        with closing(sqlite3.connect(tmp_path / "x.db", isolation_level=None, check_same_thread=False)) as connection:
            migrate(connection, parse_url("memory://?namespace=jobs"))
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("SAVEPOINT outer_one")
            yield Lent(connection, lambda lend: LentSqliteStore("jobs", lend))
            connection.execute("ROLLBACK")
            assert connection.execute("SELECT count(*) FROM jobs_job").fetchone() == (0,)
        return
    from holdfast.store.postgres.transaction.lent import LentPostgresStore

    schema = pool().take()
    url = postgres().url(schema)
    try:
        with closing(psycopg.connect(url.partition("?")[0])) as other:
            other.execute("SAVEPOINT outer_one")
            yield Lent(other, lambda lend: LentPostgresStore(url, lend))
            other.rollback()
            assert other.execute(f'SELECT count(*) FROM "{schema}".job').fetchone() == (0,)  # type: ignore[arg-type]
            other.rollback()
    finally:
        pool().give_back(schema)


def app_on(lent: Lent) -> tuple[Holdfast, list[str]]:
    app, ran = Holdfast(store=lent.store), list[str]()

    @app.task
    async def work(name: str) -> str:
        ran.append(name)
        return name

    @app.task
    async def own(job: Job) -> None:
        async with job.complete():
            ran.append("never")

    return app, ran


async def test_jobs_run_inside_of_one_transaction(lent: Lent) -> None:
    app, ran = app_on(lent)
    work = app.registry.tasks["work"]
    async with app:
        first = await work.enqueue("first")
        await work.options(blockers=[first]).enqueue("last")
        await work.options(key="a", priority=3).enqueue("keyed")
        await work.options(job_id="x").enqueue("named")
        assert (await work.options(job_id="x").enqueue("again")).status == "duplicate"
        assert [each.outcome for each in await drain(app)] == ["completed"] * 4
        assert sorted(ran) == ["first", "keyed", "last", "named"]
        assert ran.index("first") < ran.index("last")
        assert await work.result("x") == "named"
        assert {job.state.value for job in (await app.jobs()).jobs} == {"completed"}


async def test_what_a_savepoint_rolls_back_was_never_enqueued(lent: Lent) -> None:
    app, ran = app_on(lent)
    work = app.registry.tasks["work"]
    async with app:
        lent.connection.execute("SAVEPOINT mine")
        await work.enqueue("undone")
        lent.connection.execute("ROLLBACK TO SAVEPOINT mine")
        await work.enqueue("kept")
        await drain(app)
    assert ran == ["kept"]


async def test_a_block_that_needs_a_transaction_of_its_own_is_refused(lent: Lent) -> None:
    app, ran = app_on(lent)
    async with app:
        await app.registry.tasks["own"].enqueue()
        (attempt,) = await drain(app)
    assert isinstance(attempt.error, ConfigError)
    assert "need a transaction of their own, and in a test the jobs are in the test's" in str(attempt.error)
    assert ran == []
