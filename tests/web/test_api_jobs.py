"""Jobs over HTTP: in, awaited, looked at, steered and out, the same on every store."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from support import burst, eventually, working
from web_case import kind_of, serving

from holdfast import Holdfast, Job

ODD = [
    "a/b",
    "..",
    ".",
    "%2F",
    "a%2Fb",
    "ü",
    "a b",
    "a?b#c",
    "a&b=c",
    "+",
    "\u202egnp.exe",
    "<b>",
    "日本",
    "a\\b",
    "'\"",
]


def shop(url: str) -> Holdfast:
    app = Holdfast(url)

    @app.task(queue="mail")
    async def send(to: str, count: int = 1) -> dict[str, Any]:
        if to == "nobody":
            raise ValueError("no such <address>")
        return {"to": to, "count": count}

    return app


async def enqueue(client: httpx.AsyncClient, **form: Any) -> dict[str, Any]:
    response = await client.post("/jobs", json=form)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


async def test_a_job_goes_in_and_its_result_comes_out(store_url: str) -> None:
    app = shop(store_url)
    async with working(app), serving(app) as client:
        answer = await client.post("/jobs?wait=20", json={"task": "send", "kwargs": {"to": "ann", "count": 3}})
        assert (answer.status_code, answer.json()["state"]) == (200, "completed")
        assert answer.json()["result"] == {"to": "ann", "count": 3}
        where = {"queue": "mail", "id": answer.json()["id"]}
        again = (await client.get("/job/result", params=where)).json()
        assert again["result"] == {"to": "ann", "count": 3}
        whole = (await client.get("/job", params=where)).json()
        assert (whole["payload"], whole["truncated"]) == ({"to": "ann", "count": 3}, {})


async def test_a_failure_is_an_answer_and_not_an_error(store_url: str) -> None:
    app = shop(store_url)
    async with working(app), serving(app) as client:
        form = {"task": "send", "args": ["nobody"], "retry": {"failures": 1}}
        answer = await client.post("/jobs?wait=20", json=form)
        assert (answer.status_code, answer.json()["state"]) == (200, "failed")
        assert answer.json()["error"]["message"] == "no such <address>"
        assert "Traceback" in answer.json()["error"]["traceback"]


async def test_what_has_not_ended_in_time_is_202(store_url: str) -> None:
    async with serving(store_url) as client:
        made = await enqueue(client, queue="plain", payload=1)
        where = {"queue": "plain", "id": made["id"]}
        for wait in (0, 0.05):
            answer = await client.get("/job/result", params={**where, "wait": wait})
            assert (answer.status_code, answer.json()["state"]) == (202, "waiting")


async def test_a_task_is_known_by_name_where_its_code_is_not(store_url: str) -> None:
    app = shop(store_url)
    async with working(app), serving(store_url) as client:
        answer = await client.post("/jobs?wait=20", json={"task": "send", "kwargs": {"to": "ann"}})
        assert answer.json()["result"] == {"to": "ann", "count": 1}
        refused = await client.post("/jobs", json={"task": "send", "args": ["ann"]})
        assert (refused.status_code, kind_of(refused)) == (400, "bad-request")
        unknown = await client.post("/jobs", json={"task": "sned", "kwargs": {}})
        assert (unknown.status_code, kind_of(unknown)) == (404, "task-unknown")


async def test_ids_may_hold_anything(store_url: str) -> None:
    async with serving(store_url) as client:
        for id in ODD:
            assert (await enqueue(client, queue="odd/queue ü", payload=id, id=id))["id"] == id
        for id in ODD:
            where = {"queue": "odd/queue ü", "id": id}
            found = await client.get("/job", params=where)
            assert (found.status_code, found.json()["id"], found.json()["payload"]) == (200, id, id)
            assert "\u202e" not in found.text
            assert (await client.post("/job/cancel", params=where)).json()["reply"] == "ok"
            assert (await client.delete("/job", params=where)).json()["reply"] == "ok"
            assert kind_of(await client.get("/job", params=where)) == "job-missing"
        assert kind_of(await client.get("/job", params={"queue": "odd/queue ü", "id": ""})) == "job-missing"
        assert kind_of(await client.get("/job", params={"queue": "q", "id": "\0"})) == "bad-request"
        empty = await client.post("/jobs", json={"queue": "q", "payload": 1, "id": ""})
        assert kind_of(empty) == "bad-request"


async def test_a_list_has_filters_and_cursors(store_url: str) -> None:
    async with serving(store_url) as client:
        for number in range(5):
            await enqueue(client, queue="a", payload=number, id=f"job-{number}", tags=["odd"] if number % 2 else [])
        await enqueue(client, queue="b", payload=0, key="k", delay=100)
        seen: list[str] = []
        page: dict[str, Any] = {"cursor": None}
        while True:
            cursor = {} if page["cursor"] is None else {"cursor": page["cursor"]}
            page = (await client.get("/jobs", params={"queue": "a", "limit": 2, **cursor})).json()
            seen += [job["id"] for job in page["jobs"]]
            if page["cursor"] is None:
                break
        assert seen == [f"job-{number}" for number in (4, 3, 2, 1, 0)]

        async def ids(**which: Any) -> list[str]:
            return [job["id"] for job in (await client.get("/jobs", params=which)).json()["jobs"]]

        assert await ids(tag="odd") == ["job-3", "job-1"]
        assert len(await ids(state="scheduled")) == len(await ids(key="k")) == 1
        assert await ids(id=["job-2", "nope", "job-0"], queue="a") == ["job-2", "job-0"]
        assert await ids(worker="nobody") == []


async def test_filters_that_are_none_are_refused_by_name(store_url: str) -> None:
    async with serving(store_url) as client:
        unknown = await client.get("/jobs?stat=failed")
        assert (unknown.status_code, kind_of(unknown)) == (400, "unknown-parameter")
        assert "state" in unknown.json()["known"]
        for query in ("state=lost", "limit=0", "limit=x", "limit=5000", "queue=a&queue=b", "chain_id=x"):
            found = await client.get(f"/jobs?{query}")
            assert (found.status_code, kind_of(found)) == (400, "bad-parameter"), query
        for cursor in ("of another store", '{"mail":"1-1"}', "-1", "9" * 40, "ü"):
            found = await client.get("/jobs", params={"cursor": cursor})
            assert (found.status_code, kind_of(found)) == (400, "bad-request"), cursor
        for after in ("nonsense", "b64.%%%", '{"mail"'):
            found = await client.get("/events", params={"after": after})
            assert found.status_code == 400, after


async def test_many_jobs_go_in_at_once_or_none_of_them(store_url: str) -> None:
    async with serving(store_url) as client:
        forms = [{"queue": f"q{number % 2}", "payload": number, "id": f"id-{number}"} for number in range(20)]
        answer = (await client.post("/jobs/bulk", json={"jobs": forms})).json()
        assert answer["counts"]["queued"] == 20
        assert [each["id"] for each in answer["jobs"]] == [form["id"] for form in forms]
        wrong = await client.post("/jobs/bulk", json={"jobs": [{"queue": "new", "payload": 1}, {"queue": "new"}]})
        assert (wrong.status_code, wrong.json()["index"]) == (400, 1)
        assert (await client.get("/jobs?queue=new")).json()["jobs"] == []
        twice = (await client.post("/jobs/bulk", json={"jobs": forms[:3]})).json()
        assert twice["counts"]["duplicate"] == 3


async def test_options_of_a_job_are_those_of_python(store_url: str) -> None:
    async with serving(store_url) as client:
        first = await enqueue(client, queue="q", payload=1, dedup={"key": "once"}, priority=7, key="k", tags=["t"])
        again = await enqueue(client, queue="q", payload=2, dedup={"key": "once"})
        assert (again["status"], again["id"]) == ("duplicate", first["id"])
        later = await enqueue(client, queue="q", payload=1, id="later", run_at="2099-01-01T00:00:00Z")
        assert later["state"] == "scheduled"
        changed = await enqueue(client, queue="q", payload=2, id="later", on_conflict="update", delay=3600)
        assert changed["status"] == "updated"
        blocked = await enqueue(client, queue="q", payload=1, blockers=[{"queue": "q", "id": "later"}])
        assert blocked["state"] == "blocked"
        waits = (await client.get("/job/blockers", params={"queue": "q", "id": blocked["id"]})).json()
        assert [(each["id"], each["state"]) for each in waits["blockers"]] == [("later", None)]
        whole = (await client.get("/job", params={"queue": "q", "id": first["id"]})).json()
        assert (whole["priority"], whole["key"], whole["tags"]) == (7, "k", ["t"])


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({}, "give a task with args and kwargs, or a queue with a payload"),
        ({"task": "send", "payload": 1}, "task and payload exclude each other"),
        ({"queue": "q", "payload": 1, "args": [1]}, "args and kwargs are a task's"),
        ({"queue": "q", "payload": 1, "delay": 1, "run_at": "2099-01-01T00:00:00Z"}, "exclude each other"),
        ({"task": "send", "kwargs": {"to": 3}}, "Expected `str`"),
        ({"task": "send", "kwargs": {"whom": "x"}}, "task 'send'"),
        ({"task": "send", "queue": "other"}, "is in queue 'mail'"),
        ({"queue": "q", "payload": 1, "priority": 5000}, "priority=5000"),
        ({"queue": "q", "payload": 1, "prio": 5}, "known are task, queue"),
    ],
)
async def test_what_is_wrong_with_a_job_is_said(url: str, form: dict[str, Any], said: str) -> None:
    async with serving(shop(url)) as client:
        answer = await client.post("/jobs", json=form)
        assert answer.status_code == 400
        assert said in answer.json()["detail"]


def nested(depth: int) -> bytes:
    """Return a list in a list, so many times, as JSON."""
    return b"[" * depth + b"]" * depth


async def test_a_word_that_cannot_be_is_refused_with_those_that_can(url: str) -> None:
    async with serving(url) as client:
        states = "blocked, scheduled, waiting, active, completed, failed, cancelled"
        wrong = await client.get("/jobs", params={"state": "dead"})
        assert wrong.status_code == 400
        assert wrong.json()["detail"].endswith(f"at `$.state`; it can be {states}")
        wrong = await client.post("/operations", json={"action": "cancel", "filter": {"state": "dead"}})
        assert f"at `$.filter.state`; it can be {states}; known are" in wrong.json()["detail"]
        wrong = await client.post("/jobs/bulk", json={"jobs": [{"queue": "q", "payload": 1, "on_conflict": "merge"}]})
        assert "it can be keep, update" in wrong.json()["detail"]


async def test_bodies_that_are_no_json_are_refused(url: str) -> None:
    async with serving(url) as client:
        for body, media, kind in (
            (b"{", "application/json", "bad-body"),
            (b"\xff\xfe", "application/json", "bad-body"),
            (b"[1]", "application/json", "bad-body"),
            (b'{"queue": "q", "payload": 123456789012345678901234567890}', "application/json", "payload-invalid"),
            (b'{"queue": "q", "payload": 1}', "text/plain", "not-json"),
            (b'{"queue": "q", "payload": %s}' % nested(500), "application/json", "payload-invalid"),
            (b'{"queue": "q", "payload": %s}' % nested(100_000), "application/json", "bad-body"),
        ):
            answer = await client.post("/jobs", content=body, headers={"content-type": media})
            assert answer.status_code in (400, 415, 422), answer.text
            assert kind_of(answer) == kind, body


async def test_jobs_are_cancelled_requeued_promoted_and_deleted(store_url: str) -> None:
    app = shop(store_url)
    async with serving(app) as client:
        where = {"queue": "mail", "id": "one"}
        await enqueue(client, task="send", kwargs={"to": "ann"}, id="one", delay=1000)
        assert (await client.post("/job/promote", params=where)).json()["reply"] == "ok"
        refused = await client.post("/job/promote", params=where)
        assert (refused.status_code, kind_of(refused)) == (409, "wrong-state")
        early = await client.post("/job/requeue", params=where)
        assert (early.status_code, kind_of(early)) == (409, "wrong-state")
        cancelled = (await client.post("/job/cancel", params=where, json={"running": "signal"})).json()
        assert (cancelled["reply"], cancelled["state"]) == ("ok", "waiting")
        twice = await client.post("/job/cancel", params=where)
        assert (twice.status_code, kind_of(twice)) == (409, "wrong-state")
        anew = (await client.post("/job/requeue", params=where)).json()["jobs"]
        assert [(job["queue"], job["id"]) for job in anew] == [("mail", "one")]
        assert (await client.put("/job/result-ttl", params=where, json={"ttl": None})).json()["reply"] == "ok"
        await burst(app)
        kept = (await client.get("/job", params=where)).json()
        assert kept["expires_at"] > "2100"
        assert (await client.delete("/job", params=where)).json()["reply"] == "ok"
        for method, path in (("POST", "cancel"), ("POST", "requeue"), ("POST", "promote"), ("DELETE", "")):
            gone = await client.request(method, f"/job/{path}".rstrip("/"), params={"queue": "mail", "id": "no"})
            assert (gone.status_code, kind_of(gone)) == (404, "job-missing"), path


async def test_a_running_job_is_told_to_stop(url: str) -> None:
    app = Holdfast(url)

    @app.task()
    async def endless(job: Job) -> None:
        await job.signal.wait()
        job.signal.check()

    async with working(app), serving(app) as client:
        made = await enqueue(client, task="endless")
        where = {"queue": "default", "id": made["id"]}

        async def runs() -> bool:
            return bool((await client.get("/job", params=where)).json()["state"] == "active")

        await eventually(runs)
        refused = await client.post("/job/cancel", params=where)
        assert (refused.status_code, kind_of(refused)) == (409, "wrong-state")
        assert (await client.post("/job/cancel", params=where, json={"running": "signal"})).json()["signalled"]
        ended = await client.get("/job/result", params={**where, "wait": 20})
        assert ended.json()["state"] == "cancelled"


async def test_a_large_payload_is_shown_in_part_and_downloaded_in_full(store_url: str) -> None:
    app = Holdfast(store_url, max_payload=12_000_000)
    large = {"rows": [{"text": "x" * 1000, "password": "p"} for _ in range(10_000)]}
    async with serving(app) as client:
        await enqueue(client, queue="q", payload=large, id="large")
        where = {"queue": "q", "id": "large"}
        whole = await client.get("/job", params=where)
        assert whole.json()["payload"] is None
        cut = whole.json()["truncated"]["payload"]
        assert cut["bytes"] > 10_000_000
        assert len(whole.content) < 100_000
        assert cut["preview"].startswith('{"rows":[{"text":"xxx')
        assert '"p"' not in cut["preview"]
        data = await client.get("/job/data", params=where)
        assert data.headers["content-disposition"].startswith("attachment")
        assert len(data.json()["rows"]) == 10_000
        assert data.json()["rows"][0]["password"] == "[redacted]"
        none = await client.get("/job/data", params={**where, "part": "result"})
        assert kind_of(none) == "no-data"
