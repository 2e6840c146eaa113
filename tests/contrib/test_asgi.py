"""The app in the lifespan of ASGI frameworks."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import litestar
import pytest
from litestar.di import NamedDependency, Provide
from litestar.params import FromPath
from litestar.testing import AsyncTestClient
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from holdfast import Holdfast
from holdfast.contrib.asgi import lifespan


@pytest.fixture
def jobs() -> Holdfast:
    return Holdfast("memory://")


def client_of(application: object) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(application), base_url="http://localhost")  # type: ignore[arg-type]


async def test_the_app_is_open_in_starlettes_lifespan(jobs: Holdfast) -> None:
    async def queues(request: Request) -> PlainTextResponse:
        found: Holdfast = request.app.state.holdfast
        return PlainTextResponse(str(await found.queues()))

    application = Starlette(routes=[Route("/", queues)], lifespan=lifespan(jobs))
    async with application.router.lifespan_context(application), client_of(application) as client:
        assert jobs.loop is not None
        assert (await client.get("/")).text == "[]"
    assert jobs.loop is None


async def test_a_worker_in_the_web_process_runs_what_views_enqueue(jobs: Holdfast) -> None:
    @jobs.task()
    async def double(number: int) -> int:
        return 2 * number

    async def view(request: Request) -> PlainTextResponse:
        return PlainTextResponse(str(await double.call(int(request.query_params["n"]))))

    application = Starlette(routes=[Route("/", view)], lifespan=lifespan(jobs, worker=True))
    async with application.router.lifespan_context(application), client_of(application) as client:
        assert (await client.get("/?n=21")).text == "42"


async def test_a_worker_of_ones_own_stops_with_the_lifespan(jobs: Holdfast) -> None:
    jobs.queue("mail")
    worker = jobs.worker(["mail"], slots=2)
    async with lifespan(jobs, worker=worker)(object()):
        assert worker.running
    assert not worker.running


async def test_a_job_that_does_not_end_is_handed_back_when_the_server_stops(tmp_path: Path) -> None:
    jobs = Holdfast(f"sqlite:///{tmp_path}/jobs.db")
    begun, never = asyncio.Event(), asyncio.Event()

    @jobs.task()
    async def endless() -> None:
        begun.set()
        await never.wait()

    async with jobs:
        async with lifespan(jobs, worker=jobs.worker(drain=0, grace=0.1))(object()):
            handle = await endless.enqueue()
            await begun.wait()
        record = await endless.status(handle.id)
        assert (record.state, record.counters.releases, record.counters.failures) == ("waiting", 1, 0)


async def test_litestar(jobs: Holdfast) -> None:
    @jobs.task()
    async def double(number: int) -> int:
        return 2 * number

    def app_of(state: litestar.datastructures.State) -> Holdfast:
        found: Holdfast = state.holdfast
        return found

    @litestar.get("/{number:int}")
    async def view(number: FromPath[int], queue: NamedDependency[Holdfast]) -> dict[str, object]:
        return {"result": await double.call(number), "queues": [each.name for each in await queue.queues()]}

    application = litestar.Litestar(
        [view],
        lifespan=[lifespan(jobs, worker=True)],
        logging_config=None,  # it would set up the root logger of all tests that follow
        dependencies={"queue": Provide(app_of, sync_to_thread=False)},
    )
    async with AsyncTestClient(application) as client:
        assert (await client.get("/4")).json() == {"result": 8, "queues": ["default"]}
    assert jobs.loop is None
