"""The log over HTTP: pages of it, and live streams that miss nothing."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import servers
from starlette.requests import Request
from starlette.responses import Response
from support import Flaky, eventually
from web_case import API, asking, kind_of, on_port, serving

from holdfast import Holdfast
from holdfast.errors import StoreError
from holdfast.telemetry.recent import recent as recent_module
from holdfast.web import create_app
from holdfast.web.dashboard import patience
from holdfast.web.stream import reader
from holdfast.web.stream import subscriber as subscribers
from holdfast.web.stream.frames import position_of, written
from holdfast.web.stream.live import LiveStream
from holdfast.web.stream.subscriber import Subscriber


class Heard:
    """What one stream has sent so far."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, Any]] = []
        self.last = ""
        self.positions: list[str] = []
        """With each message, where a browser would go on if it were the last."""
        self.ended = False

    def names(self) -> list[str]:
        return [name for name, _ in self.messages]

    def ids(self) -> list[str]:
        return [data["id"] for name, data in self.messages if name == "event"]

    async def take(self, response: httpx.Response) -> None:
        """Read a stream to its end."""
        name, data = "", ""
        with contextlib.suppress(httpx.RemoteProtocolError, httpx.ReadError):
            async for line in response.aiter_lines():
                field, _, value = line.partition(": ")
                if field == "id":
                    self.last = value
                elif field == "event":
                    name = value
                elif field == "data":
                    data = value
                elif not line and name:
                    self.messages.append((name, json.loads(data)))
                    self.positions.append(self.last)
                    name = data = ""
        self.ended = True


@contextlib.asynccontextmanager
async def listening_to(
    address: str, query: str = "", last: str | None = None, wait: bool = True
) -> AsyncIterator[Heard]:
    """A stream is open, and is read in the background."""
    heard = Heard()
    headers = {} if last is None else {"last-event-id": last.encode()}
    async with (
        httpx.AsyncClient(timeout=30) as client,
        client.stream("GET", f"{address}{API}/events/stream{query}", headers=headers) as response,  # type: ignore[arg-type]
    ):
        if response.status_code != 200:
            await response.aread()
            raise AssertionError(response.text)
        assert response.headers["content-type"].startswith("text/event-stream")
        task = asyncio.create_task(heard.take(response))
        try:
            if wait:
                await eventually(lambda: heard.messages or heard.ended)
            yield heard
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_events_are_read_page_by_page(store_url: str) -> None:
    async with serving(store_url) as client:
        forms = [{"queue": f"q{n % 2}", "payload": n, "id": f"id-{n}"} for n in range(7)]
        await client.post("/jobs/bulk", json={"jobs": forms})
        seen: list[str] = []
        after = None
        while True:
            given = {"limit": 3, **({} if after is None else {"after": after})}
            page = (await client.get("/events", params=given)).json()
            seen += [event["id"] for event in page["events"]]
            after = page["position"]
            if not page["events"]:
                break
        assert sorted(seen) == sorted(form["id"] for form in forms)
        one = (await client.get("/events", params={"queue": "q1", "id": "id-3"})).json()
        assert [event["transition"] for event in one["events"]] == ["enqueue"]
        assert kind_of(await client.get("/events", params={"id": "id-3"})) == "bad-parameter"


async def test_a_stream_tells_what_happens_and_is_taken_up_again(store_url: str) -> None:
    app = Holdfast(store_url)
    plain = app.queue("mail ü")
    async with on_port(create_app(app)) as (address, _), app:
        await plain.enqueue(0, job_id="before")
        async with listening_to(address) as heard:
            assert heard.names() == ["hello"]
            for number in range(3):
                await plain.enqueue(number, job_id=f"id-{number}")
            await eventually(lambda: len(heard.ids()) == 3)
            last = heard.last
        await plain.enqueue(3, job_id="missed")
        async with listening_to(address, last=last) as heard:
            assert heard.positions[0] == last, "whoever is cut off after the greeting comes back for the rest"
            await plain.enqueue(4, job_id="later")
            await eventually(lambda: heard.ids() == ["missed", "later"])


async def test_a_stream_is_taken_up_again_by_another_server(store_url: str) -> None:
    app = Holdfast(store_url)
    plain = app.queue("mail ü")
    async with app:
        async with on_port(create_app(store_url)) as (address, _), listening_to(address) as heard:
            await plain.enqueue(0, job_id="first")
            await eventually(lambda: heard.ids() == ["first"])
            last = heard.last
        await plain.enqueue_many(range(2500))
        await plain.enqueue(1, job_id="missed")
        async with on_port(create_app(store_url)) as (address, _), listening_to(address, last=last) as heard:
            await eventually(lambda: "missed" in heard.ids())
            await plain.enqueue(2, job_id="later")
            await eventually(lambda: "later" in heard.ids())
            assert len(heard.ids()) == len(set(heard.ids())) == 2502
            assert heard.ids()[-2:] == ["missed", "later"]


async def test_streams_are_filtered(url: str) -> None:
    app = Holdfast(url)
    async with (
        on_port(create_app(app)) as (address, _),
        app,
        listening_to(address, "?queue=a") as of_queue,
        listening_to(address, "?queue=a&id=two") as of_job,
    ):
        for queue, id in (("a", "one"), ("b", "one"), ("a", "two")):
            await app.queue(queue).enqueue(1, job_id=id)
        await eventually(lambda: of_queue.ids() == ["one", "two"] and of_job.ids() == ["two"])


async def test_a_pulse_counts_and_a_rate_leaves_out(url: str) -> None:
    app = Holdfast(url)
    async with on_port(create_app(app)) as (address, _), app:
        pulse, slow = "?events=false&pulse=true", "?rate=3"
        async with listening_to(address, pulse) as counted, listening_to(address, slow) as some:
            await app.queue("a").enqueue_many(range(50))
            await eventually(lambda: "pulse" in counted.names() and "skipped" in some.names())
            assert counted.ids() == []
            totals = [data["a"]["enqueue"] for name, data in counted.messages if name == "pulse"]
            assert sum(totals) == 50
            skipped = sum(data["events"] for name, data in some.messages if name == "skipped")
            assert (len(some.ids()), skipped) == (3, 47)
        await app.queue("a").enqueue(1, job_id="missed")
        async with listening_to(address, "?events=false&pulse=true", last=counted.last) as again:
            await app.queue("a").enqueue(1)
            await eventually(lambda: "pulse" in again.names())
            assert again.ids() == []


async def test_streams_share_what_is_sent(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MOST_SENT", 10)
    app = Holdfast(url)
    async with on_port(create_app(app)) as (address, _), app, listening_to(address) as one:
        await app.queue("a").enqueue_many(range(100))
        await eventually(lambda: len(one.ids()) == 100, "one stream alone has everything")
        async with listening_to(address) as other:
            await app.queue("a").enqueue_many(range(100))

            def told(heard: Heard) -> int:
                skipped = sum(data["events"] for name, data in heard.messages if name == "skipped")
                return len(heard.ids()) + skipped

            await eventually(lambda: told(other) == 100 and told(one) == 200)
            assert len(other.ids()) < 50


async def test_one_reader_serves_all_streams(url: str) -> None:
    app = Holdfast(url)
    flaky = Flaky(app.store)
    app.store = flaky  # type: ignore[assignment]
    app.client.use(flaky)  # type: ignore[arg-type]
    web = create_app(app)
    async with on_port(web) as (address, _), app, contextlib.AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(listening_to(address)) for _ in range(20)]
        flaky.calls.clear()
        before = web.state.site.stream.turn
        await app.queue("a").enqueue(1, job_id="one")
        await eventually(lambda: all(heard.ids() == ["one"] for heard in streams))
        turns = web.state.site.stream.turn - before
        assert flaky.calls.count("events") == turns
        assert len(web.state.site.stream) == 20
    assert len(web.state.site.stream) == 0


async def test_a_store_that_goes_away_is_told_and_comes_back(url: str) -> None:
    app = Holdfast(url)
    flaky = Flaky(app.store)
    app.store = flaky  # type: ignore[assignment]
    app.client.use(flaky)  # type: ignore[arg-type]
    async with on_port(create_app(app)) as (address, _), app, listening_to(address) as heard:
        flaky.refuse("events", StoreError("the store does not answer"), 3)
        await eventually(lambda: "store_back" in heard.names())
        assert heard.messages[1] == ("store_away", {"detail": "the store does not answer"})
        assert heard.names().count("store_away") == 1
        await app.queue("a").enqueue(1, job_id="one")
        await eventually(lambda: heard.ids() == ["one"])


async def test_a_store_that_is_away_is_a_503(url: str) -> None:
    app = Holdfast(url)
    flaky = Flaky(app.store)
    app.store = flaky  # type: ignore[assignment]
    app.client.use(flaky)  # type: ignore[arg-type]
    async with asking(create_app(app)) as client:
        flaky.refuse("jobs", StoreError("the store does not answer"))
        away = await client.get("/jobs")
        assert (away.status_code, kind_of(away), away.headers["retry-after"]) == (503, "store-away", "2")
        assert (await client.get("/jobs")).status_code == 200
        flaky.refuse("now_ms", StoreError("the store does not answer"))
        ready = await client.get("http://localhost/ready")
        assert (ready.status_code, ready.json()["ready"]) == (503, False)
        assert (await client.get("http://localhost/ready")).status_code == 200


async def test_gaps_and_another_log_are_told(url: str) -> None:
    app = Holdfast(f"{url}?history=100")
    plain = app.queue("a")
    async with on_port(create_app(app)) as (address, _), app:
        await plain.enqueue(1)
        first = (await app.store.events(None, limit=1)).position
        await plain.enqueue_many(range(5000))

        async def trimmed() -> bool:
            await plain.enqueue_many(range(500))
            return (await app.store.events(first, limit=1)).gap > 0

        await eventually(trimmed)
        async with listening_to(address, last=first) as heard:
            await eventually(lambda: heard.messages)
            assert heard.names()[0] == "gap"
        async with listening_to(address, last="0000000000000000:5") as heard:
            assert heard.names()[0] == "reset"
    async with asking(create_app(url)) as client:
        wrong = await client.get("/events/stream", headers={"last-event-id": '{"of": "redis"}'})
        assert (wrong.status_code, wrong.json()["type"]) == (400, "urn:holdfast:problem:bad-position")
        wrong = await client.get("/events", params={"after": '{"of": "redis"}'})
        assert (wrong.status_code, wrong.json()["type"]) == (400, "urn:holdfast:problem:bad-position")


async def test_what_is_no_longer_at_hand_when_a_stream_begins_is_read_from_the_log(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "KEPT", 5)
    app = Holdfast(url)
    plain, web = app.queue("a"), create_app(app)
    async with on_port(web) as (address, _), app, listening_to(address) as heard:
        await plain.enqueue(0, job_id="first")
        await eventually(lambda: heard.ids() == ["first"])
        last = position_of(heard.last)
        site, subscriber = web.state.site, Subscriber(None, None, events=True, pulse=False, rate=None)
        late = LiveStream(site.stream, app.store, site.shown.event, subscriber)
        await late.start(last)
        missed = [f"missed-{number:02}" for number in range(20)]
        for id in missed:
            await plain.enqueue(1, job_id=id)
        await eventually(lambda: len(heard.ids()) == 21)
        assert site.stream.behind(last) is None, "they have fallen out of what is kept"
        found: list[str] = []
        async with asyncio.timeout(20):
            async for data in late.messages():
                sent = [json.loads(line[6:]) for line in data.splitlines() if line.startswith(b"data: ")]
                found += [each["id"] for each in sent if "id" in each]
                if found[-1:] == missed[-1:]:
                    subscriber.end("enough")
        assert found == missed


async def test_a_reader_that_is_too_slow_is_ended() -> None:
    subscriber = Subscriber(None, None, events=True, pulse=False, rate=None)
    for _ in range(6):
        subscriber.put(b"x" * 1024 * 1024)
    assert subscriber.ended == "behind"
    assert len(await subscriber.get(0)) <= subscribers.MOST_BYTES + 1024 * 1024


async def test_streams_and_waits_end_when_the_server_stops(url: str) -> None:
    app = Holdfast(url)
    async with app:
        made = await app.queue("a").enqueue(1)
        async with (
            on_port(create_app(app)) as (address, server),
            listening_to(address) as heard,
            httpx.AsyncClient(timeout=30) as client,
        ):
            where = {"queue": "a", "id": made.id, "wait": 30}
            waiting = asyncio.create_task(client.get(f"{address}{API}/job/result", params=where))
            await eventually(lambda: app.client._waiting._waiters)
            server.should_exit = True
            answer = await waiting
            assert (answer.status_code, kind_of(answer)) == (503, "stopping")
            await eventually(lambda: heard.ended)
            assert heard.messages[-1] == ("end", {"reason": "stopping"})


@pytest.mark.parametrize("position", ["ab12:7", '{"mail":"1-2"}', '{"ü":"1"}', "b64.x", "a\nb"])
def test_a_position_survives_a_line_and_a_header(position: str) -> None:
    text = written(position)
    assert text.isascii()
    assert "\n" not in text
    assert position_of(text) == position


async def test_a_server_that_dies_and_comes_back_is_told_of() -> None:
    binary = servers.valkey_binary() or servers.redis_binary()
    assert binary
    redis = servers.RedisServer(binary)
    try:
        app = Holdfast(redis.url)
        async with (
            on_port(create_app(app)) as (address, _),
            listening_to(address) as heard,
            httpx.AsyncClient(base_url=f"{address}{API}", timeout=30) as client,
        ):
            await asyncio.to_thread(redis.stop, kill=True)
            await eventually(lambda: "store_away" in heard.names())
            away = await client.get("/jobs")
            assert (away.status_code, kind_of(away), away.headers["retry-after"]) == (503, "store-away", "2")
            await asyncio.to_thread(redis.start)
            await eventually(lambda: "store_back" in heard.names())

            async def taken_in() -> bool:
                return (await client.post("/jobs", json={"queue": "q", "payload": 1, "id": "one"})).is_success

            await eventually(taken_in)
            await eventually(lambda: "one" in heard.ids())
    finally:
        redis.close()


async def test_a_server_starts_without_its_store() -> None:
    async with asking(create_app(f"redis://127.0.0.1:{servers.free_port()}")) as client:
        away = await client.get("/queues")
        assert (away.status_code, kind_of(away)) == (503, "store-away")
        assert (await client.get("http://localhost/ready")).status_code == 503
        assert (await client.get("http://localhost/live")).status_code == 200
        page = await client.get("http://localhost/", headers={"accept": "text/html"})
        assert (page.status_code, "<h1>Service Unavailable</h1>" in page.text) == (503, True)


class Silent:
    """A store that is asked and does not answer, as when its machine was cut off; a page may wait for it for ever."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.silent: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        if name in self.silent:
            return lambda *args, **kwargs: asyncio.Event().wait()
        return getattr(self._store, name)


async def test_a_page_says_soon_that_its_store_does_not_answer(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "PATIENCE", 0.01)
    app = Holdfast(url)
    silent = Silent(app.store)
    app.store = silent  # type: ignore[assignment]
    app.client.use(silent)  # type: ignore[arg-type]
    web = create_app(app)
    async with asking(web, {"accept": "text/html"}) as client:
        assert (await client.get("http://localhost/")).status_code == 200
        silent.silent = {"queues", "events", "sessions", "now_ms"}
        web.state.site.glance.forget()
        page = await client.get("http://localhost/workers")
        assert (page.status_code, "has not answered" in page.text) == (503, True)


async def test_a_page_that_takes_long_is_waited_for(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "PATIENCE", 0.01)
    asked = 0

    async def page(request: Request) -> Response:
        await eventually(lambda: asked > 2)
        return Response("here")

    async def now_ms() -> int:
        nonlocal asked
        asked += 1
        return 0

    web = create_app(Holdfast(url))
    async with asking(web):
        monkeypatch.setattr(web.state.site.app.store, "now_ms", now_ms)
        answer = await patience.soon(page)(Request({"type": "http", "app": web, "headers": []}))
        assert answer.body == b"here"


async def test_open_pages_hear_soon_that_their_store_does_not_answer(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    app = Holdfast(url)
    silent = Silent(app.store)
    app.store = silent  # type: ignore[assignment]
    app.client.use(silent)  # type: ignore[arg-type]
    web = create_app(app)
    async with asking(web):
        recent = web.state.site.recent
        await eventually(lambda: recent.has_looked)
        monkeypatch.setattr(recent_module, "SILENT", 0.01)
        silent.silent = {"events"}
        recent.wake()
        await eventually(lambda: recent.state().trouble == "the store has not answered for over 0.01 seconds")
