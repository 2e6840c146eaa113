"""A replica of a PostgreSQL server: it may be read, tells no reader less than there is, and may take over."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator

import psycopg
import pytest
from servers import PostgresServer
from support import PATIENCE, eventually, working

from holdfast import Holdfast, StoreReadOnly


@pytest.fixture
def primary() -> Iterator[PostgresServer]:
    server = PostgresServer()
    server.start()
    yield server
    server.close()


@pytest.fixture
def replica(primary: PostgresServer) -> Iterator[PostgresServer]:
    server = PostgresServer(primary=primary)
    server.start()
    yield server
    server.close()


def replayed(primary: PostgresServer, replica: PostgresServer) -> bool:
    """True when the replica has all that the primary had a moment ago."""
    with (
        psycopg.connect(primary.url().partition("?")[0]) as here,
        psycopg.connect(replica.url().partition("?")[0]) as there,
    ):
        (written,) = here.execute("SELECT pg_current_wal_insert_lsn()").fetchone() or ("",)
        return there.execute("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", (written,)).fetchone() == (True,)


async def test_a_reader_of_a_replica_misses_no_transaction_that_was_open(
    primary: PostgresServer, replica: PostgresServer
) -> None:
    """Its snapshots do not say which were."""
    app = Holdfast(primary.url())
    async with app, await psycopg.AsyncConnection.connect(primary.url().partition("?")[0]) as late:
        queue = app.queue("q")
        await queue.enqueue(0, job_id="before")
        await queue.enqueue(1, job_id="late", connection=late)
        await queue.enqueue(2, job_id="after")
        await eventually(lambda: replayed(primary, replica))
        async with Holdfast(replica.url()) as mirror:
            first = await mirror.store.events()
            assert [event.id for event in first.events] == ["before"]
            scan = mirror.store.scan()
            position = scan.end()
            scan.close()
            await late.commit()
            await eventually(lambda: replayed(primary, replica))
            for at in (first.position, position):
                page = await mirror.store.events(at)
                assert [event.id for event in page.events] == ["late", "after"]
            with pytest.raises(StoreReadOnly, match="a replica or read-only"):
                await mirror.queue("q").enqueue(3)
            with pytest.raises(StoreReadOnly, match="a replica or read-only"):
                await mirror.queue("q").call(3)


async def test_a_job_whose_end_the_new_primary_does_not_know_runs_again(
    primary: PostgresServer, replica: PostgresServer
) -> None:
    """A replica that lagged takes over, while the worker has nothing to say. Its session lives on, and holds the job,
    says the new primary: nobody else would ever take it back."""
    hosts = f"127.0.0.1:{primary.port},127.0.0.1:{replica.port}"
    app = Holdfast(f"postgresql://holdfast@{hosts}/postgres?target_session_attrs=read-write&patience={PATIENCE}")
    ran: list[int] = []
    gate = asyncio.Event()

    @app.task()
    async def work(number: int) -> int:
        ran.append(number)
        await gate.wait()
        return number

    async with working(app, poll=600) as running:
        handle = await work.enqueue(1)
        await eventually(lambda: ran)
        await eventually(lambda: replayed(primary, replica))
        await asyncio.to_thread(replica.stop)
        gate.set()
        assert await handle.result(PATIENCE) == 1
        await eventually(
            lambda: running.worker._run is not None and running.worker._run.parts.pump.idle, "the worker is idle"
        )
        await asyncio.to_thread(primary.stop, signal.SIGQUIT)
        await asyncio.to_thread(replica.start)
        with psycopg.connect(replica.url().partition("?")[0], autocommit=True) as connection:
            connection.execute("SELECT pg_promote()")
        await eventually(lambda: ran == [1, 1], "it runs again")
        assert await handle.result(PATIENCE) == 1
