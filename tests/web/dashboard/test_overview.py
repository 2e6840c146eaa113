"""The overview says what there is in words that fit."""

from __future__ import annotations

from web_case import serving


async def test_a_store_without_workers_says_that_nobody_runs_jobs(url: str) -> None:
    async with serving(url) as client:
        page = (await client.get("http://localhost/")).text
        assert "nobody runs jobs" in page
        assert "all heard of lately" not in page
