"""The app in FastAPI: as a dependency, with a worker, and with the dashboard below a path."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from fastapi import FastAPI

from holdfast import ConfigError, Holdfast
from holdfast.contrib.fastapi import HoldfastDep, current_holdfast, lifespan, mount_dashboard
from holdfast.testing import isolate
from holdfast.web import WebSettings

PAGE = {"accept": "text/html"}


@pytest.fixture
def jobs() -> Holdfast:
    return Holdfast("memory://")


@asynccontextmanager
async def serving(api: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(api)
    async with (
        api.router.lifespan_context(api),
        httpx.AsyncClient(transport=transport, base_url="http://localhost") as client,
    ):
        yield client


async def test_a_view_gets_the_app_as_a_dependency(jobs: Holdfast) -> None:
    api = FastAPI(lifespan=lifespan(jobs, worker=True))

    @jobs.task()
    async def greet(name: str) -> str:
        return f"hello {name}"

    @api.get("/{name}")
    async def view(name: str, app: HoldfastDep) -> dict[str, object]:
        return {"said": await greet.call(name), "same": app is jobs}

    async with serving(api) as client:
        assert (await client.get("/ann")).json() == {"said": "hello ann", "same": True}


async def test_the_dependency_can_be_replaced(jobs: Holdfast) -> None:
    api, other = FastAPI(lifespan=lifespan(jobs)), Holdfast("memory://?namespace=other")
    api.dependency_overrides[current_holdfast] = lambda: other

    @api.get("/")
    async def view(app: HoldfastDep) -> bool:
        return app is other

    async with serving(api) as client:
        assert (await client.get("/")).json() is True


async def test_an_application_without_the_lifespan_is_told_so(jobs: Holdfast) -> None:
    api = FastAPI()

    @api.get("/")
    async def view(app: HoldfastDep) -> None: ...

    async with serving(api) as client:
        with pytest.raises(ConfigError, match=r"FastAPI\(lifespan=lifespan\(jobs\)\)"):
            await client.get("/")


async def test_the_dashboard_opens_and_closes_with_an_application_that_has_a_lifespan_of_its_own(
    jobs: Holdfast,
) -> None:
    seen = []

    @asynccontextmanager
    async def own(_: FastAPI) -> AsyncIterator[dict[str, str]]:
        seen.append("open")
        yield {"mood": "good"}
        seen.append("closed")

    api = FastAPI(lifespan=own)
    web = mount_dashboard(api, jobs, "/jobs/", settings=WebSettings(read_only=True))

    @api.get("/")
    async def view(app: HoldfastDep) -> list[str]:
        return [each.name for each in await app.queues()]

    async with serving(api) as client:
        assert "Holdfast" in (await client.get("/jobs/", headers=PAGE)).text
        assert (await client.get("/")).json() == []
        refused = await client.post("/jobs/api/v1/jobs", json={"queue": "q", "payload": 1})
        assert refused.status_code == 403
    assert seen == ["open", "closed"]
    assert web.state.site.stopping
    assert jobs.loop is None


async def test_a_dashboard_may_start_again_on_another_store(jobs: Holdfast) -> None:
    api = FastAPI(lifespan=lifespan(jobs))
    mount_dashboard(api, jobs)
    for name in ("one", "two"):
        with isolate(jobs):
            async with serving(api) as client:
                made = await client.post("/jobs/api/v1/jobs", json={"queue": name, "payload": 1})
                assert made.status_code == 200
                queues = (await client.get("/jobs/api/v1/queues")).json()
                assert [each["name"] for each in queues["queues"]] == [name]


@pytest.mark.parametrize("path", ["", "/", "jobs"])
def test_a_path_that_is_none(jobs: Holdfast, path: str) -> None:
    with pytest.raises(ConfigError, match="a path below which the dashboard is found"):
        mount_dashboard(FastAPI(), jobs, path)
