"""Producer middleware: each job passes it on its way to the store, whoever sends it, and it may change or refuse it."""

from __future__ import annotations

import importlib
import sqlite3
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest
from process_case import every_store, url_of
from spans import Recorder, recording
from support import burst, working

from holdfast import ConfigError, Continued, Every, Holdfast, HookEvent, Job, OutgoingJob, State
from holdfast.store.contract import Answer
from holdfast.testing import ManualClock, drain

tenant: ContextVar[str] = ContextVar("tenant", default="nobody")


def declare(app: Holdfast) -> Any:
    @app.task(queue="mail")
    async def send(job: Job, to: str) -> list[Any]:
        return [job.headers.get("tenant"), job.key, list(job.tags), job.priority]

    return send


@pytest.fixture
def store() -> str:
    return "sqlite"


@pytest.fixture
def stamped(store: str, tmp_path: Path) -> Holdfast:
    """An app whose jobs belong to a tenant, on whatever way they are sent."""
    app = Holdfast(url_of(store, tmp_path))

    @app.producer_middleware
    def stamp(job: OutgoingJob) -> None:
        job.headers["tenant"] = job.key = tenant.get()
        job.tags.append(f"{job.origin}:{job.task}")
        job.priority += 5

    return app


@every_store
async def test_each_way_of_sending_passes_it(stamped: Holdfast) -> None:
    send, tags = declare(stamped), ["caller:send"]
    tenant.set("acme")
    async with working(stamped):
        assert await send.call("ann") == ["acme", "acme", tags, 5]
        handle = await send.options(priority=3, headers={"a": "b"}, tags=["x"]).enqueue("ann")
        assert await handle.result() == ["acme", "acme", ["x", *tags], 8]
        assert (await handle.job()).headers == {"a": "b", "tenant": "acme"}
        await send.enqueue_many(send.options(job_id=f"b{n}").args("ann") for n in range(3))
        assert await send.result("b2") == ["acme", "acme", tags, 5]
        flow = stamped.flow("f")
        flow.add(send.args("bob"), after=flow.add(send.args("ann"), name="first"), name="second")
        await flow.start()
        assert await flow.result("second") == ["acme", "acme", tags, 5]


async def test_plain_payloads_pass_it(stamped: Holdfast) -> None:
    async def take(job: Job, payload: int) -> list[Any]:
        return [job.key, list(job.tags), payload]

    plain = stamped.queue("plain", handler=take)
    tenant.set("acme")
    async with working(stamped):
        assert await plain.call(7) == ["acme", ["caller:None"], 7]
        await plain.enqueue_many([1, 2])
        (one, two) = (await stamped.jobs(queue="plain", tag="caller:None", limit=2)).jobs
        assert (one.key, two.key) == ("acme", "acme")


async def test_a_tick_passes_it_and_one_that_is_refused_is_over(tmp_path: Path, caplog: Any) -> None:
    from holdfast.store.sqlite import SqliteStore

    clock = ManualClock()
    app = Holdfast(store=SqliteStore(f"sqlite:///{tmp_path}/jobs.db", clock=clock))
    send = declare(app)
    refuse: list[bool] = []

    @app.producer_middleware
    def stamp(job: OutgoingJob) -> None:
        if refuse:
            raise PermissionError("no more mail")
        assert job.headers["holdfast-schedule"] == "often"
        job.headers["tenant"], job.key = "cron", job.origin

    app.schedule("often", Every(60), send.args("ann"))
    async with app:
        await drain(app)
        clock.advance(60_000)
        (ran,) = await drain(app)
        assert ran.result[:2] == ["cron", "schedule"]
        handle: Any = await app.schedules.trigger("often")
        assert (await handle.job()).key == "schedule"
        await drain(app)
        refuse.append(True)
        clock.advance(60_000)
        assert await drain(app) == []
        with pytest.raises(PermissionError, match="no more mail"):
            await app.schedules.trigger("often")
        refuse.clear()
        clock.advance(60_000)
        assert len(await drain(app)) == 1
    assert "tick_refused: schedule often of queue mail: producer middleware raised for often/" in caplog.text


async def test_a_continuation_passes_it(stamped: Holdfast) -> None:
    send = declare(stamped)

    @stamped.task
    async def first(job: Job) -> Continued[list[Any]]:
        return job.continue_with(send, "ann")

    @stamped.task
    def first_in_thread(job: Job) -> Continued[list[Any]]:
        return job.continue_with(send, "ann")

    @stamped.task
    async def completes(job: Job) -> Continued[list[Any]]:
        async with job.complete() as tx:
            tx.result = job.continue_with(send, "ann")
        return tx.result

    async with working(stamped):
        for task in (first, first_in_thread, completes):
            assert (await task.call())[2] == ["chain:send"]


async def test_a_continuation_in_a_process_passes_it_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_TEST_URL", url_of("sqlite", tmp_path))
    sys.modules.pop("producer_tasks", None)
    tasks = importlib.import_module("producer_tasks")
    async with working(tasks.app, pool=1):
        assert await tasks.first.call() == "chain "
        assert await tasks.first_in_thread.call() == "chain "


async def test_a_transaction_passes_it(stamped: Holdfast, tmp_path: Path) -> None:
    send = declare(stamped)
    tenant.set("acme")
    async with stamped:
        connection = sqlite3.connect(tmp_path / "jobs.db")
        handle = await send.options(connection=connection).enqueue("ann")
        await send.enqueue_many([send.options(job_id="many").args("ann")], connection=connection)
        connection.commit()
        connection.close()
        assert (await handle.job()).key == "acme"
        assert (await send.status("many")).tags == ("caller:send",)


async def test_one_that_yields_hears_what_became_of_the_job(app: Holdfast) -> None:
    told: list[Any] = []
    send = declare(app)

    @app.producer_middleware
    def outer(job: OutgoingJob) -> Iterator[None]:
        told.append("outer")
        yield
        assert isinstance(job.answer, Answer)
        told.append(job.answer.status)

    @app.producer_middleware
    async def inner(job: OutgoingJob) -> AsyncIterator[None]:
        told.append("inner")
        try:
            yield
        except ConnectionError as error:
            told.append(str(error))  # and it stays an error all the same

    async with app:
        await send.options(job_id="x").enqueue("ann")
        await send.options(job_id="x").enqueue("ann")
        assert told == ["outer", "inner", "queued", "outer", "inner", "duplicate"]

        async def broken(*args: Any) -> Any:
            raise ConnectionError("the store is away")

        app.client.use(_with(app.store, enqueue=broken))
        with pytest.raises(ConnectionError):
            await send.enqueue("ann")
        assert told[-1] == "the store is away"
        app.client.use(app.store)


async def test_one_that_yields_hears_of_a_transaction_too(app: Holdfast, path: Path) -> None:
    told: list[str] = []
    send = declare(app)

    @app.producer_middleware
    def around(job: OutgoingJob) -> Iterator[None]:
        told.append("before")
        yield
        told.append("after")

    async with app:
        connection = sqlite3.connect(path)
        coroutine = send.options(connection=connection).enqueue("ann")
        assert told == ["before", "after"]
        await coroutine
        connection.rollback()
        connection.close()


async def test_it_may_refuse_and_nothing_is_sent(app: Holdfast) -> None:
    send = declare(app)

    @app.producer_middleware
    async def quota(job: OutgoingJob) -> None:
        if job.payload == b'{"to":"bob"}':
            raise PermissionError("bob is over quota")

    async with app:
        with pytest.raises(PermissionError, match="bob is over quota"):
            await send.enqueue("bob")
        with pytest.raises(PermissionError, match="bob is over quota"):
            await send.enqueue_many(send.args(to) for to in ("ann", "bob"))
        assert (await app.jobs()).jobs == []
        await send.enqueue("ann")
        with (
            sqlite3.connect(":memory:") as connection,
            pytest.raises(ConfigError, match=r"producer middleware 'quota' is `async def`, and with connection= a job"),
        ):
            send.options(connection=connection).enqueue("ann")
        connection.close()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda job: job.headers.update({"holdfast-x": "1"}), "names that begin with holdfast- are Holdfast's own"),
        (lambda job: job.headers.update({"n": 1}), "a dict of strings"),
        (lambda job: job.tags.append(5), "tags=5"),
        (lambda job: setattr(job, "key", 5), "key=5"),
        (lambda job: setattr(job, "priority", 5000), "priority=5000"),
    ],
)
async def test_it_cannot_give_a_job_what_none_can_have(
    app: Holdfast, change: Callable[[OutgoingJob], object], message: str
) -> None:
    send = declare(app)
    app.producer_middleware(change)
    async with app:
        with pytest.raises(ConfigError, match=message):
            await send.enqueue("ann")
        assert (await app.jobs()).jobs == []


def test_it_is_a_function(app: Holdfast) -> None:
    with pytest.raises(ConfigError, match=r"@app\.producer_middleware takes a function of \(job\), not 5"):
        app.producer_middleware(5)  # type: ignore[arg-type]


async def test_it_may_give_the_key_that_a_job_must_have(app: Holdfast) -> None:
    @app.task(key_required=True)
    async def send(to: str) -> None: ...

    plain = app.queue("plain", key_required=True)
    keys = ["acme", None]

    @app.producer_middleware
    def stamp(job: OutgoingJob) -> None:
        job.key = keys[0]

    async with app:
        assert (await (await send.enqueue("ann")).job()).key == "acme"
        assert (await (await plain.enqueue(5)).job()).key == "acme"
        keys.reverse()
        with pytest.raises(ConfigError, match=r"task 'send': its jobs must have a key \(key_required\)"):
            await send.enqueue("ann")
        with pytest.raises(ConfigError, match=r"queue 'plain': its jobs must have a key"):
            await plain.enqueue(5)


async def test_traces_are_stamped_beside_it(app: Holdfast) -> None:
    send = declare(app)

    @app.producer_middleware
    def stamp(job: OutgoingJob) -> None:
        assert "traceparent" not in job.headers
        job.headers["tenant"] = "acme"
        if job.payload == b'{"to":"own"}':
            job.headers["traceparent"] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

    with recording() as recorder:
        async with app:
            headers = (await (await send.enqueue("ann")).job()).headers
            own = (await (await send.enqueue("own")).job()).headers
    assert isinstance(recorder, Recorder)
    assert headers.keys() == {"tenant", "traceparent"}
    assert own["traceparent"].startswith("00-0af7651916cd43dd8448eb211c80319c-")
    assert len(recorder.named("send mail")) == 2


async def test_hooks_know_the_task_of_what_is_enqueued(app: Holdfast) -> None:
    send = declare(app)
    heard: list[HookEvent] = []
    for name in ("enqueue", "update", "requeue", "schedule_fired"):
        app.on(name)(heard.append)
    async with app:
        await send.options(job_id="x", delay=60).enqueue("ann")
        await send.options(job_id="x", delay=90, on_conflict="update").enqueue("ann")
        await send.enqueue_many([send.args("bob")])
        await app.queue("plain").enqueue(5)
        await app.schedules.add("soon", Every(3600), send.args("ann"))
        await app.schedules.trigger("soon")
        await burst(app, "mail")
        assert (await send.status("x")).state is State.SCHEDULED
    assert [(each.name, each.task) for each in heard] == [
        ("enqueue", "send"), ("update", "send"), ("enqueue", "send"), ("enqueue", None), ("enqueue", "send"),
    ]  # fmt: skip


def _with(store: Any, **methods: Any) -> Any:
    class Changed:
        def __getattr__(self, name: str) -> Any:
            return methods.get(name) or getattr(store, name)

    return Changed()
