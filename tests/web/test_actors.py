"""Every route that changes something does it in the name of its caller: the event log says who it was."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest
from support import burst, eventually, working
from web_case import OPERATOR, TOKEN, asking

from holdfast import Holdfast, Retry
from holdfast.core.action import OPERATE
from holdfast.web import api, create_app
from holdfast.web.auth.tokens import access_token
from holdfast.web.dashboard.actions import ACTIONS

ANN = "ann"
Q: dict[str, str] = {"name": "q"}
ONE = {"queue": "q", "id": "one"}
LATER = {"queue": "q", "payload": 1, "id": "one", "delay": 1000}
NIGHTLY = {"name": "nightly", "spec": {"type": "every", "seconds": 60}, "call": {"queue": "q", "payload": 1}}
QUIET = {"enqueue_job", "enqueue_jobs", "stop_operation"}
"""Producing is nobody's action, and to stop an operation changes no job."""


async def over(client: httpx.AsyncClient, action: str, which: dict[str, Any]) -> None:
    started = (await client.post("/operations", json={"action": action, "filter": which})).json()

    async def done() -> bool:
        return bool((await client.get(f"/operations/{started['id']}")).json()["state"] == "done")

    await eventually(done)


CASES: dict[str, tuple[list[dict[str, Any]], str, Callable[[httpx.AsyncClient], Awaitable[Any]]]] = {
    "cancel_job": ([LATER], "cancel", lambda c: c.post("/job/cancel", params=ONE)),
    "promote_job": ([LATER], "promote", lambda c: c.post("/job/promote", params=ONE)),
    "delete_job": ([LATER], "delete", lambda c: c.delete("/job", params=ONE)),
    "complete_chain": ([LATER], "complete", lambda c: c.post("/chain/complete", params=ONE, json={"result": 1})),
    "delete_chain": ([LATER], "delete", lambda c: c.delete("/chain", params=ONE)),
    "configure_queue": ([LATER], "configure", lambda c: c.patch("/queue", params=Q, json={"set": {"priority": 3}})),
    "pause_queue": ([LATER], "configure", lambda c: c.post("/queue/pause", params=Q)),
    "resume_queue": ([LATER], "configure", lambda c: c.post("/queue/resume", params=Q)),
    "limit_key": (
        [LATER],
        "limit_key",
        lambda c: c.put("/queue/key-limit", params=Q, json={"key": "k", "concurrency": 2}),
    ),
    "adjust_task": (
        [LATER],
        "adjust",
        lambda c: c.patch("/task", params={"queue": "q", "task": "t", "create": "true"}, json={"set": {"failures": 2}}),
    ),
    "keep_result": ([LATER], "set_result_ttl", lambda c: c.put("/job/result-ttl", params=ONE, json={"ttl": 60})),
    "add_schedule": ([LATER], "schedule", lambda c: c.post("/schedules", json=NIGHTLY)),
    "start_operation": ([LATER], "promote", lambda c: over(c, "promote", {"queue": "q"})),
}
"""By the name of each route: the jobs before, the event after, and the request between."""
OTHERS = {
    "requeue_job", "reset_queue", "change_schedule", "pause_schedule", "resume_schedule", "trigger_schedule",
    "remove_schedule", "stop_worker",
}  # fmt: skip
"""Those that need more before them, below."""


def test_every_route_that_changes_something_is_here() -> None:
    changing = {endpoint.name for endpoint in api.ENDPOINTS if endpoint.changes}
    assert changing == {*CASES, *OTHERS, *QUIET}


async def actors(app: Holdfast, name: str) -> list[str | None]:
    """Return who did each of these: transitions, or what is none."""
    events = [event async for event in app.events()]
    return [each.actor for each in events if (each.cause if each.transition == OPERATE else each.transition) == name]


def served(app: Holdfast) -> Any:
    return asking(create_app(app, tokens=[access_token(TOKEN, "operator", ANN)]), OPERATOR)


@pytest.mark.parametrize("name", sorted(CASES))
async def test_an_action_has_its_actor(url: str, name: str) -> None:
    jobs, transition, ask = CASES[name]
    app = Holdfast(url)
    async with served(app) as client:
        await client.post("/jobs/bulk", json={"jobs": jobs})
        answer = await ask(client)
        assert answer is None or answer.is_success, answer.text
        assert await actors(app, transition) == [ANN]


async def test_operations_have_an_actor_for_each_job(store_url: str) -> None:
    app = Holdfast(store_url)
    async with served(app) as client:
        for action, transition in (("cancel", "cancel"), ("requeue", "requeue"), ("delete", "delete")):
            if action == "cancel":
                await client.post("/jobs/bulk", json={"jobs": [{"queue": "q", "payload": n} for n in range(3)]})
            await over(client, action, {"queue": "q"} if action != "requeue" else {"queue": "q", "state": "cancelled"})
            assert await actors(app, transition) == [ANN] * 3


async def test_a_requeue_a_reset_and_an_ended_worker_have_actors(store_url: str) -> None:
    app = Holdfast(store_url)

    @app.task(queue="q", retry=Retry(failures=1))
    async def bad() -> None:
        raise ValueError("no")

    async with served(app) as client:
        await client.post("/jobs", json={"task": "bad", "id": "one"})
        await burst(app, "q")
        assert (await client.post("/job/requeue", params=ONE)).is_success
        assert await actors(app, "requeue") == [ANN]
        await client.patch("/queue", params=Q, json={"set": {"priority": 3}})
        assert (await client.post("/queue/reset", params=Q)).is_success
        assert await actors(app, "configure") == [ANN, ANN]
        async with working(app) as running:
            told = await client.post("/worker/stop", params={"worker": running.worker.name})
            assert told.is_success, told.text
            assert await actors(app, "command") == [ANN]


async def test_changes_of_schedules_have_actors(store_url: str) -> None:
    app = Holdfast(store_url)
    async with served(app) as client:
        where = {"name": "nightly"}
        assert (await client.post("/schedules", json=NIGHTLY)).is_success
        assert (await client.patch("/schedule", params=where, json={"limit": 3})).is_success
        for word in ("pause", "resume", "trigger"):
            assert (await client.post(f"/schedule/{word}", params=where)).is_success
        assert (await client.delete("/schedule", params=where)).is_success
        found = await actors(app, "schedule")
        assert len(found) >= 5
        assert set(found) == {ANN}


async def test_what_nobody_asked_for_has_no_actor(url: str) -> None:
    app = Holdfast(url)
    async with served(app) as client:
        await client.post("/jobs", json={"queue": "q", "payload": 1})
        assert await actors(app, "enqueue") == [None]


async def test_forms_of_the_pages_have_the_same_actor(url: str) -> None:
    app = Holdfast(url)
    async with served(app) as client:
        await client.post("/jobs", json=LATER)
        assert "queue-pause" in ACTIONS
        answer = await client.post("http://localhost/do/queue-pause", data={"queue": "q"})
        assert answer.status_code == 303, answer.text
        assert await actors(app, "configure") == [ANN]
