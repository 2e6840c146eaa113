"""Plain queues take everything that a task takes: functions, types, executors, fail handlers, options."""

from __future__ import annotations

import os
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support import burst, working
from whole_handlers import Order, Receipt, pid_of, read, take, take_anything

from holdfast import ConfigError, FailedJob, Holdfast, Job, JobFailed, PayloadError, Retry, Sandbox, State
from holdfast.app.options import AppOptions, QueueOptions, TaskOptions
from holdfast.app.settings import LIBRARY, QUEUE_SETTINGS


def test_a_queue_takes_every_option_of_a_task_and_a_task_every_setting_of_jobs() -> None:
    assert set(TaskOptions.__annotations__) == set(LIBRARY)
    assert set(QueueOptions.__annotations__) == set(TaskOptions.__annotations__) | set(QUEUE_SETTINGS)
    alone = {"priority", "completion", "on_failure", "key_required", "lease"}  # of tasks and queues
    assert set(AppOptions.__annotations__) == set(LIBRARY) - alone


@pytest.mark.parametrize(
    "declare",
    [
        lambda app: app.task(speed=3),
        lambda app: app.queue("mail", speed=3),
        lambda app: Holdfast("memory://", speed=3),
    ],
)
def test_an_option_that_nobody_knows_is_refused_by_name(app: Holdfast, declare: Any) -> None:
    with pytest.raises(ConfigError, match=r"'speed' .* known are .*retry"):
        declare(app)


# --- functions


async def test_a_function_may_be_the_handler(app: Holdfast) -> None:
    orders = app.queue("orders", handler=take)
    async with working(app):
        assert await orders.call(Order(7, ["a"])) == Receipt(7, os.getpid())


async def test_a_local_function_a_partial_and_an_object_may_be_the_handler(app: Holdfast) -> None:
    class Adder:
        async def __call__(self, payload: int) -> int:
            return payload + 1

    def add(more: int, payload: int) -> int:
        return payload + more

    queues = [
        app.queue("local", handler=lambda payload: payload + 1),
        app.queue("object", handler=Adder()),
        app.queue("partial", handler=partial(add, 1)),
    ]
    async with working(app):
        assert [await queue.call(1) for queue in queues] == [2, 2, 2]


async def test_a_task_may_be_the_handler_of_a_plain_queue(app: Holdfast) -> None:
    @app.task(queue="tasks")
    async def double(n: int) -> int:
        return 2 * n

    plain = app.queue("plain", handler=double)
    async with working(app):
        assert (await plain.call(4), await double.call(5)) == (8, 10)


@pytest.mark.parametrize(
    ("handler", "message"),
    [
        (Order, "is a class: give a function, or an object to call"),
        (lambda: 1, "takes no payload; give it a parameter for it"),
        (lambda a, b: 1, "needs 'b', and a plain queue gives it one payload"),
    ],
)
def test_a_function_that_cannot_take_a_payload_is_refused_at_once(app: Holdfast, handler: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=f"queue 'mail': handler=.*{message}"):
        app.queue("mail", handler=handler)
    assert "mail" not in app.registry.queues


def test_a_local_function_cannot_run_in_a_process(app: Holdfast) -> None:
    with pytest.raises(ConfigError, match="executor='process' needs a function of a module"):
        app.queue("mail", handler=lambda payload: payload, executor="process")


# --- types


async def test_payloads_and_results_are_typed_by_the_queue(app: Holdfast, url: str) -> None:
    producer = Holdfast(url).queue("orders", payload=Order, result=Receipt)
    app.queue("orders", handler="whole_handlers:take_anything", payload=Order, result=Receipt)
    async with producer._registry.app, working(app):  # type: ignore[union-attr]
        handle = await producer.enqueue(Order(3, []))
        assert await handle.result() == Receipt(3, os.getpid())
        job = await handle.job()
        assert job.result is not None
        assert producer.decode_result(job.result) == Receipt(3, os.getpid())
        assert await producer.result(handle.id) == Receipt(3, os.getpid())


async def test_a_payload_of_another_type_is_refused_at_enqueue(app: Holdfast) -> None:
    orders = app.queue("orders", payload=Order)
    async with app:
        for wrong in ({"id": 1, "lines": []}, Order("x", []), Order(1, [5])):  # type: ignore[arg-type, list-item]
            with pytest.raises(PayloadError, match="payload"):
                await orders.enqueue(wrong)  # type: ignore[arg-type]
        with pytest.raises(PayloadError, match=r"payloads\[1\]"):
            await orders.enqueue_many([Order(1, []), 5])  # type: ignore[list-item]


async def test_a_payload_that_does_not_fit_the_handler_fails_with_words(app: Holdfast, url: str) -> None:
    app.queue("orders", handler=take, retry=Retry(failures=1))
    producer = Holdfast(url)
    async with producer:
        handle = await producer.queue("orders").enqueue({"id": "many"})
        await burst(app)
        with pytest.raises(JobFailed, match=r"take\(\) cannot take this payload"):
            await handle.result()


async def test_a_plain_job_is_completed_from_outside_with_a_result_of_its_type(app: Holdfast) -> None:
    orders = app.queue("orders", payload=Order, result=Receipt)
    async with app:
        handle = await orders.enqueue(Order(1, []))
        assert await orders.complete(handle.id, Receipt(1, 2))
        assert await handle.result() == Receipt(1, 2)
        with pytest.raises(PayloadError, match="result"):
            await orders.complete(handle.id, datetime.now())  # type: ignore[arg-type]


# --- where it runs


@pytest.mark.parametrize("handler", [take, take_anything, "whole_handlers:take", "whole_handlers:take_anything"])
async def test_a_plain_handler_runs_in_a_process_with_its_types(app: Holdfast, handler: Any) -> None:
    orders = app.queue("orders", handler=handler, payload=Order, result=Receipt, executor="process", size=50)
    async with working(app, pool=1):
        receipt = await orders.call(Order(9, ["a"]))
        assert receipt.id == 9
        assert receipt.pid != os.getpid()
    assert app.registry.declarations(("orders",))[0].tasks[""].size == 50


def test_a_type_that_no_process_could_find_is_refused_before_the_worker_starts(app: Holdfast) -> None:
    app.queue("orders", handler=take_anything, payload=list[Order], executor="process")
    with pytest.raises(ConfigError, match=r"payload=.* cannot be named .*: annotate the handler with it instead"):
        app.sync(app.worker().run(burst=True))


async def test_a_plain_handler_runs_in_a_sandbox(app: Holdfast, tmp_path: Path) -> None:
    allowed, other = tmp_path / "allowed", tmp_path / "other"
    for file in (allowed, other):
        file.write_text("text")
    box = Sandbox(read=[str(allowed)])
    files = app.queue("files", handler=read, executor="sandbox", sandbox=box, retry=Retry(failures=1))
    async with working(app, pool=1):
        assert await files.call(str(allowed)) == "text"
        with pytest.raises(JobFailed, match="PermissionError"):
            await files.call(str(other))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"executor": "sandbox"}, "belong together"),
        ({"sandbox": Sandbox()}, "belong together"),
        ({"sandbox": 5}, r"sandbox=5: give Sandbox\(read="),
        ({"executor": "gpu"}, "executor='gpu': one of"),
        ({"size": 0}, "size=0"),
        ({"on_failure": pid_of}, "give a task of this app"),
        ({"completion": "atomic"}, "completion='atomic'"),
        ({"timeout": 0}, "timeout=0 leaves no time to run"),
    ],
)
def test_a_queue_that_cannot_be_so_is_refused_at_once(app: Holdfast, options: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        app.queue("mail", handler=pid_of, **options)
    assert "mail" not in app.registry.queues


# --- fail handlers


@pytest.mark.parametrize("handler", ["plain_handlers:broken", "function"])
async def test_a_plain_queue_has_a_fail_handler(app: Holdfast, handler: str) -> None:
    seen: list[tuple[Any, FailedJob | None]] = []

    @app.task(queue="mail")
    async def clean(job: Job, payload: Any) -> None:
        seen.append((payload, job.failed))

    async def broken(payload: Any) -> None:
        raise ValueError(payload)

    chosen = broken if handler == "function" else handler
    mail = app.queue("mail", handler=chosen, on_failure=clean, retry=Retry(failures=1))  # type: ignore[arg-type]
    async with app:
        await mail.enqueue(["ann", 1], job_id="one")
        await burst(app)
    ((payload, failed),) = seen
    assert payload == ["ann", 1]
    assert failed is not None
    assert (failed.id, failed.task, failed.error.type) == ("one", None, "ValueError")


async def test_the_fail_handler_of_a_queue_is_for_its_tasks_and_not_for_itself(app: Holdfast) -> None:
    seen: list[str] = []

    @app.task(queue="mail", retry=Retry(failures=1))
    async def clean(to: str) -> None:
        seen.append(to)
        raise ValueError("not even that")

    app.queue("mail", on_failure=clean)

    @app.task(queue="mail", retry=Retry(failures=1))
    async def send(to: str) -> None:
        raise ValueError(to)

    async with app:
        await send.enqueue("ann")
        assert (await burst(app)).failed == 2
    assert seen == ["ann"]


def test_a_fail_handler_that_cannot_take_a_plain_payload_is_refused(app: Holdfast) -> None:
    @app.task()
    async def clean(to: str, template: str) -> None: ...

    with pytest.raises(
        ConfigError, match=r"on_failure=clean: .*needs 'template', and a plain queue gives it one payload"
    ):
        app.queue("mail", handler=pid_of, on_failure=clean)


# --- options


async def test_a_plain_queue_with_options_as_a_task_has_them(app: Holdfast) -> None:
    mail = app.queue("mail", handler="plain_handlers:echo")
    urgent = mail.options(priority=9, key="ann").options(headers={"a": "b"}, key=None)
    async with app:
        first, second = await urgent.enqueue(1, job_id="one"), await mail.enqueue(2)
        many = await urgent.options(delay=60).enqueue_many([3, 4])
        jobs = {job.id: job for job in (await mail.jobs()).jobs}
    assert (jobs["one"].priority, jobs["one"].key, jobs["one"].headers) == (9, "ann", {"a": "b"})
    assert (jobs[second.id].priority, jobs[second.id].key, first.id, many.queued) == (0, None, "one", 2)
    assert [job.state for job in jobs.values()].count(State.SCHEDULED) == 2
    with pytest.raises(ConfigError, match="'prio' is not an option"):
        mail.options(prio=5)  # type: ignore[call-arg]


async def test_a_connection_may_be_an_option_of_a_plain_queue(app: Holdfast, path: Path) -> None:
    import sqlite3

    mail = app.queue("mail", handler="plain_handlers:echo")
    async with app:
        with sqlite3.connect(path, isolation_level=None) as connection:
            connection.execute("BEGIN IMMEDIATE")
            handle = await mail.options(connection=connection).enqueue(1)
            connection.execute("ROLLBACK")
        connection.close()
        assert not (await mail.jobs()).jobs
        with pytest.raises(ConfigError, match="connection=: a call would wait"):
            await mail.options(connection=connection).call(1)
    assert handle.status == "queued"
