"""Producing, waiting and inspecting, on a real file."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from support import burst, eventually, transitions, working

from holdfast import (
    Call,
    ConfigError,
    Dedup,
    EnqueueCounts,
    Holdfast,
    JobCancelled,
    JobFailed,
    JobMissing,
    JobTimeout,
    PayloadError,
    Permanent,
    Reply,
    Retry,
    State,
    StoreClosed,
    StoreError,
    UnknownScheme,
)
from holdfast.client import Client


@pytest.fixture
def tasks(app: Holdfast) -> dict[str, Any]:
    @app.task()
    async def add(a: int, b: int = 0) -> int:
        return a + b

    @app.task()
    async def fail(text: str) -> None:
        raise Permanent(text)

    @app.task(queue="other")
    async def other(n: int) -> int:
        return -n

    @app.task()
    async def anything(payload: dict) -> None: ...  # type: ignore[type-arg]

    return {"add": add, "fail": fail, "other": other, "anything": anything}


# --- enqueue, status, result


async def test_an_enqueued_job_waits_in_the_store(app: Holdfast, tasks: dict[str, Any]) -> None:
    async with app:
        handle = await tasks["add"].enqueue(1, b=2)
        job = await handle.job()
    assert handle.status == "queued"
    assert handle.state is State.WAITING
    assert (job.queue, job.id, job.run, job.task, job.state) == ("default", handle.id, handle.run, "add", "waiting")
    assert job.payload == b'{"a":1,"b":2}'
    assert job.counters.attempts == 0


async def test_what_is_enqueued_survives_closing_and_is_seen_by_another_app(
    app: Holdfast, url: str, tasks: dict[str, Any]
) -> None:
    async with app:
        handle = await tasks["add"].enqueue(1)
    async with Holdfast(url) as another:
        assert (await another.status("default", handle.id)).state is State.WAITING


async def test_options_do_not_change_the_task_that_they_were_asked_of(app: Holdfast, tasks: dict[str, Any]) -> None:
    add = tasks["add"]
    special = add.options(job_id="x", priority=7, key="ann", headers={"trace": "1"})
    async with app:
        await special.enqueue(1)
        plain = await add.enqueue(1)
        job = await add.status("x")
        other = await add.status(plain.id)
    assert (job.priority, job.key, job.headers) == (7, "ann", {"trace": "1"})
    assert (other.priority, other.key, other.headers) == (0, None, {})


async def test_options_add_up(app: Holdfast, tasks: dict[str, Any]) -> None:
    async with app:
        handle = await tasks["add"].options(job_id="x").options(priority=3).enqueue(1)
        job = await handle.job()
    assert (job.id, job.priority) == ("x", 3)


async def test_delay_and_run_at_schedule_a_job(app: Holdfast, tasks: dict[str, Any]) -> None:
    at = datetime.now(UTC) + timedelta(hours=1)
    async with app:
        delayed = await (await tasks["add"].options(delay=60).enqueue(1)).job()
        later = await (await tasks["add"].options(run_at=at).enqueue(1)).job()
        by_delta = await (await tasks["add"].options(delay=timedelta(minutes=1)).enqueue(1)).job()
    assert delayed.state is later.state is by_delta.state is State.SCHEDULED
    assert delayed.run_at_ms - delayed.enqueued_at_ms == 60_000 == by_delta.run_at_ms - by_delta.enqueued_at_ms
    assert later.run_at_ms == round(at.timestamp() * 1000)


async def test_a_run_at_in_the_past_is_now(app: Holdfast, tasks: dict[str, Any]) -> None:
    async with app:
        job = await (await tasks["add"].options(run_at=datetime(2001, 1, 1, tzinfo=UTC)).enqueue(1)).job()
    assert job.state is State.WAITING
    assert job.run_at_ms == job.enqueued_at_ms


async def test_a_second_job_with_the_same_id_is_a_duplicate(app: Holdfast, tasks: dict[str, Any]) -> None:
    add = tasks["add"].options(job_id="x")
    async with app:
        first = await add.enqueue(1)
        second = await add.enqueue(2)
        job = await second.job()
    assert (first.status, second.status) == ("queued", "duplicate")
    assert (second.run, second.state) == (first.run, State.WAITING)
    assert job.payload == b'{"a":1}'


async def test_update_replaces_the_payload_of_a_waiting_job(app: Holdfast, tasks: dict[str, Any]) -> None:
    add = tasks["add"].options(job_id="x", on_conflict="update")
    async with app:
        await add.enqueue(1)
        second = await add.enqueue(2)
        assert second.status == "updated"
        await burst(app, "default")
        assert await second.result() == 2


async def test_a_completed_id_answers_from_the_cache(app: Holdfast, tasks: dict[str, Any]) -> None:
    add = tasks["add"].options(job_id="x")
    async with app:
        await add.enqueue(1, 2)
        await burst(app, "default")
        again = await add.enqueue(50)
        assert (again.status, again.state) == ("completed", State.COMPLETED)
        assert await again.result() == 3
        assert await tasks["add"].result("x") == 3


async def test_a_failed_id_is_kept_unless_it_is_to_be_requeued(app: Holdfast, tasks: dict[str, Any]) -> None:
    fail = tasks["fail"].options(job_id="x")
    async with app:
        first = await fail.enqueue("no")
        await burst(app, "default")
        kept = await fail.enqueue("no")
        assert (kept.status, kept.state, kept.run) == ("duplicate", State.FAILED, first.run)
        anew = await fail.options(on_failed="requeue").enqueue("no")
        assert (anew.status, anew.state) == ("requeued", State.WAITING)
        assert anew.run > first.run


async def test_dedup_answers_with_the_job_that_is_there(app: Holdfast, tasks: dict[str, Any]) -> None:
    async with app:
        first = await tasks["add"].options(dedup=Dedup("k")).enqueue(1)
        second = await tasks["add"].options(dedup=Dedup("k"), job_id="mine").enqueue(2)
        other = await tasks["add"].options(dedup=Dedup("l")).enqueue(3)
    assert (second.status, second.id) == ("duplicate", first.id)
    assert other.status == "queued"


async def test_a_job_that_is_not_there_is_missing(app: Holdfast, tasks: dict[str, Any]) -> None:
    async with app:
        for ask in (tasks["add"].status("x"), tasks["add"].result("x"), app.status("default", "x")):
            with pytest.raises(JobMissing, match="there is no job default/x, or it has expired; `holdfast jobs`"):
                await ask


@pytest.mark.parametrize("id", ["a:b:c", "a/b/../c", "ünï-✓-日本", "%s{}'\";--", " ", "x" * 1024])
async def test_ids_may_be_anything(app: Holdfast, tasks: dict[str, Any], id: str) -> None:
    async with app:
        handle = await tasks["add"].options(job_id=id).enqueue(1)
        assert handle.id == id
        await burst(app, "default")
        assert await tasks["add"].result(id) == 1


async def test_a_payload_of_ten_megabytes_arrives(app: Holdfast) -> None:
    @app.task(max_payload=11_000_000)
    async def measure(text: str) -> int:
        return len(text)

    async with app:
        handle = await measure.enqueue("x" * 10_000_000)
        await burst(app)
        assert await handle.result() == 10_000_000


# --- cancel


async def test_a_cancelled_job_never_runs_and_its_id_is_free(app: Holdfast, tasks: dict[str, Any]) -> None:
    add = tasks["add"].options(job_id="x")
    async with app:
        first = await add.enqueue(1)
        answer = await add.cancel("x")
        assert (answer.reply, answer.state, answer.run) == (Reply.OK, State.WAITING, first.run)
        second = await add.enqueue(2)
        assert second.status == "queued"
        report = await burst(app, "default")
        assert report.started == 1
        assert await second.result() == 2
        with pytest.raises(JobCancelled, match="default/x was cancelled"):
            await first.result()
        assert (await first.cancel()).state is State.COMPLETED


async def test_cancelling_says_what_was_there(app: Holdfast, tasks: dict[str, Any]) -> None:
    async with app:
        assert (await tasks["add"].cancel("x")).reply is Reply.MISSING
        await tasks["add"].options(job_id="y", delay=60).enqueue(1)
        assert (await app.cancel("default", "y")).state is State.SCHEDULED
        assert (await tasks["add"].cancel("x", running="kill")).reply is Reply.MISSING
        with pytest.raises(ConfigError, match=r"running='maybe': \"refuse\", \"signal\" or \"kill\""):
            await tasks["add"].cancel("x", running="maybe")


# --- call


async def test_call_returns_what_the_handler_returned(app: Holdfast, tasks: dict[str, Any]) -> None:
    async with working(app):
        assert await tasks["add"].call(1, b=2) == 3


async def test_none_is_a_result(app: Holdfast) -> None:
    @app.task()
    async def nothing() -> None: ...

    async with working(app):
        assert await nothing.call() is None
        handle = await nothing.options(job_id="n").enqueue()
        assert await handle.result() is None
        again = await nothing.options(job_id="n").enqueue()
        assert (again.status, await again.result()) == ("completed", None)
    async with app:
        assert (await transitions(app, "n")).count("complete") == 1


async def test_two_callers_of_one_id_share_one_run(app: Holdfast) -> None:
    started, go = asyncio.Event(), asyncio.Event()
    runs = []

    @app.task()
    async def slow(n: int) -> int:
        runs.append(n)
        started.set()
        await go.wait()
        return n

    async with working(app):
        call = slow.options(job_id="x").call
        first = asyncio.create_task(call(1))
        await started.wait()
        second = asyncio.create_task(call(2))
        third = asyncio.create_task(slow.result("x"))
        await eventually(lambda: app.store.get("default", "x"))
        go.set()
        assert await asyncio.gather(first, second, third) == [1, 1, 1]
    assert runs == [1]


async def test_callers_in_two_apps_on_one_file_share_one_run(app: Holdfast, url: str) -> None:
    """What one process computes, a caller elsewhere hears of by a notification."""
    go = asyncio.Event()

    @app.task()
    async def slow() -> str:
        await go.wait()
        return "once"

    another = Holdfast(url)

    @another.task(name="slow")
    async def same() -> str:
        raise AssertionError("this app only calls")

    async with another, working(app) as running:
        calls = [asyncio.create_task(task.options(job_id="x").call()) for task in (slow, same, slow, same)]
        await eventually(lambda: running.worker.active)
        go.set()
        assert await asyncio.gather(*calls) == ["once"] * 4


async def test_call_on_a_waiting_completed_and_failed_id(app: Holdfast, tasks: dict[str, Any]) -> None:
    add, fail = tasks["add"].options(job_id="a"), tasks["fail"].options(job_id="f")
    async with app:
        await add.enqueue(1)
        await fail.enqueue("broken")
        waiting = asyncio.create_task(add.call(99))
        await burst(app, "default")
        assert await waiting == 1
        assert await add.call(99) == 1, "from the cache, with no worker"
        with pytest.raises(JobFailed, match=r"default/f failed: Permanent: broken") as caught:
            await fail.call("again")
    assert (caught.value.queue, caught.value.job_id) == ("default", "f")
    assert caught.value.error.message == "broken"
    assert caught.value.error.kind == "permanent"


async def test_job_failed_carries_the_stored_error(app: Holdfast) -> None:
    class OutOfStock(Exception):
        def __init__(self, item: str, left: int) -> None:
            super().__init__(f"{item}: only {left} left")
            self.item, self.left, self.secret = item, left, object()

    @app.task(retry=Retry(failures=1))
    async def order(item: str) -> None:
        raise OutOfStock(item, 2)

    async with working(app):
        with pytest.raises(JobFailed, match="OutOfStock: tea: only 2 left") as caught:
            await order.call("tea")
    error = caught.value.error
    assert error.type.endswith("OutOfStock")
    assert error.fields == {"item": "tea", "left": 2}
    assert "raise OutOfStock(item, 2)" in error.traceback


async def test_a_caller_that_times_out_leaves_the_job_alone(app: Holdfast) -> None:
    go = asyncio.Event()

    @app.task()
    async def slow() -> str:
        await go.wait()
        return "late"

    async with working(app):
        with pytest.raises(JobTimeout, match=r"default/x gave no result within 0\.05 s; it goes on, ask again later"):
            await slow.options(job_id="x").call_within(0.05)
        handle = await slow.options(job_id="x").enqueue()
        assert handle.status == "duplicate"
        with pytest.raises(TimeoutError):
            await handle.result(timeout=0.01)
        go.set()
        assert await handle.result() == "late"


async def test_a_caller_hears_of_a_cancelled_job(app: Holdfast, tasks: dict[str, Any]) -> None:
    async with app:
        call = asyncio.create_task(tasks["add"].options(job_id="x").call(1))
        await eventually(lambda: app.store.get("default", "x"))
        await tasks["add"].cancel("x")
        with pytest.raises(JobCancelled, match="default/x was cancelled"):
            await call


async def test_many_calls_at_once(app: Holdfast, tasks: dict[str, Any]) -> None:
    async with working(app, slots=50):
        assert await asyncio.gather(*(tasks["add"].call(n, 1) for n in range(200))) == [n + 1 for n in range(200)]


async def test_callers_of_a_successor_get_its_own_result(app: Holdfast) -> None:
    go = asyncio.Event()

    @app.task()
    async def echo(n: int) -> int:
        await go.wait()
        return n

    dispatch = echo.options(job_id="x", on_conflict="update")
    async with working(app) as running:
        first = await dispatch.enqueue(1)
        await eventually(lambda: running.worker.active)
        second = await dispatch.enqueue(2)
        assert second.status == "successor"
        go.set()
        assert await first.result() == 1
        assert await second.result() == 2


# --- bulk


async def test_enqueue_many_takes_a_generator(app: Holdfast, tasks: dict[str, Any]) -> None:
    add = tasks["add"]
    async with app:
        counts = await add.enqueue_many(add.args(n) for n in range(10_000))
        assert counts == EnqueueCounts(queued=10_000)
        assert counts.total == 10_000
        info = await app.queue("default").info()
        assert info is not None
        assert info.counts["waiting"] == 10_000
        assert (await burst(app, "default", slots=100)).completed == 10_000


async def test_enqueue_many_takes_an_async_generator(app: Holdfast, tasks: dict[str, Any]) -> None:
    async def calls() -> AsyncIterator[Call[int]]:
        for n in range(1_234):
            yield tasks["add"].args(n)

    async with app:
        assert (await tasks["add"].enqueue_many(calls(), chunk=100)).queued == 1_234


async def test_enqueue_many_mixes_tasks_queues_and_conflict_options(app: Holdfast, tasks: dict[str, Any]) -> None:
    add, other, fail = tasks["add"], tasks["other"], tasks["fail"]
    async with app:
        await add.options(job_id="done").enqueue(1)
        await fail.options(job_id="dead").enqueue("no")
        await burst(app, "default")
        await add.options(job_id="here").enqueue(1)
        counts = await add.enqueue_many(
            [
                add.args(1),
                other.args(1),
                add.options(job_id="here").args(2),
                add.options(job_id="done").args(2),
                add.options(job_id="twice").args(1),
                add.options(job_id="twice").args(2),
                add.options(job_id="here", on_conflict="update").args(3),
                fail.options(job_id="dead", on_failed="requeue").args("again"),
            ]
        )
        assert counts == EnqueueCounts(queued=3, duplicate=2, completed=1, updated=1, requeued=1)
        assert (await add.status("here")).payload == b'{"a":3}'
        assert (await add.status("twice")).payload == b'{"a":1}'


async def test_a_generator_that_raises_half_way_keeps_what_was_handed_over(
    app: Holdfast, tasks: dict[str, Any]
) -> None:
    def calls() -> Iterator[Call[int]]:
        for n in range(250):
            yield tasks["add"].args(n)
        raise OSError("the source broke")

    async with app:
        with pytest.raises(OSError, match="the source broke"):
            await tasks["add"].enqueue_many(calls(), chunk=100)
        info = await app.queue("default").info()
        assert info is not None
        assert info.counts["waiting"] == 200, "whole chunks, and nothing of the one that was not complete"


async def test_a_bad_payload_in_a_bulk_is_refused_where_it_is_made(app: Holdfast, tasks: dict[str, Any]) -> None:
    anything = tasks["anything"]
    async with app:
        with pytest.raises(PayloadError, match=r"payload\.when"):
            await anything.enqueue_many(anything.args(each) for each in ({"n": 1}, {"when": object()}))


async def test_no_chunk_is_being_written_once_enqueue_many_has_failed(
    app: Holdfast, tasks: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, written = 0, []

    async def enqueue(queue: str, jobs: list[Any], conflict: Any, bulk: object) -> list[Any]:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise StoreError("no room")
        for _ in range(20):
            await asyncio.sleep(0)
        written.append(len(jobs))
        return []

    async with app:
        monkeypatch.setattr(app.client, "enqueue", enqueue)
        with pytest.raises(StoreError, match="no room"):
            await tasks["add"].enqueue_many((tasks["add"].args(n) for n in range(4)), chunk=2)
        assert written == [2]


async def test_enqueue_many_of_nothing(app: Holdfast, tasks: dict[str, Any]) -> None:
    async with app:
        assert await tasks["add"].enqueue_many([]) == EnqueueCounts()
        with pytest.raises(ConfigError, match="chunk=0: at least 1"):
            await tasks["add"].enqueue_many([], chunk=0)


# --- looking


async def test_lists_go_newest_first_and_page_by_cursor(app: Holdfast, tasks: dict[str, Any]) -> None:
    async with app:
        for n in range(5):
            await tasks["add"].options(job_id=str(n), key="odd" if n % 2 else None).enqueue(n)
        await tasks["other"].options(job_id="o").enqueue(1)
        first = await app.jobs(queue="default", limit=3)
        rest = await app.jobs(queue="default", limit=3, cursor=first.cursor)
        assert [job.id for job in first.jobs + rest.jobs] == ["4", "3", "2", "1", "0"]
        assert rest.cursor is None
        assert [job.id for job in (await app.jobs(key="odd")).jobs] == ["3", "1"]
        assert [job.id for job in (await app.jobs(task="other")).jobs] == ["o"]
        assert (await app.jobs(state="failed")).jobs == []
        with pytest.raises(ConfigError, match="cursor 'abc' is not one that a list of jobs gave"):
            await app.jobs(cursor="abc")
        with pytest.raises(ConfigError, match="state='done'"):
            await app.jobs(state="done")
        with pytest.raises(ConfigError, match="state='done'"):
            await app.queue("default").jobs(state="done")


async def test_requeue_starts_finished_jobs_anew(app: Holdfast, tasks: dict[str, Any]) -> None:
    async with app:
        first = await tasks["fail"].options(job_id="x").enqueue("no")
        await burst(app, "default")
        assert await app.requeue(dry_run=True) == [("default", "x", first.run)]
        assert (await tasks["fail"].status("x")).state is State.FAILED
        ((queue, id, run),) = await app.requeue("x", queue="default")
        assert (queue, id) == ("default", "x")
        assert run > first.run
        assert (await first.job()).state is State.FAILED, "the dead letter stays, by its run"
        assert (await tasks["fail"].status("x")).state is State.WAITING
        assert await app.requeue() == []
        with pytest.raises(ConfigError, match="state='done'"):
            await app.requeue(state="done")  # type: ignore[arg-type]


async def test_promote_delete_and_keep_result(app: Holdfast, tasks: dict[str, Any]) -> None:
    queue = app.queue("default")
    async with app:
        await tasks["add"].options(job_id="x", delay=3600).enqueue(1)
        assert await queue.promote("x") is Reply.OK
        assert (await queue.status("x")).state is State.WAITING
        assert await queue.promote("x") is Reply.WRONG_STATE
        await burst(app, "default")
        assert await queue.keep_result("x", 7200) is Reply.OK
        job = await queue.status("x")
        assert job.expires_at_ms is not None
        assert job.finished_at_ms is not None
        assert job.expires_at_ms - job.finished_at_ms >= 7_200_000
        assert await queue.delete("x") is Reply.OK
        assert await queue.delete("x") is Reply.MISSING


# --- bad input


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"delay": -1}, "delay=-1: give seconds from 0 on, or a timedelta"),
        ({"delay": "1"}, "delay='1': give seconds from 0 on"),
        ({"delay": float("nan")}, "delay=nan: give seconds from 0 on"),
        ({"delay": 1, "run_at": 1}, "delay= and run_at= exclude each other: give one"),
        ({"run_at": datetime(2030, 1, 1)}, "has no time zone; use datetime.now(UTC) or .astimezone()"),
        ({"run_at": "now"}, "run_at='now': give a datetime with a time zone, or seconds since the epoch"),
        ({"priority": 1001}, "priority=1001: a whole number from -1000 to 1000, higher first"),
        ({"priority": 1.5}, "priority=1.5: a whole number from -1000 to 1000"),
        ({"priority": True}, "priority=True: a whole number"),
        ({"job_id": ""}, "job_id='': an id is a string of at least one character"),
        ({"job_id": 7}, "job_id=7: an id is a string of at least one character"),
        ({"job_id": "x" * 1025}, "job_id: an id is at most 1024 bytes, and this one has 1025"),
        ({"job_id": "ü" * 513}, "job_id: an id is at most 1024 bytes, and this one has 1026"),
        ({"job_id": "\ud800"}, "it holds half a surrogate pair, which is no text"),
        ({"job_id": "a\0b"}, "it holds a NUL character, which not every store can keep"),
        ({"key": ""}, "key='': a concurrency key is a string of at least one character"),
        ({"key": 7}, "key=7: a concurrency key is a string"),
        ({"key": "\ud800"}, "it holds half a surrogate pair, which is no text"),
        ({"key": "x" * 1025}, "key: a concurrency key is at most 1024 bytes, and this one has 1025"),
        ({"on_conflict": "replace"}, 'on_conflict=\'replace\': "keep" or "update"'),
        ({"on_failed": "retry"}, 'on_failed=\'retry\': "keep" or "requeue"'),
        ({"update_run_at": "later"}, 'update_run_at=\'later\': True, False, "if_later" or "if_earlier"'),
        ({"retry": 3}, "retry=3: give Retry(failures=...)"),
        ({"timeout": -2}, "timeout=-2: give seconds from 0 on"),
        ({"timeout": 0}, "timeout=0 leaves no time to run"),
        ({"result_ttl": "1h"}, "result_ttl='1h': give seconds from 0 on, or a timedelta"),
        ({"dedup": "key"}, "dedup='key': give Dedup(key)"),
        ({"dedup": Dedup("k", scope="all")}, 'Dedup(scope=\'all\'): "incomplete" or "any"'),  # type: ignore[arg-type]
        ({"dedup": Dedup("")}, "Dedup(key=''): a key is a string of at least one character"),
        ({"headers": {"n": 1}}, "headers={'n': 1}: a dict of strings"),
        ({"headers": "x"}, "headers='x': a dict of strings"),
        ({"headers": {"x": "\ud800"}}, "half a surrogate pair"),
        ({"headers": {"x": "a\0b"}}, "one holds a NUL character, which not every store can keep"),
    ],
)
async def test_a_bad_option_gives_one_clear_line(
    app: Holdfast, tasks: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        tasks["add"].options(**options)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    async with app:
        with pytest.raises(ConfigError) as caught:
            await app.queue("plain").enqueue({}, **options)
        assert message in str(caught.value)
        assert (await app.jobs()).jobs == []


@pytest.mark.parametrize("run", [True, 1.5, "1"])
async def test_a_run_that_is_no_number_is_refused(app: Holdfast, run: Any) -> None:
    async with app:
        for look in (app.status, app.chain):
            with pytest.raises(ConfigError, match=r"run=.*: a whole number; take it from a handle or a record"):
                await look("q", "j", run)
        for act in (app.complete_chain, app.delete_chain):
            with pytest.raises(ConfigError, match=r"run=.*: a whole number"):
                await act("q", "j", run=run)


async def test_a_run_that_no_job_can_have_is_missing(app: Holdfast, tasks: dict[str, Any]) -> None:
    async with app:
        handle = await tasks["add"].enqueue(1)
        for run in (-1, 0, 2**48 + handle.run, 2**63):
            with pytest.raises(JobMissing, match=f"run {run}"):
                await app.status("default", handle.id, run)


def test_a_queue_has_no_nul_in_its_name(app: Holdfast) -> None:
    with pytest.raises(ConfigError, match="it holds a NUL character, which not every store can keep"):
        app.queue("a\0b")


async def test_an_unknown_option_is_named(app: Holdfast) -> None:
    async with app:
        with pytest.raises(ConfigError, match="'prio' is not an option; known are job_id, delay"):
            await app.queue("plain").enqueue({}, prio=1)


@pytest.mark.parametrize(
    ("value", "spot"),
    [
        ({"items": [1, 2, {"when": datetime(2030, 1, 1)}]}, "payload.items[2].when"),
        ({"n": float("nan")}, "payload.n"),
        ({"raw": b"x"}, "payload.raw"),
        ({"set": {1}}, "payload.set"),
        ({"deep": {1: 2}}, "payload.deep"),
    ],
)
async def test_an_unserialisable_payload_is_refused_with_its_path_and_nothing_is_written(
    app: Holdfast, tasks: dict[str, Any], value: Any, spot: str
) -> None:
    async with app:
        for attempt in (
            tasks["anything"].enqueue(value),
            tasks["anything"].call(value),
            app.queue("plain").enqueue(value),
        ):
            with pytest.raises(PayloadError) as caught:
                await attempt
            assert caught.value.path == spot
            assert spot in str(caught.value)
        assert (await app.jobs()).jobs == []
        assert [event async for event in app.events()] == []


async def test_wrong_arguments_are_a_type_error_and_nothing_is_written(app: Holdfast, tasks: dict[str, Any]) -> None:
    async with app:
        with pytest.raises(TypeError, match=r"add\(\) missing 1 required positional argument: 'a'"):
            await tasks["add"].enqueue()
        with pytest.raises(TypeError, match="unexpected keyword argument 'c'"):
            await tasks["add"].enqueue(1, c=2)
        assert (await app.jobs()).jobs == []


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("mysql://host/db", "'mysql://host/db': there is no store for mysql://; known are memory, "),
        ("jobs.db", "'jobs.db' is not a store URL; try sqlite:///jobs.db or memory://"),
        ("sqlite://jobs.db", "write sqlite:///relative/path.db or sqlite:////absolute/path.db"),
        ("sqlite:///", "names no file; try sqlite:///jobs.db, or memory://"),
        ("sqlite:///x.db?speed=9", "speed=*** is not an option here; known are namespace=NAME"),
        ("sqlite:///x.db?namespace=1%20or", "namespace=***: a letter or _, then letters, digits, _ and -, 63 at most"),
        ("sqlite:///x.db?namespace=2-fast", "namespace='2-fast': a letter or _, then"),
        ("sqlite:///x.db?namespace=SQLite_2", "namespace='SQLite_2': SQLite keeps names that begin with sqlite_"),
        ("sqlite:///x.db?busy_timeout=-1", "busy_timeout='-1' is not an option here"),
    ],
)
def test_a_bad_url_gives_one_clear_line(url: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Holdfast(url)
    assert message in str(caught.value)
    assert isinstance(caught.value, UnknownScheme) == url.startswith("mysql")


async def test_a_store_that_is_not_open_says_so(app: Holdfast) -> None:
    with pytest.raises(StoreClosed, match=r"is closed; open the app first \(async with app: \.\.\.\)"):
        await app.store.queues()
    client = Client(app.store, app.hooks)
    with pytest.raises(StoreClosed, match="the app is not open; use it inside `async with app:`"):
        await client.listener()


async def test_open_and_close_may_be_nested_and_happen_at_once(app: Holdfast, tasks: dict[str, Any]) -> None:
    async def use(n: int) -> str:
        async with app:
            return (await tasks["add"].enqueue(n)).status

    assert await asyncio.gather(*(use(n) for n in range(20))) == ["queued"] * 20
    async with app:
        async with app:
            await tasks["add"].enqueue(1)
        await tasks["add"].enqueue(1)
    await app.close()
    await app.close()


def test_an_app_may_be_opened_in_one_loop_after_another_but_not_in_two(app: Holdfast, tasks: dict[str, Any]) -> None:
    async def once() -> None:
        async with app:
            await tasks["add"].enqueue(1)
            with pytest.raises(
                ConfigError, match=r"open in another event loop; open one app in each, or use app\.sync"
            ):
                await asyncio.to_thread(asyncio.run, app.open())

    asyncio.run(once())
    asyncio.run(once())


def test_two_tasks_of_one_name_are_refused(app: Holdfast, tasks: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="there is a task named 'add' already; give one of them name="):

        @app.task(name="add")
        async def add_again() -> None: ...


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"retry": 5}, "task 'bad': retry=5: give Retry(failures=...)"),
        ({"timeout": 0}, "task 'bad': timeout=0 leaves no time to run; None is no time-out"),
        ({"timeout": "5"}, "task 'bad': timeout='5': give seconds from 0 on"),
        ({"priority": 5000}, "priority=5000: a whole number from -1000 to 1000"),
        ({"result_ttl": -1}, "task 'bad': result_ttl=-1: give seconds from 0 on"),
        ({"executor": "gpu"}, "task 'bad': executor='gpu': one of 'inline', 'thread', 'process', 'sandbox'"),
        ({"codec": "pickle"}, "pickle"),
        ({"queue": ""}, "queue '': a queue's name has 1 to 255 bytes"),
    ],
)
def test_a_bad_task_setting_gives_one_clear_line(app: Holdfast, options: dict[str, Any], message: str) -> None:
    async def bad() -> None: ...

    with pytest.raises(ConfigError) as caught:
        app.task(**options)(bad)
    assert message in str(caught.value)


async def test_the_store_hears_that_nobody_waits_any_more(app: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    @app.task()
    async def never() -> None: ...

    watched: list[str] = []
    unwatched: list[str] = []

    def noting(told: list[str], really: Any) -> Any:
        async def noted(listener: Any, queue: str, id: str, run: int) -> Any:
            answer = await really(listener, queue, id, run)
            told.append(id)
            return answer

        return noted

    monkeypatch.setattr(app.store, "watch", noting(watched, app.store.watch))
    monkeypatch.setattr(app.store, "unwatch", noting(unwatched, app.store.unwatch))
    async with app:
        handle = await never.enqueue()
        with pytest.raises(JobTimeout):
            await handle.result(0.05)
        await eventually(lambda: unwatched == [handle.id])
        before = len(watched)
        waits = [asyncio.create_task(handle.result()) for _ in range(2)]
        await eventually(lambda: len(watched) == before + 2)
        waits[0].cancel()
        await asyncio.wait(waits[:1])
        assert unwatched == [handle.id], "the other still waits"
        waits[1].cancel()
        await eventually(lambda: unwatched == [handle.id] * 2)
