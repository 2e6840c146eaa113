"""Behind a pooler in transaction mode, by polling alone: no session state, no prepared statements, no LISTEN."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from pooler import pooler, poolers
from schemas import drop
from servers import postgres
from support import working

from holdfast import Holdfast, Job
from holdfast.store.postgres import PostgresStore

_numbers = itertools.count(1)


each_pooler = pytest.mark.parametrize("name", poolers())


@asynccontextmanager
async def behind(name: str) -> AsyncIterator[str]:
    """Yield the URL of a store that is reached through a pooler."""
    direct = postgres()
    schema = f"pooled_{os.getpid()}_{next(_numbers)}"
    async with pooler(name, direct.port) as port:
        yield direct.url(schema).replace(f":{direct.port}/", f":{port}/")
    drop(schema)


@each_pooler
async def test_the_pooler_is_found_out_and_everything_works_by_polling(name: str) -> None:
    async with behind(name) as url:
        app = Holdfast(url)

        @app.task()
        async def echo(text: str) -> str:
            return text

        @app.task()
        async def keep(job: Job, text: str) -> None:
            async with job.complete() as tx:
                await tx.connection.execute("SELECT 1")

        async with working(app, poll=0.05):
            listener = await app.store.listen(lambda: None, lambda finished: None)
            assert listener.address == "", "nobody may listen"
            listener.close()
            assert await asyncio.gather(*(echo.call(str(number)) for number in range(30))) == [*map(str, range(30))]
            await keep.call("in a transaction of its own")
            assert (await echo.enqueue_many(echo.args(str(number)) for number in range(500))).queued == 500


@each_pooler
async def test_nothing_is_left_behind_in_the_poolers_connections(name: str) -> None:
    async with behind(name) as url:
        store = PostgresStore(url)
        await store.open()
        await asyncio.gather(*(store.now_ms() for _ in range(20)))
        left = await store.caller.rows(
            "SELECT (SELECT count(*) FROM pg_prepared_statements), (SELECT count(*) FROM pg_listening_channels()),"
            " (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid())",
            (),
        )
        assert left == [(0, 0, 0)]
        await store.close()


async def test_without_a_pooler_statements_are_prepared_and_somebody_listens() -> None:
    schema = f"direct_{os.getpid()}"
    store = PostgresStore(postgres().url(schema))
    await store.open()
    listener = await store.listen(lambda: None, lambda finished: None)
    assert listener.address
    for _ in range(3):
        await store.now_ms()
    ((prepared,),) = await store.caller.rows("SELECT count(*) FROM pg_prepared_statements", ())
    assert prepared > 0
    await store.caller.rows(f'DROP SCHEMA "{schema}" CASCADE', ())
    await store.close()
