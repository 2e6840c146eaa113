"""The graph of a flow in a store that has no index for the beginning of an id."""

from __future__ import annotations

from typing import Any

import pytest
from web_case import serving

from holdfast import Holdfast
from holdfast.store.contract import Filter, JobPage
from holdfast.web.dashboard.page import chains


async def test_a_flow_is_drawn_by_walking_where_its_ids_are_not_found_in_a_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(chains, "PATIENCE", -1.0)
    app = Holdfast("memory://")

    @app.task(queue="mail")
    def step(number: int) -> None: ...

    async with serving(app) as client:
        flow = app.flow("order")
        first = flow.add(step.args(1), name="first")
        flow.add(step.args(2), name="second", after=first)
        await flow.start()
        whole, asked = app.store.jobs, 0

        async def short(which: Filter, **more: Any) -> JobPage:
            nonlocal asked
            page = await whole(which, **more)
            if which.id_prefix is None:
                return page
            asked += 1
            return JobPage(jobs=[], cursor="there are more")

        monkeypatch.setattr(app.store, "jobs", short)
        page = await client.get("http://localhost/graph", params={"queue": "mail", "id": "order/first"})
        assert ("2 jobs, and more than are drawn" in page.text, asked) == (True, 1)
