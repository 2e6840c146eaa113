"""Blocks of `job.prepare()` and `job.complete()`: trouble of the store costs no failure, misuse is refused at once."""

from __future__ import annotations

import contextlib
import itertools
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from own_writes import Place, PostgresPlace, SqlitePlace
from proxy import Proxy
from servers import postgres
from support import burst, transitions

from holdfast import ConfigError, Holdfast, Job, Permanent, Retry, State, StoreBusy, StoreError

RAISE = "DO $$ BEGIN RAISE EXCEPTION 'could not serialize' USING ERRCODE = '{}'; END $$"


@pytest.fixture
def app(place: Place) -> Holdfast:
    return Holdfast(place.url)


async def causes(app: Holdfast, id: str) -> list[tuple[str, str | None, str | None]]:
    """Return how the attempts of a job ended."""
    return [
        (event.transition, event.cause, event.error_type)
        async for event in app.events()
        if event.id == id and event.transition in ("release", "retry", "fail", "complete")
    ]


@pytest.mark.parametrize("where", ["prepare", "statement", "commit"])
async def test_a_connection_that_is_cut_in_a_block_costs_no_failure(on_postgres: PostgresPlace, where: str) -> None:
    async with Proxy(postgres().port) as proxy:
        app, place = Holdfast(on_postgres.url.replace(str(postgres().port), str(proxy.port))), on_postgres

        @app.task(retry=Retry(failures=1))
        async def pay(job: Job) -> None:
            async with job.prepare() as tx:
                if where == "prepare" and job.attempt <= 3:
                    proxy.cut()
                    await place.write(tx, 0)
            async with job.complete() as tx:
                if where == "statement" and job.attempt <= 3:
                    proxy.cut()
                await place.write(tx, job.attempt)
                if where == "commit" and job.attempt <= 3:
                    proxy.cut()

        async with app:
            await pay.options(job_id="one").enqueue()
            report = await burst(app)
            assert (report.released, report.failed, report.retried, report.completed) == (3, 0, 0, 1)
            assert await causes(app, "one") == [
                *[("release", None, "StoreError")] * 3,
                ("complete", None, None),
            ]
            counters = (await app.status("default", "one")).counters
            assert (counters.releases, counters.failures) == (3, 0)
    assert place.rows() == [4]


@pytest.mark.parametrize("code", ["40001", "40P01", "55P03", "53200"])
async def test_what_others_do_to_the_server_costs_no_failure(on_postgres: PostgresPlace, code: str) -> None:
    app, place = Holdfast(on_postgres.url), on_postgres

    @app.task(retry=Retry(failures=1))
    async def pay(job: Job) -> None:
        async with job.complete() as tx:
            await place.write(tx, job.attempt)
            if job.attempt == 1:
                await tx.connection.execute(RAISE.format(code))

    async with app:
        await pay.options(job_id="one").enqueue()
        report = await burst(app)
        assert (report.released, report.retried, report.completed) == (1, 0, 1)
    assert place.rows() == [2]


async def test_a_file_that_another_has_locked_costs_no_failure(path: Path) -> None:
    place = SqlitePlace(path)
    app = Holdfast(f"{place.url}?busy_timeout=0.05")
    raised: list[BaseException] = []

    @app.task(retry=Retry(failures=1))
    async def pay(job: Job) -> None:
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as rival:
            if job.attempt == 1:
                rival.execute("BEGIN IMMEDIATE")
            try:
                async with job.complete() as tx:
                    await place.write(tx, job.attempt)
            except StoreError as error:
                raised.append(error)
                raise

    async with app:
        await pay.options(job_id="one").enqueue()
        report = await burst(app)
        assert (report.released, report.retried, report.completed) == (1, 0, 1)
    assert [type(error) for error in raised] == [StoreBusy]
    assert place.rows() == [2]


async def test_trouble_that_does_not_end_reaches_the_limit_of_releases(on_postgres: PostgresPlace) -> None:
    app = Holdfast(on_postgres.url)

    @app.task(retry=Retry(releases=3))
    async def pay(job: Job) -> None:
        async with job.complete() as tx:
            await tx.connection.execute(RAISE.format("40001"))

    async with app:
        await pay.options(job_id="one").enqueue()
        report = await burst(app)
        assert (report.released, report.failed) == (2, 1)
        assert (await causes(app, "one"))[-1] == ("fail", "release", "StoreBusy")


@pytest.mark.parametrize("wrapper", [RuntimeError, Permanent])
async def test_whoever_raises_his_own_error_from_it_is_handed_back_unless_he_says_otherwise(
    on_postgres: PostgresPlace, wrapper: type[Exception]
) -> None:
    app = Holdfast(on_postgres.url)

    @app.task(retry=Retry(failures=1))
    async def pay(job: Job) -> None:
        try:
            async with job.complete() as tx:
                if job.attempt == 1:
                    await tx.connection.execute(RAISE.format("40001"))
        except StoreError as error:
            raise wrapper("no") from error

    async with app:
        await pay.options(job_id="one").enqueue()
        report = await burst(app)
        permanent = wrapper is Permanent
        assert (report.released, report.completed, report.failed) == ((0, 0, 1) if permanent else (1, 1, 0))


async def test_what_the_handler_does_wrong_is_its_own_failure(app: Holdfast, place: Place) -> None:
    @app.task(retry=Retry(failures=1))
    async def pay(job: Job) -> None:
        async with job.complete() as tx:
            ended = tx.connection.execute("INSERT INTO no_such_table VALUES (1)")
            if not isinstance(tx.connection, sqlite3.Connection):
                await ended

    async with app:
        await pay.options(job_id="one").enqueue()
        assert (await burst(app)).failed == 1
        ((transition, cause, _),) = await causes(app, "one")
        assert (transition, cause) == ("fail", "failure")


BLOCKS = ("prepare", "complete")


@pytest.mark.parametrize(("outer", "inner"), list(itertools.product(BLOCKS, BLOCKS)))
async def test_a_block_inside_another_is_refused_at_once(app: Holdfast, place: Place, outer: str, inner: str) -> None:
    told: list[str] = []

    @app.task(retry=Retry(failures=1))
    async def nested(job: Job) -> None:
        async with getattr(job, outer)() as tx:
            await place.write(tx, 1)
            try:
                async with getattr(job, inner)() as again:
                    await place.write(again, 2)
            except ConfigError as error:
                told.append(str(error))

    async with app:
        await nested.options(job_id="one").enqueue()
        assert (await burst(app)).completed == 1
    assert f"job.{inner}() inside the block of job.{outer}(); leave that one first" in told[0]
    assert place.rows() == [1]


@pytest.mark.parametrize("completion", ["staged", "atomic"])
async def test_an_attempt_prepares_once(on_postgres: PostgresPlace, completion: Any) -> None:
    app, place, told = Holdfast(on_postgres.url), on_postgres, []

    @app.task(completion=completion, retry=Retry(failures=1))
    async def twice(job: Job) -> None:
        async with job.prepare() as tx:
            await place.write(tx, 1)
        try:
            async with job.prepare() as tx:
                await place.write(tx, 2)
        except ConfigError as error:
            told.append(str(error))
        async with job.complete() as tx:
            await place.write(tx, 3)

    async with app:
        await twice.options(job_id="one").enqueue()
        assert (await burst(app)).completed == 1
    assert "has prepared already; an attempt has one job.prepare()" in told[0]
    assert place.rows() == [1, 3]


async def test_whoever_hides_the_error_that_undid_its_writes_is_not_completed(app: Holdfast, place: Place) -> None:
    @app.task(retry=Retry(failures=1))
    async def hides(job: Job) -> int:
        with contextlib.suppress(ValueError):
            async with job.complete() as tx:
                await place.write(tx, 1)
                raise ValueError("no")
        return 1

    async with app:
        await hides.options(job_id="one").enqueue()
        assert (await burst(app)).failed == 1
        record = await app.status("default", "one")
        assert record.error is not None
        assert (record.error.type, record.error.message) == ("ValueError", "no")
    assert place.rows() == []


async def test_whoever_tries_again_after_an_error_that_undid_its_writes_is_completed(
    app: Holdfast, place: Place
) -> None:
    @app.task(retry=Retry(failures=1))
    async def insists(job: Job) -> int:
        for number in range(2):
            with contextlib.suppress(ValueError):
                async with job.complete(number) as tx:
                    await place.write(tx, number)
                    if number == 0:
                        raise ValueError("no")
        return 7

    async with app:
        handle = await insists.options(job_id="one").enqueue()
        assert (await burst(app)).completed == 1
        assert await handle.result() == 1
        assert (await app.status("default", "one")).state is State.COMPLETED
        assert await transitions(app, "one") == ["enqueue", "claim", "complete"]
    assert place.rows() == [1]
