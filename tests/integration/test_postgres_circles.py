"""Our own transactions never wait for each other in a circle: flows begin while workers end what they wait for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import psycopg
import pytest
from servers import PostgresServer
from support import PATIENCE, working

from holdfast import Continued, Holdfast, Job

WIDE, PARTS, FLOWS = 200, 4, 4


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """A server of the test's own, whose log has nobody else's deadlocks."""
    server = PostgresServer(("log_min_messages=error",))
    server.start()
    yield server
    server.close()


def make(url: str) -> Holdfast:
    app = Holdfast(url)

    @app.task(queue="m")
    async def square(n: int) -> int:
        return n * n

    @app.task(queue="m")
    async def begin(job: Job, n: int) -> Continued[int]:
        return job.continue_with(square, n)

    @app.task(queue="f")
    async def total(job: Job) -> int:
        return sum([each.result for each in await job.blockers()])

    return app


async def test_fan_ins_of_chains_that_begin_while_workers_run_meet_no_deadlock(server: PostgresServer) -> None:
    app, *others = (make(server.url("circles")) for _ in range(4))
    begin, total = app.registry.tasks["begin"], app.registry.tasks["total"]
    async with app, working(others[0], slots=50), working(others[1], slots=50), working(others[2], slots=50):

        async def one(number: int) -> None:
            flow = app.flow(f"f{number}")
            members = flow.map(begin, range(WIDE))
            sums = [flow.add(total.args(), after=members[part::PARTS]) for part in range(PARTS)]
            flow.add(total.args(), after=sums, name="all")
            await flow.start(chunk=50)
            assert await flow.result("all", PATIENCE * 4) == sum(n * n for n in range(WIDE))

        await asyncio.gather(*(one(number) for number in range(FLOWS)))
    assert deadlocks(server) == 0


def deadlocks(server: PostgresServer) -> int:
    with psycopg.connect(server.url().partition("?")[0]) as connection:
        found = connection.execute("SELECT sum(deadlocks) FROM pg_stat_database").fetchone()
    assert found is not None
    return int(found[0])
