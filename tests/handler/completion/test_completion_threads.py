"""A `def` handler's own writes and its job's completion: together, or neither."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from own_writes import Place, PostgresPlace, SqlitePlace, own_place
from support import burst, eventually, transitions, until, working

from holdfast import ConfigError, Holdfast, Job, LeaseLost, Retry, State, Transaction
from holdfast.handler.block import Block


@pytest.fixture
def app(place: Place) -> Holdfast:
    return Holdfast(place.url, retry=Retry(failures=2, initial=0))


async def test_the_writes_and_the_completion_are_committed_together(app: Holdfast, place: Place) -> None:
    seen: list[Any] = []

    @app.task(completion="staged")
    def pay(job: Job, n: int) -> str:
        with job.prepare() as tx:
            place.write_here(tx, -n)
        with job.complete() as tx:
            place.write_here(tx, n)
            assert tx.connection.execute(f"SELECT count(*) FROM {place.table}").fetchone() == (2,)
            tx.result = f"paid {n}"
            seen.append((place.rows(), app.sync(app.status("default", job.id)).state))
        seen.append((place.rows(), app.sync(app.status("default", job.id)).state))
        return "not this"

    async with app:
        handle = await pay.options(job_id="one").enqueue(7)
        report = await burst(app)
        assert (report.completed, report.lost, report.started) == (1, 0, 1)
        assert await handle.result() == "paid 7"
        assert await transitions(app, "one") == ["enqueue", "claim", "complete"]
    assert seen == [([-7], State.ACTIVE), ([-7, 7], State.COMPLETED)]


async def test_a_caller_who_waits_hears_of_it_at_once(app: Holdfast, place: Place) -> None:
    @app.task()
    def pay(job: Job, n: int) -> int:
        with job.complete(n * 2) as tx:
            place.write_here(tx, n)
        return 0

    async with working(app, poll=30, slots=4):
        assert await asyncio.gather(*(pay.call(n) for n in range(12))) == [2 * n for n in range(12)]
    assert place.rows() == list(range(12))


async def test_a_raise_inside_undoes_the_writes_and_the_attempt_fails(app: Holdfast, place: Place) -> None:
    @app.task()
    def pay(job: Job) -> None:
        with job.complete() as tx:
            place.write_here(tx, job.attempt)
            if job.attempt == 1:
                raise ValueError("no")

    async with app:
        await pay.options(job_id="one").enqueue()
        report = await burst(app)
        assert (report.retried, report.completed) == (1, 1)
    assert place.rows() == [2]


async def test_whoever_hides_the_error_that_undid_its_writes_is_not_completed(app: Holdfast, place: Place) -> None:
    @app.task()
    def pay(job: Job) -> str:
        with contextlib.suppress(ValueError), job.complete("paid") as tx:
            place.write_here(tx, job.attempt)
            if job.attempt == 1:
                raise ValueError("no")
        return "not completed without its writes"

    async with app:
        await pay.options(job_id="one").enqueue()
        report = await burst(app)
        assert (report.retried, report.completed) == (1, 1)
    assert place.rows() == [2]


async def test_a_job_in_the_same_transaction_comes_with_it_or_not_at_all(app: Holdfast, place: Place) -> None:
    @app.task(queue="mail")
    def confirm(n: int) -> int:
        return n

    @app.task()
    def pay(job: Job, n: int) -> None:
        with job.complete() as tx:
            place.write_here(tx, n)
            app.sync(confirm.options(connection=tx.connection, job_id=f"mail-{job.attempt}").enqueue(n))
            if job.attempt == 1:
                raise ValueError("no")

    async with app:
        await pay.enqueue(1)
        await burst(app)
        assert [job.id for job in (await app.jobs(queue="mail")).jobs] == ["mail-2"]
    assert place.rows() == [1]


async def test_a_transaction_that_the_handler_ended_itself_completes_nothing(app: Holdfast, place: Place) -> None:
    @app.task()
    def pay(job: Job) -> None:
        with job.complete() as tx:
            place.write_here(tx, 1)
            if job.attempt == 1:
                tx.connection.execute("ROLLBACK")

    async with app:
        await pay.options(job_id="one").enqueue()
        report = await burst(app)
        assert (report.retried, report.completed) == (1, 1)
        errors = [event.error_type async for event in app.events() if event.transition == "retry"]
    assert errors == ["ConfigError"]
    assert place.rows() == [1]


async def test_psycopgs_own_words_for_a_commit_are_refused_and_its_savepoints_work(on_postgres: PostgresPlace) -> None:
    app, place, kept = Holdfast(on_postgres.url), on_postgres, []

    @app.task(retry=Retry(failures=1))
    def pay(job: Job) -> None:
        with job.complete() as tx:
            kept.append(tx.connection)
            with pytest.raises(psycopg.ProgrammingError, match="forbidden within a Transaction context"):
                tx.connection.commit()
            with contextlib.suppress(psycopg.Error), tx.connection.transaction():
                place.write_here(tx, 1)
                tx.connection.execute("SELECT 1 / 0")
            with tx.connection.cursor() as cursor:
                cursor.executemany(f"INSERT INTO {place.table} VALUES (%s)", [(n,) for n in range(10, 20)])

    async with app:
        await pay.enqueue()
        assert (await burst(app)).completed == 1
        with pytest.raises(AttributeError):
            kept[0].execute("SELECT 1")  # the connection is the pool's again
    assert place.rows() == list(range(10, 20))


async def test_a_lease_that_was_lost_undoes_the_writes(app: Holdfast, place: Place) -> None:
    raised: list[BaseException] = []

    @app.task()
    def pay(job: Job) -> None:
        try:
            with job.complete() as tx:
                place.write_here(tx, job.attempt)
                if job.attempt == 1:
                    job.signal.fire("lease_lost")
        except BaseException as error:
            raised.append(error)
            raise

    async with app:
        await pay.options(job_id="one", retry=Retry(failures=2, initial=0)).enqueue()
        await burst(app)
    (error,) = raised
    assert isinstance(error, LeaseLost)
    assert place.rows() == [2]


async def test_a_time_out_inside_undoes_the_writes(app: Holdfast, place: Place) -> None:
    @app.task(timeout=0.1, retry=Retry(timeouts=1))
    def pay(job: Job) -> None:
        with job.complete() as tx:
            place.write_here(tx, 1)
            until(lambda: job.abort_reason is not None)

    async with app:
        await pay.options(job_id="one").enqueue()
        assert (await burst(app)).failed == 1
        error = (await app.status("default", "one")).error
    assert error is not None
    assert "time-out" in error.message
    assert place.rows() == []


async def test_a_worker_that_gave_the_job_back_meanwhile_undoes_the_writes(on_postgres: PostgresPlace) -> None:
    app, place = Holdfast(on_postgres.url), on_postgres
    inside, go_on, ended = threading.Event(), threading.Event(), []

    @app.task()
    def pay(job: Job) -> None:
        try:
            with job.complete() as tx:
                place.write_here(tx, 1)
                inside.set()
                assert go_on.wait(30)
        except BaseException as error:
            ended.append(error)
            raise

    async with app:
        async with working(app, drain=0, grace=0.1):
            await pay.options(job_id="one").enqueue()
            await eventually(inside.is_set)
        go_on.set()
        (error,) = await eventually(lambda: ended)
        assert (await app.status("default", "one")).state is State.WAITING
    assert isinstance(error, LeaseLost)
    assert place.rows() == []


def test_a_loop_that_is_closed_meanwhile_undoes_the_writes(path: Path) -> None:
    place = SqlitePlace(path)
    store: Any = Holdfast(place.url).store
    loop = asyncio.new_event_loop()
    serving = threading.Thread(target=loop.run_forever)
    serving.start()

    @contextlib.asynccontextmanager
    async def made(in_thread: bool) -> AsyncIterator[Transaction]:
        async with store.begin() as opened:
            with opened.blocking() as connection:
                yield Transaction(connection)

    asyncio.run_coroutine_threadsafe(store.open(), loop).result(30)
    block = Block("job.complete()", loop, made)
    place.write_here(block.__enter__(), 1)
    loop.call_soon_threadsafe(loop.stop)
    serving.join()
    loop.close()
    with pytest.raises(LeaseLost, match="the worker has ended, so nothing of this counts: its writes are undone"):
        block.__exit__(None, None, None)
    assert place.rows() == []
    with sqlite3.connect(path, timeout=0) as other:  # nobody holds the lock
        other.execute("BEGIN IMMEDIATE")
    other.close()
    store.database._stop()


async def test_trouble_of_the_store_costs_no_failure(path: Path) -> None:
    with own_place("sqlite", path) as place:
        app = Holdfast(f"{place.url}?busy_timeout=0.1", retry=Retry(failures=1))
        locked = []

        @app.task()
        def pay(job: Job) -> None:
            if job.attempt == 1:
                locked.append(sqlite3.connect(path, check_same_thread=False, isolation_level=None))
                locked[0].execute("BEGIN IMMEDIATE")
            try:
                with job.complete() as tx:
                    place.write_here(tx, job.attempt)
            finally:
                locked[0].close()

        async with app:
            await pay.options(job_id="one").enqueue()
            report = await burst(app)
            assert (report.released, report.completed, report.failed) == (1, 1, 0)
        assert place.rows() == [2]


# --- atomic


async def test_atomic_is_one_transaction_from_prepare_to_complete(on_postgres: PostgresPlace) -> None:
    app, place = Holdfast(on_postgres.url, retry=Retry(failures=3, initial=0)), on_postgres
    seen: list[list[int]] = []

    @app.task(completion="atomic")
    def pay(job: Job) -> str:
        with job.prepare() as tx:
            place.write_here(tx, job.attempt)
        seen.append(place.rows())
        if job.attempt == 1:
            raise ValueError("between")
        if job.attempt == 2:
            return "paid"  # which is an error: nothing would be committed
        with job.complete("paid") as tx:
            place.write_here(tx, 10)
        return "not this"

    async with app:
        handle = await pay.options(job_id="one").enqueue()
        assert (await burst(app)).completed == 1
        assert await handle.result() == "paid"
        error = [event.error_type async for event in app.events() if event.transition == "retry"]
    assert error == ["ValueError", "ConfigError"]
    assert (seen, place.rows()) == ([[], [], []], [3, 10])


# --- what is refused


@pytest.mark.parametrize("inner", ["prepare", "complete"])
async def test_a_block_inside_another_is_refused_at_once(app: Holdfast, place: Place, inner: str) -> None:
    told: list[str] = []

    @app.task()
    def pay(job: Job) -> None:
        with job.complete() as tx:
            try:
                with getattr(job, inner)():
                    pass
            except ConfigError as error:
                told.append(str(error))
            place.write_here(tx, 1)

    async with app:
        await pay.enqueue()
        assert (await burst(app)).completed == 1
    assert f"job.{inner}() inside the block of job.complete(); leave that one first" in told[0]


async def test_a_coroutine_in_a_thread_of_its_own_writes_with(app: Holdfast, place: Place) -> None:
    @app.task(executor="thread", retry=Retry(failures=5))
    async def pay(job: Job, right: bool) -> None:
        if right:
            with job.complete() as tx:
                place.write_here(tx, 1)
        else:
            async with job.complete():
                pass

    async with app:
        await pay.options(job_id="wrong").enqueue(False)
        await pay.enqueue(True)
        report = await burst(app)
        assert (report.failed, report.completed, report.retried) == (1, 1, 0), "no retry would help"
        error = (await app.status("default", "wrong")).error
    assert error is not None
    assert error.message.endswith("here write `with job.complete()`")
    assert place.rows() == [1]


@pytest.mark.parametrize("blocks", ["in a coroutine", "in the loop"])
async def test_what_would_hold_up_the_loop_is_refused(app: Holdfast, place: Place, blocks: str) -> None:
    if blocks == "in a coroutine":

        @app.task(name="pay")
        async def pay(job: Job) -> None:
            with job.complete():
                pass

    else:

        @app.task(name="pay", executor="inline")
        def pay(job: Job) -> None:
            with job.complete():
                pass

    async with app:
        await app.registry.tasks["pay"].options(job_id="one").enqueue()
        report = await burst(app)
        assert (report.failed, report.retried) == (1, 0)
        error = (await app.status("default", "one")).error
    assert error is not None
    assert "would hold up the worker's event loop: write `async with`" in error.message


async def test_a_store_without_transactions_refuses_at_the_call() -> None:
    app = Holdfast("memory://", retry=Retry(failures=5))

    @app.task()
    def pay(job: Job) -> None:
        with job.complete():
            pass

    async with app:
        await pay.options(job_id="one").enqueue()
        report = await burst(app)
        assert (report.failed, report.retried) == (1, 0)
        error = (await app.status("default", "one")).error
    assert error is not None
    assert error.message.startswith("job.complete(): memory:// has no transactions that a caller could share")
