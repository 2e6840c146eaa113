"""Queues, tasks, schedules, workers, chains and many jobs at once over HTTP, the same on every store."""

from __future__ import annotations

from typing import Any

import httpx
from support import burst, eventually, working
from web_case import kind_of, serving

from holdfast import Every, Holdfast, Job


def shop(url: str) -> Holdfast:
    app = Holdfast(url)

    @app.task(queue="mail")
    async def send(to: str) -> str:
        if to == "nobody":
            raise ValueError("no such address")
        return to

    @app.task(queue="steps")
    async def first(job: Job, to: str) -> Any:
        return job.continue_with(send, to)

    return app


async def over(client: httpx.AsyncClient, form: dict[str, Any]) -> dict[str, Any]:
    """Return an operation once it is over."""
    started = await client.post("/operations", json=form)
    assert started.status_code == 202, started.text
    found: dict[str, Any] = started.json()

    async def ended() -> bool:
        found.update((await client.get(f"/operations/{found['id']}")).json())
        return bool(found["state"] != "running")

    await eventually(ended)
    return found


async def test_queues_are_listed_limited_paused_and_reset(store_url: str) -> None:
    async with serving(store_url) as client:
        await client.post("/jobs", json={"queue": "a/b", "payload": 1})
        listed = (await client.get("/queues")).json()
        assert [(each["name"], each["counts"]["waiting"]) for each in listed["queues"]] == [("a/b", 1)]
        where = {"name": "a/b"}
        form = {"set": {"concurrency": 5, "rate": {"count": 3, "per": 2}, "result_ttl": None}}
        changed = (await client.patch("/queue", params=where, json=form)).json()
        assert changed["settings"]["concurrency"] == 5
        assert changed["settings"]["rate"]["count"] == 3
        assert sorted(changed["overrides"]) == ["concurrency", "rate", "result_ttl_ms"]
        cleared = (await client.patch("/queue", params=where, json={"clear": ["rate"]})).json()
        assert cleared["settings"]["rate"] is None
        assert (await client.post("/queue/pause", params=where)).json()["settings"]["paused"] is True
        assert (await client.get("/queue", params=where)).json()["settings"]["paused"] is True
        assert (await client.post("/queue/resume", params=where)).json()["settings"]["paused"] is False
        limited = await client.put("/queue/key-limit", params=where, json={"key": "acme", "concurrency": 2})
        assert limited.json()["key_overrides"] == {"acme": 2}
        reset = (await client.post("/queue/reset", params=where, json={"keys": True})).json()
        assert (reset["overrides"], reset["key_overrides"], reset["settings"]["concurrency"]) == ({}, {}, None)


async def test_a_mistyped_queue_is_not_made(store_url: str) -> None:
    async with serving(store_url) as client:
        for path in ("pause", "resume", "reset"):
            assert kind_of(await client.post(f"/queue/{path}", params={"name": "typo"})) == "queue-missing"
        assert kind_of(await client.get("/queue", params={"name": "typo"})) == "queue-missing"
        meant = await client.post("/queue/pause", params={"name": "new", "create": "true"})
        assert meant.json()["settings"]["paused"] is True
        nothing = await client.patch("/queue", params={"name": "new"}, json={})
        assert kind_of(nothing) == "bad-body"
        wrong = await client.patch("/queue", params={"name": "new"}, json={"set": {"concurrency": 0}})
        assert kind_of(wrong) == "bad-request"


async def test_the_policy_of_a_task_is_adjusted(store_url: str) -> None:
    app = shop(store_url)
    async with working(app), serving(store_url) as client:
        listed = (await client.get("/tasks", params={"queue": "mail"})).json()["tasks"]
        assert [(each["task"], each["failures"]) for each in listed] == [("send", 3)]
        where = {"queue": "mail", "task": "send"}
        form = {"set": {"failures": None, "timeout": 5, "maximum": 60}}
        changed = (await client.patch("/task", params=where, json=form)).json()
        assert (changed["failures"], changed["timeout"], changed["maximum"]) == (None, 5, 60)
        cleared = (await client.patch("/task", params=where, json={"clear": ["failures", "timeout"]})).json()
        assert (cleared["failures"], cleared["timeout"]) == (3, None)
        typo = await client.patch("/task", params={"queue": "mail", "task": "sned"}, json=form)
        assert kind_of(typo) == "task-unknown"


async def test_schedules_are_added_changed_paused_triggered_and_removed(store_url: str) -> None:
    app = shop(store_url)
    app.schedule("declared", Every(3600), app.registry.tasks["send"].args("ann"))
    async with working(app), serving(app) as client:
        form = {
            "name": "night/ly ü",
            "spec": {"type": "cron", "text": "0 3 * * *", "tz": "Europe/Berlin"},
            "call": {"task": "send", "kwargs": {"to": "bob"}, "tags": ["t"]},
            "overlap": "skip",
        }
        added = (await client.post("/schedules", json=form)).json()
        assert (added["queue"], added["payload"], len(added["ticks"])) == ("mail", {"to": "bob"}, 5)
        names = [each["name"] for each in (await client.get("/schedules")).json()["schedules"]]
        assert sorted(names) == ["declared", "night/ly ü"]
        where = {"name": "night/ly ü"}
        changed = await client.patch("/schedule", params=where, json={"spec": {"type": "every", "seconds": 60}})
        assert changed.json()["when"] == "every 60 s"
        named = await client.patch("/schedule", params=where, json={"spec": {"type": "cron", "text": "@hourly"}})
        assert named.json()["when"] == "@hourly UTC"
        assert (await client.post("/schedule/pause", params=where)).json()["paused"] is True
        assert (await client.post("/schedule/resume", params=where)).json()["paused"] is False
        triggered = (await client.post("/schedule/trigger", params=where)).json()
        ended = await client.get("/job/result", params={"queue": "mail", "id": triggered["id"], "wait": 20})
        assert ended.json()["result"] == "bob"
        assert (await client.delete("/schedule", params=where)).json()["removed"] is True
        gone = await client.get("/schedule", params=where)
        assert (gone.status_code, kind_of(gone)) == (404, "schedule-missing")
        assert kind_of(await client.post("/schedules", json={"name": "x"})) == "bad-body"


async def test_workers_are_listed_with_what_they_hold(store_url: str) -> None:
    async with working(shop(store_url)) as running, serving(store_url) as client:
        (found,) = (await client.get("/workers")).json()["workers"]
        assert (found["alive"], found["name"]) == (True, running.worker.name)
        assert (await client.get("/jobs", params={"worker": found["name"]})).json()["jobs"] == []


async def test_a_chain_is_shown_completed_and_deleted(store_url: str) -> None:
    app = shop(store_url)
    async with serving(app) as client:
        await client.post("/jobs", json={"task": "first", "args": ["ann"], "id": "c"})
        waits = {"queue": "steps", "payload": 1, "id": "w", "blockers": [{"queue": "steps", "id": "c"}]}
        await client.post("/jobs", json=waits)
        await burst(app, "steps", "mail")
        where = {"queue": "steps", "id": "c"}
        chain = (await client.get("/chain", params=where)).json()
        assert (chain["state"], chain["result"], chain["position"]) == ("completed", "ann", 1)
        assert [job["position"] for job in chain["jobs"]] == [0, 1]
        listed = (await client.get("/chains", params={"queue": "steps"})).json()
        assert [each["id"] for each in listed["chains"]] == ["c"]
        ended = (await client.get("/job/result", params=where)).json()
        assert (ended["state"], ended["result"]) == ("completed", "ann")
        twice = await client.post("/chain/complete", params=where, json={"result": "other"})
        assert (twice.status_code, kind_of(twice)) == (409, "wrong-state")
        await client.post("/jobs", json={"task": "send", "args": ["late"], "id": "approve", "delay": 1000})
        awaited = {"queue": "steps", "payload": 1, "id": "x", "blockers": [{"queue": "mail", "id": "approve"}]}
        await client.post("/jobs", json=awaited)
        refused = await client.delete("/chain", params={"queue": "mail", "id": "approve"})
        assert (refused.status_code, kind_of(refused)) == (409, "chain-awaited")
        assert [each["id"] for each in refused.json()["waiting"]] == ["x"]
        wrong = await client.post("/chain/complete", params={"queue": "mail", "id": "approve"}, json={"result": 3})
        assert wrong.status_code in (400, 422)
        approved = await client.post(
            "/chain/complete", params={"queue": "mail", "id": "approve"}, json={"result": "yes"}
        )
        assert approved.json()["reply"] == "ok"
        deleted = await client.delete("/chain", params={"queue": "mail", "id": "approve", "cascade": "true"})
        assert deleted.json()["reply"] == "ok"


async def test_many_jobs_are_counted_and_then_requeued(store_url: str) -> None:
    app = shop(store_url)
    async with serving(app) as client:
        form = {"task": "send", "args": ["nobody"], "retry": {"failures": 1}}
        await client.post("/jobs/bulk", json={"jobs": [form] * 450 + [{"task": "send", "args": ["ann"]}] * 3})
        await burst(app, "mail")
        which = {"queue": "mail", "state": "failed"}
        counted = await over(client, {"action": "requeue", "filter": which, "dry_run": True})
        assert (counted["state"], counted["matched"], counted["done"]) == ("done", 450, 0)
        assert len(counted["sample"]) == 10
        some = await over(client, {"action": "requeue", "filter": which, "limit": 30})
        assert (some["matched"], some["done"], some["more"]) == (30, 30, True)
        rest = await over(client, {"action": "requeue", "filter": which})
        assert (rest["matched"], rest["done"], rest["refused"], rest["more"]) == (420, 420, 0, False)
        cancelled = await over(client, {"action": "cancel", "filter": {"queue": "mail", "state": "waiting"}})
        assert (cancelled["matched"], cancelled["done"]) == (450, 450)
        deleted = await over(client, {"action": "delete", "filter": {}, "all": True})
        assert deleted["state"] == "done"
        left = (await client.get("/jobs?limit=1000")).json()["jobs"]
        assert [job for job in left if job["holds_id"]] == []
        ids = [each["action"] for each in (await client.get("/operations")).json()["operations"]]
        assert ids == ["delete", "cancel", "requeue", "requeue", "requeue"]


async def test_many_jobs_by_selection_are_promoted(store_url: str) -> None:
    async with serving(store_url) as client:
        forms = [{"queue": "q", "payload": number, "id": f"id-{number}", "delay": 1000} for number in range(5)]
        await client.post("/jobs/bulk", json={"jobs": forms})
        which = {"queue": "q", "id": ["id-1", "id-3", "gone"]}
        promoted = await over(client, {"action": "promote", "filter": which})
        assert (promoted["matched"], promoted["done"]) == (2, 2)
        again = await over(client, {"action": "promote", "filter": which})
        assert (again["done"], again["refused"]) == (0, 2)


async def test_an_empty_filter_must_be_meant_and_an_operation_can_be_stopped(url: str) -> None:
    async with serving(url) as client:
        empty = await client.post("/operations", json={"action": "delete"})
        assert (empty.status_code, kind_of(empty)) == (400, "empty-filter")
        assert kind_of(await client.post("/operations", json={"action": "explode", "all": True})) == "bad-body"
        assert kind_of(await client.get("/operations/nope")) == "operation-missing"
        await client.post("/jobs/bulk", json={"jobs": [{"queue": "q", "payload": n} for n in range(2000)]})
        started = (await client.post("/operations", json={"action": "delete", "filter": {"queue": "q"}})).json()
        await client.post(f"/operations/{started['id']}/stop")

        async def stopped() -> bool:
            return bool((await client.get(f"/operations/{started['id']}")).json()["state"] == "stopped")

        await eventually(stopped)
        assert (await client.get("/jobs?queue=q")).json()["jobs"] != []


async def test_the_server_says_who_asks_and_where_things_are(url: str) -> None:
    async with serving(url) as client:
        index = (await client.get("http://localhost/api/v1")).json()
        assert (index["identity"]["role"], index["may_change"]) == ("operator", True)
        assert index["links"]["openapi"] == "/api/v1/openapi.json"
