"""A handler's own writes and its job's completion: together, or neither."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sandbox_tasks
from own_writes import Place, PostgresPlace
from support import burst, eventually, run, transitions, working

from holdfast import ConfigError, Holdfast, Job, LeaseLost, Retry, Sandbox, State
from holdfast.testing import drain


@pytest.fixture
def app(place: Place) -> Holdfast:
    return Holdfast(place.url, retry=Retry(failures=2, initial=0))


async def test_the_writes_and_the_completion_are_committed_together(app: Holdfast, place: Place) -> None:
    seen: list[Any] = []
    told: list[str] = []
    app.on("complete")(lambda happening: told.append(happening.id))

    @app.task(completion="staged")
    async def pay(job: Job, n: int) -> str:
        async with job.prepare() as tx:
            await place.write(tx, -n)
        async with job.complete() as tx:
            await place.write(tx, n)
            tx.result = f"paid {n}"
            seen.append((place.rows(), (await app.status("default", job.id)).state))
        seen.append((place.rows(), (await app.status("default", job.id)).state))
        return "not this"

    async with app:
        handle = await pay.options(job_id="one").enqueue(7)
        report = await burst(app)
        assert (report.completed, report.lost, report.started) == (1, 0, 1)
        assert await handle.result() == "paid 7"
        assert await transitions(app, "one") == ["enqueue", "claim", "complete"]
    assert seen == [([-7], State.ACTIVE), ([-7, 7], State.COMPLETED)]
    assert told == ["one"]


async def test_a_caller_who_waits_hears_of_it_at_once(app: Holdfast, place: Place) -> None:
    @app.task()
    async def pay(job: Job, n: int) -> int:
        async with job.complete(n * 2) as tx:
            await place.write(tx, n)
        return 0

    async with working(app, poll=30):
        assert await pay.call(21) == 42
        assert await pay.call(4) == 8
    assert place.rows() == [4, 21]


async def test_a_raise_inside_undoes_the_writes_and_the_attempt_fails(app: Holdfast, place: Place) -> None:
    @app.task()
    async def pay(job: Job) -> None:
        async with job.complete() as tx:
            await place.write(tx, job.attempt)
            if job.attempt == 1:
                raise ValueError("no")

    async with app:
        await pay.options(job_id="one").enqueue()
        report = await burst(app)
        assert (report.retried, report.completed) == (1, 1)
        seen = [each for each in await transitions(app, "one") if each != "promote"]
        assert seen == ["enqueue", "claim", "retry", "claim", "complete"]
    assert place.rows() == [2]


async def test_a_result_that_cannot_be_stored_undoes_the_writes(app: Holdfast, place: Place) -> None:
    @app.task()
    async def pay(job: Job) -> Any:
        async with job.complete(result=object()) as tx:
            await place.write(tx, 1)

    async with app:
        await pay.options(job_id="one").enqueue()
        report = await burst(app)
        assert (report.retried, report.failed) == (0, 1), "no retry would make it storable"
    assert place.rows() == []


async def test_a_transaction_that_the_handler_ended_itself_completes_nothing(app: Holdfast, place: Place) -> None:
    @app.task()
    async def pay(job: Job) -> None:
        async with job.complete() as tx:
            await place.write(tx, 1)
            if job.attempt == 1:
                ended = tx.connection.execute("ROLLBACK")
                if not isinstance(tx.connection, sqlite3.Connection):
                    await ended

    async with app:
        await pay.options(job_id="one").enqueue()
        report = await burst(app)
        assert (report.retried, report.completed) == (1, 1)
        errors = [event.error_type async for event in app.events() if event.transition == "retry"]
    assert errors == ["ConfigError"]
    assert place.rows() == [1]


async def test_a_poisoned_transaction_still_ends_in_an_orderly_retry(on_postgres: PostgresPlace) -> None:
    app, place = Holdfast(on_postgres.url, retry=Retry(failures=2, initial=0)), on_postgres

    @app.task()
    async def pay(job: Job) -> None:
        async with job.complete() as tx:
            await place.write(tx, 1)
            if job.attempt == 1:
                with contextlib.suppress(psycopg.Error):  # and goes on as if nothing were wrong
                    await tx.connection.execute("SELECT 1 / 0")

    async with app:
        await pay.options(job_id="one").enqueue()
        report = await burst(app)
        assert (report.retried, report.completed) == (1, 1)
        errors = [event.error_type async for event in app.events() if event.transition == "retry"]
    assert errors == ["psycopg.errors.InFailedSqlTransaction"]
    assert place.rows() == [1]


async def test_a_lease_that_was_lost_undoes_the_writes(app: Holdfast, place: Place) -> None:
    raised: list[BaseException] = []

    @app.task()
    async def pay(job: Job) -> None:
        try:
            if job.attempt == 1:
                while not (await expired_and_reaped(app)):
                    pass  # the worker was heard in between
            async with job.complete() as tx:
                await place.write(tx, job.attempt)
        except BaseException as error:
            raised.append(error)
            raise

    async with working(app, lease=30, poll=0.05):
        handle = await pay.options(job_id="one").enqueue()
        await handle.result()
        assert await transitions(app, "one") == ["enqueue", "claim", "reap", "claim", "complete"]
    (error,) = raised
    assert isinstance(error, LeaseLost | asyncio.CancelledError), "the worker may hear of it before the handler does"
    assert place.rows() == [2]


async def expired_and_reaped(app: Holdfast) -> bool:
    """Every session's lease is over, and its jobs are free; False when it was heard again too soon."""
    await expire(app)
    return (await app.store.reap("default")).returned > 0


async def expire(app: Holdfast) -> None:
    """Every session's lease is over, as if its worker had been away."""
    store: Any = app.store
    if app.store.url.startswith("sqlite"):
        statement = "UPDATE holdfast_session SET expires_at_ms = 0"
        await store.database.writer.ask(lambda connection, after: connection.execute(statement) and None)
    else:
        await store.caller.rows(store.caller.named("UPDATE holdfast.session SET expires_at_ms = 0"), ())


async def test_a_raise_after_the_block_changes_nothing(app: Holdfast, place: Place) -> None:
    @app.task()
    async def pay(job: Job) -> str:
        async with job.complete("done") as tx:
            await place.write(tx, 1)
        raise ValueError("too late")

    async with app:
        handle = await pay.enqueue()
        report = await burst(app)
        assert (report.completed, report.retried, report.lost) == (1, 0, 0)
        assert await handle.result() == "done"
    assert place.rows() == [1]


async def test_a_time_out_inside_undoes_the_writes(app: Holdfast, place: Place) -> None:
    @app.task(timeout=0.1, retry=Retry(timeouts=1))
    async def pay(job: Job) -> None:
        async with job.complete() as tx:
            await place.write(tx, 1)
            await asyncio.Event().wait()

    async with app:
        await pay.options(job_id="one").enqueue()
        assert (await burst(app)).failed == 1
    assert place.rows() == []


async def test_a_job_is_completed_once(app: Holdfast, place: Place) -> None:
    raised: list[str] = []

    @app.task()
    async def pay(job: Job) -> None:
        async with job.complete():
            pass
        try:
            async with job.complete():
                pass
        except ConfigError as error:
            raised.append(str(error))

    async with app:
        await pay.enqueue()
        assert (await burst(app)).completed == 1
    assert len(raised) == 1
    assert "is completed already" in raised[0]


async def test_a_successor_starts_and_a_limited_queue_goes_on(app: Holdfast, place: Place) -> None:
    app.queue("default", concurrency=1)
    inside, go_on = asyncio.Event(), asyncio.Event()

    @app.task()
    async def pay(job: Job, n: int) -> None:
        inside.set()
        await go_on.wait()
        async with job.complete() as tx:
            await place.write(tx, n)

    async with working(app, poll=30, slots=2):
        await pay.options(job_id="one").enqueue(1)
        await inside.wait()
        update = await pay.options(job_id="one", on_conflict="update").enqueue(2)
        assert update.status == "successor"
        other = await pay.enqueue(3)
        go_on.set()
        await update.result()
        await other.result()
    assert place.rows() == [1, 2, 3]


async def test_whoever_asks_for_a_successor_while_its_forerunner_ends_hears_of_it(on_postgres: PostgresPlace) -> None:
    """Its end holds the row that `watch` waits for; when that is free, the successor is a job like any other."""
    app = Holdfast(on_postgres.url)
    inside, end, holds, go_on, last = (asyncio.Event() for _ in range(5))
    blocked = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%.watch(%'"

    @app.task()
    async def pay(job: Job, n: int) -> int:
        if n == 2:
            await last.wait()
            return n
        inside.set()
        await end.wait()
        async with job.complete(n) as tx:
            await tx.connection.execute(f"SELECT 1 FROM {on_postgres.schema}.job WHERE id = 'one' FOR UPDATE")
            holds.set()
            await go_on.wait()
        return n

    async with working(app, slots=1):
        await pay.options(job_id="one").enqueue(1)
        await inside.wait()
        update = await pay.options(job_id="one", on_conflict="update").enqueue(2)
        assert update.status == "successor"
        end.set()
        await holds.wait()
        listener = await app.client.listener()
        watching = asyncio.create_task(app.client.store.watch(listener, "default", "one", update.run))
        await eventually(lambda: on_postgres.do(blocked))
        go_on.set()
        assert await watching
        last.set()
        assert await update.result() == 2


async def test_drain_tells_of_it(app: Holdfast, place: Place) -> None:
    @app.task()
    async def pay(job: Job) -> str:
        async with job.complete("paid") as tx:
            await place.write(tx, 1)
        return "not this"

    async with app:
        await pay.enqueue()
        (ran,) = await drain(app)
    assert (ran.outcome, ran.result) == ("completed", "paid")


# --- atomic


async def test_atomic_is_one_transaction_from_prepare_to_complete(on_postgres: PostgresPlace) -> None:
    app, place = Holdfast(on_postgres.url, retry=Retry(failures=3, initial=0)), on_postgres
    seen: list[list[int]] = []

    @app.task(completion="atomic")
    async def pay(job: Job) -> str:
        async with job.prepare() as tx:
            await place.write(tx, job.attempt)
        seen.append(place.rows())
        if job.attempt == 1:
            raise ValueError("between")
        if job.attempt == 2:
            return "paid"  # which is an error: nothing would be committed
        async with job.complete("paid") as tx:
            await place.write(tx, 10)
        return "not this"

    async with app:
        handle = await pay.options(job_id="one").enqueue()
        assert (await burst(app)).completed == 1
        assert await handle.result() == "paid"
        error = [event.error_type async for event in app.events() if event.transition == "retry"]
    assert error == ["ValueError", "ConfigError"]
    assert (seen, place.rows()) == ([[], [], []], [3, 10])


async def test_atomic_begins_with_prepare(on_postgres: PostgresPlace) -> None:
    app = Holdfast(on_postgres.url, retry=Retry(failures=1))

    @app.task(completion="atomic")
    async def pay(job: Job) -> None:
        async with job.complete():
            pass

    async with app:
        await pay.options(job_id="one").enqueue()
        await burst(app)
        record = await app.status("default", "one")
    assert record.error is not None
    assert "begins with job.prepare()" in record.error.message


# --- what is refused


def test_what_a_task_cannot_have_is_refused_when_it_is_declared(path: Path) -> None:
    def declare(url: str, completion: Any, handler: Any, **options: Any) -> None:
        Holdfast(url).task(completion=completion, **options)(handler)

    async def handler() -> None: ...
    def blocking() -> None: ...

    with pytest.raises(ConfigError, match="completion='staged': memory:// has no transactions"):
        declare("memory://", "staged", handler)
    with pytest.raises(ConfigError, match="completion='atomic': SQLite has one writer"):
        declare(f"sqlite:///{path}", "atomic", handler)
    with pytest.raises(ConfigError, match="completion='half': 'staged' or 'atomic'"):
        declare(f"sqlite:///{path}", "half", handler)
    with pytest.raises(ConfigError, match="completion='staged': a `def` handler with executor='inline' would hold up"):
        declare(f"sqlite:///{path}", "staged", blocking, executor="inline")
    with pytest.raises(ConfigError, match="completion='staged': a sandbox has no way to the store"):
        declare(f"sqlite:///{path}", "staged", sandbox_tasks.fork_bomb, executor="sandbox", sandbox=Sandbox())
    declare(f"sqlite:///{path}", "staged", blocking)


def test_a_store_without_transactions_refuses_at_the_call() -> None:
    app = Holdfast("memory://", retry=Retry(failures=1))

    @app.task()
    async def pay(job: Job) -> None:
        async with job.complete():
            pass

    async def main() -> Any:
        async with app:
            await pay.options(job_id="one").enqueue()
            await burst(app)
            return await app.status("default", "one")

    record = run(main())
    assert record.error is not None
    assert record.error.message.startswith("job.complete(): memory:// has no transactions that a caller could share")


async def test_nothing_of_the_database_stays_locked(app: Holdfast, place: Place) -> None:
    @app.task()
    async def pay(job: Job, n: int) -> None:
        async with job.complete() as tx:
            await place.write(tx, n)
            if n % 3 == 0:
                raise ValueError("no")

    async with working(app, poll=0.05, slots=8):
        for n in range(20):
            await pay.enqueue(n)

        async def over() -> bool:
            info = await app.queue("default").info()
            return info is not None and info.counts["completed"] == 13 and info.counts["failed"] == 7

        await eventually(over)
    assert place.rows() == [n for n in range(20) if n % 3]


async def test_a_prepare_that_raised_is_undone_even_if_the_handler_goes_on(on_postgres: PostgresPlace) -> None:
    app, place, told = Holdfast(on_postgres.url), on_postgres, []

    @app.task(completion="atomic", retry=Retry(failures=1))
    async def stubborn(job: Job) -> None:
        with contextlib.suppress(ValueError):
            async with job.prepare() as tx:
                await place.write(tx, 1)
                raise ValueError("no")
        try:
            async with job.complete() as tx:
                await place.write(tx, 2)
        except ConfigError as error:
            told.append(str(error))
            raise

    async with app:
        await stubborn.enqueue()
        assert (await burst(app)).failed == 1
    assert "begins with job.prepare()" in told[0]
    assert place.rows() == []


async def test_a_rollback_that_the_driver_knows_completes_nothing(on_postgres: PostgresPlace) -> None:
    app, place = Holdfast(on_postgres.url), on_postgres

    @app.task(retry=Retry(failures=1))
    async def rolled_back(job: Job) -> None:
        async with job.complete() as tx:
            await place.write(tx, 1)
            raise psycopg.Rollback

    async with app:
        await rolled_back.options(job_id="one").enqueue()
        assert (await burst(app)).failed == 1
        error = (await app.status("default", "one")).error
    assert error is not None
    assert "leave COMMIT and ROLLBACK to the end of the block" in error.message
    assert place.rows() == []


async def test_an_atomic_attempt_that_hides_the_end_of_its_transaction_is_not_completed(
    on_postgres: PostgresPlace,
) -> None:
    app, place = Holdfast(on_postgres.url), on_postgres

    @app.task(completion="atomic", retry=Retry(failures=1))
    async def hides(job: Job) -> int:
        async with job.prepare() as tx:
            await place.write(tx, 1)
        with contextlib.suppress(ValueError):
            async with job.complete() as tx:
                raise ValueError("no")
        return 1

    async with app:
        await hides.options(job_id="one").enqueue()
        assert (await burst(app)).failed == 1
        error = (await app.status("default", "one")).error
    assert error is not None
    assert (error.type, error.message) == ("ValueError", "no")
    assert place.rows() == []
