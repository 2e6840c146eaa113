"""What is looked at over HTTP: counts, keys, layers, measures, runs, dependants, flows and what happened lately."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from support import burst, eventually, working
from web_case import kind_of, serving

from holdfast import Holdfast, Retry


def shop(url: str) -> Holdfast:
    app = Holdfast(url, version=7)

    @app.task(queue="mail", retry=Retry(failures=1))
    async def send(to: str) -> str:
        if to == "nobody":
            raise ValueError("no such address")
        return to

    return app


async def test_jobs_are_counted_by_every_filter(store_url: str) -> None:
    app = shop(store_url)
    async with serving(app) as client:
        calls: list[dict[str, Any]] = [{"task": "send", "args": ["nobody"], "id": f"bad-{n}"} for n in range(3)]
        calls += [{"task": "send", "args": ["ann"], "tags": ["blue"], "key": "k", "result_ttl": 1000}]
        await client.post("/jobs/bulk", json={"jobs": calls})
        await burst(app, "mail")
        failed = (await client.get("/jobs", params={"state": "failed"})).json()["jobs"]
        signature = failed[0]["error"]["signature"]
        now = datetime.now(UTC)
        for which, number in (
            ({}, 4),
            ({"queue": "mail", "state": "failed"}, 3),
            ({"tag": "blue"}, 1),
            ({"key": "k"}, 1),
            ({"id_prefix": "bad-"}, 3),
            ({"signature": signature}, 3),
            ({"enqueued_after": (now - timedelta(hours=1)).isoformat()}, 4),
            ({"enqueued_before": (now - timedelta(hours=1)).isoformat()}, 0),
            ({"started_before": (now - timedelta(hours=1)).isoformat()}, 0),
            ({"finished_after": (now - timedelta(hours=1)).isoformat()}, 4),
        ):
            counted = (await client.get("/jobs/count", params=which)).json()
            assert counted == {"number": number, "more": False}, which
            listed = (await client.get("/jobs", params=which)).json()
            assert len(listed["jobs"]) == number, which
        some = (await client.get("/jobs/count", params={"id_prefix": "bad-", "most": 2})).json()
        assert some == {"number": 2, "more": True}
        assert kind_of(await client.get("/jobs/count", params={"worker": "w"})) == "unknown-parameter"
        naive = await client.get("/jobs/count", params={"enqueued_after": "2026-01-01T00:00:00"})
        assert kind_of(naive) == "bad-request"


async def test_operations_take_the_same_filters(store_url: str) -> None:
    app = shop(store_url)
    async with serving(app) as client:
        calls = [{"task": "send", "args": ["nobody"], "id": f"bad-{n}", "tags": ["t"]} for n in range(3)]
        await client.post("/jobs/bulk", json={"jobs": calls})
        await burst(app, "mail")
        failed = (await client.get("/jobs", params={"state": "failed"})).json()["jobs"]
        before = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
        for which in (
            {"signature": failed[0]["error"]["signature"]},
            {"tag": "t"},
            {"id_prefix": "bad-"},
            {"enqueued_before": before},
        ):
            started = (
                await client.post("/operations", json={"action": "requeue", "filter": which, "dry_run": True})
            ).json()

            async def over(id: str = started["id"]) -> bool:
                found = (await client.get(f"/operations/{id}")).json()
                return bool(found["state"] == "done" and found["matched"] == 3)

            await eventually(over)


async def test_keys_layers_and_measures_of_queues(store_url: str) -> None:
    app = shop(store_url)
    async with working(app), serving(app) as client:
        where = {"name": "slow"}
        await client.post("/queue/pause", params={**where, "create": "true"})
        calls = [{"queue": "slow", "payload": n, "key": f"key {n % 2}"} for n in range(5)]
        await client.post("/jobs/bulk", json={"jobs": calls})
        await client.put("/queue/key-limit", params=where, json={"key": "key 1", "concurrency": 4})
        keys = (await client.get("/queue/keys", params={**where, "order": "name", "limit": 10})).json()["keys"]
        assert [(each["key"], each["waiting"], each["own_limit"]) for each in keys] == [
            ("key 0", 3, False), ("key 1", 2, True),
        ]  # fmt: skip
        assert kind_of(await client.get("/queue/keys", params={"name": "typo"})) == "queue-missing"
        assert kind_of(await client.get("/queue/keys", params={**where, "order": "odd"})) == "bad-parameter"

        await client.patch("/task", params={"queue": "mail", "task": "send"}, json={"set": {"failures": 9}})
        await client.patch("/queue", params={"name": "mail"}, json={"set": {"concurrency": 3}})
        layers = (await client.get("/queue/layers", params={"name": "mail"})).json()
        assert layers["operator"] == {"concurrency": 3}
        assert layers["tasks"]["send"]["version"] == 7
        assert layers["tasks"]["send"]["policy"]["retry"]["failures"] == 1
        assert layers["adjusted"] == {"send": {"failures": 9}}
        assert kind_of(await client.get("/queue/layers", params={"name": "typo"})) == "queue-missing"

        measured = (await client.get("/measure")).json()
        counts = {each["name"]: each["counts"]["waiting"] for each in measured["queues"]}
        assert counts["slow"] == 5
        assert measured["log"]["events"] > 0


async def test_runs_and_dependants_of_a_job(store_url: str) -> None:
    app = shop(store_url)
    async with serving(app) as client:
        where = {"queue": "mail", "id": "a/b"}
        await client.post("/jobs", json={"task": "send", "args": ["nobody"], "id": "a/b"})
        await burst(app, "mail")
        await client.post("/job/requeue", params=where)
        runs = (await client.get("/job/runs", params=where)).json()["jobs"]
        assert [run["state"] for run in runs] == ["waiting", "failed"]
        waits = {"queue": "q", "payload": 1, "id": "w", "blockers": [{"queue": "mail", "id": "a/b"}]}
        await client.post("/jobs", json=waits)
        found = (await client.get("/job/dependants", params=where)).json()
        assert ([each["id"] for each in found["jobs"]], found["count"]) == (["w"], 1)
        for path in ("runs", "dependants"):
            assert kind_of(await client.get(f"/job/{path}", params={"queue": "mail", "id": "no"})) == "job-missing"


async def test_a_flow_is_shown_with_the_states_of_its_jobs(store_url: str) -> None:
    app = shop(store_url)
    async with serving(app) as client:
        flow = app.flow("order 7")
        one = flow.add(app.registry.tasks["send"].args("ann"), name="pay")
        flow.add(app.registry.tasks["send"].args("nobody"), name="pack", after=one)
        await flow.start()
        found = (await client.get("/flow", params={"id": "order 7"})).json()
        assert [(job["name"], job["state"]) for job in found["jobs"]] == [("pack", "blocked"), ("pay", "waiting")]
        assert (found["over"], found["more"]) == (False, False)
        await burst(app, "mail")
        found = (await client.get("/flow", params={"id": "order 7"})).json()
        assert (found["counts"], found["over"]) == ({"completed": 1, "failed": 1}, True)
        assert kind_of(await client.get("/flow", params={"id": "none"})) == "flow-missing"
        assert kind_of(await client.get("/flow", params={"id": "a/b"})) == "bad-parameter"


async def test_a_worker_is_told_to_end(store_url: str) -> None:
    async with working(shop(store_url)) as running, serving(store_url) as client:
        name = running.worker.name
        assert kind_of(await client.post("/worker/stop", params={"worker": "typo"})) == "worker-missing"
        told = (await client.post("/worker/stop", params={"worker": name}, json={"drain": False})).json()
        assert len(told["sessions"]) == 1

        async def gone() -> bool:
            return not [each for each in (await client.get("/workers")).json()["workers"] if each["alive"]]

        await eventually(gone)


async def test_what_happened_lately_is_told(store_url: str) -> None:
    app = shop(store_url)
    async with serving(app) as client:
        calls = [{"task": "send", "args": [to]} for to in ("ann", "bob", "nobody")]
        await client.post("/jobs/bulk", json={"jobs": calls})
        await burst(app, "mail")
        await client.post("/queue/pause", params={"name": "mail"})
        await client.post("/jobs", json=calls[0])

        async def followed() -> bool:
            found = (await client.get("/recent", params={"seconds": 300})).json()
            return bool(
                found["all"]["completed"] == 2 and found["all"]["failed"] == 1 and found["all"]["enqueued"] == 4
            )

        await eventually(followed)
        found = (await client.get("/recent")).json()
        assert found["queues"]["mail"]["completed"] == 2
        assert [(each["task"], each["traffic"]["completed"]) for each in found["tasks"]] == [("send", 2)]
        (failure,) = (await client.get("/recent/failures", params={"queue": "mail"})).json()["failures"]
        assert (failure["type"], failure["failed"]) == ("ValueError", 1)
        assert (await client.get("/recent/failures", params={"queue": "other"})).json()["failures"] == []
        chart = (await client.get("/recent/chart", params={"queue": "mail"})).json()
        assert (len(chart["completed"]), sum(chart["completed"])) == (300, 2)
        by_task = (await client.get("/recent/chart", params={"queue": "mail", "task": "send"})).json()
        assert (by_task["step_ms"], sum(by_task["completed"])) == (60_000, 2)
        assert kind_of(await client.get("/recent/chart", params={"task": "send"})) == "bad-parameter"
        depth = (await client.get("/recent/depth", params={"queue": "mail"})).json()
        assert len(depth["waiting"]) == 180
        concerns = (await client.get("/recent/attention")).json()["attention"]
        assert [(each["kind"], each["queue"]) for each in concerns] == [("paused", "mail")]
