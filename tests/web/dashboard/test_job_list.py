"""The list of jobs: answered in a moment, also where next to nothing matches."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from support import Flaky
from web_case import serving

from holdfast import Holdfast
from holdfast.core.bound import LOOKED_AT_ONCE
from holdfast.web.dashboard.page import jobs as page

PAGE = "http://localhost/jobs"
BEHIND = 3 * LOOKED_AT_ONCE


@asynccontextmanager
async def many_before() -> AsyncIterator[tuple[httpx.AsyncClient, Flaky]]:
    """Two jobs have many others before them; yield a client, and the store of its server."""
    app = Holdfast("memory://")
    flaky = Flaky(app.store)
    app.store = flaky  # type: ignore[assignment]
    app.client.use(flaky)  # type: ignore[arg-type]
    async with serving(app) as client:
        await app.queue("q").enqueue(1, job_id="rare-1", tags=["blue"])
        await app.queue("q").enqueue(1, job_id="rare-10", tags=["blue"])
        await app.queue("q").enqueue_many(range(BEHIND))
        yield client, flaky


async def test_a_filter_that_finds_nothing_in_a_moment_says_so_and_can_be_taken_further(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(page, "PATIENCE", -1.0)
    async with many_before() as (client, flaky):
        flaky.calls.clear()
        found = await client.get(PAGE, params={"tag": "blue"})
        assert "there are older ones" in found.text
        assert ">Look further<" in found.text
        assert (flaky.calls.count("jobs"), flaky.calls.count("count")) == (1, 0)
        monkeypatch.setattr(page, "PATIENCE", 60.0)
        found = await client.get(PAGE, params={"tag": "blue"})
        assert (">rare-1</a>" in found.text, "Look further" in found.text) == (True, False)
        assert flaky.calls.count("jobs") > 2


async def test_a_whole_id_is_found_at_once_and_others_that_begin_with_it_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(page, "PATIENCE", -1.0)
    async with many_before() as (client, _):
        found = await client.get(PAGE, params={"id": "rare-1"})
        assert found.text.count(">rare-1</a>") == 1
        assert ">rare-10</a>" in found.text
        assert ">rare-1</a>" not in (await client.get(PAGE, params={"id": "rare-1", "state": "failed"})).text


async def test_a_page_says_what_it_took_so_that_it_is_not_read_again_too_often() -> None:
    async with serving("memory://") as client:
        assert (await client.get(PAGE)).headers["server-timing"].startswith("page;dur=")
