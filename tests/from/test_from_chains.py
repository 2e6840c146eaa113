"""What docs/from says of chains, blockers and writes that commit with a job's completion."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest
from support import burst, eventually, working

from holdfast import ConfigError, Continued, Holdfast, Job, JobMissing
from holdfast.testing import drain


async def test_a_chain_gives_the_result_of_its_last_job(app: Holdfast) -> None:
    @app.task()
    async def second(number: int) -> int:
        return number + 1

    @app.task()
    async def first(job: Job, number: int) -> Continued[int]:
        return job.continue_with(second, number * 10)

    async with app:
        handle = await first.options(job_id="a").enqueue(4)
        await drain(app)
        assert await handle.result() == 41
        chain = await app.chain("default", "a")
    assert (chain.state, chain.position) == ("completed", 1)


async def test_a_chain_is_completed_from_outside(app: Holdfast) -> None:
    @app.task()
    async def approve() -> str:
        return "never"

    async with app:
        handle = await approve.options(job_id="a", delay=3600).enqueue()
        assert await approve.complete("a", "approved")
        assert await handle.result() == "approved"


async def test_deleting_a_chain_is_refused_while_others_wait_for_it(app: Holdfast) -> None:
    @app.task()
    async def work() -> None: ...

    async with app:
        first = await work.options(job_id="a", delay=60).enqueue()
        second = await work.options(job_id="b", blockers=[first]).enqueue()
        refused = await app.delete_chain("default", "a")
        assert (refused.reply, [each.id for each in refused.waiting]) == ("wrong_state", ["b"])
        assert (await app.delete_chain("default", "a", cascade=True)).chains == 2
        with pytest.raises(JobMissing):
            await second.job()


async def test_chains_that_wait_for_each_other_are_deleted_together(app: Holdfast) -> None:
    @app.task()
    async def work() -> None: ...

    async with app:
        first = await work.options(job_id="a", delay=60).enqueue()
        await work.options(job_id="b", blockers=[first]).enqueue()
        answers = await app.delete_chains([("default", "a"), ("default", "b")])
        assert [answer.reply for answer in answers] == ["ok", "ok"]
        assert (await app.jobs()).jobs == []


async def test_blocked_means_waiting_for_other_jobs(app: Holdfast) -> None:
    @app.task()
    async def work(number: int) -> int:
        return number

    @app.task()
    async def total(job: Job) -> int:
        return sum(each.result for each in await job.blockers())

    async with app:
        parts = [await work.enqueue(number) for number in (1, 2, 3)]
        handle = await total.options(blockers=parts).enqueue()
        assert handle.state == "blocked"
        await drain(app)
        assert await handle.result() == 6


async def test_a_flow_fans_out_and_in(app: Holdfast) -> None:
    @app.task()
    async def square(number: int) -> int:
        return number * number

    @app.task()
    async def total(job: Job) -> int:
        return sum(each.result for each in await job.blockers())

    flow = app.flow("f")
    end = flow.reduce(flow.map(square, [1, 2, 3]), total.args())
    async with app:
        await flow.start()
        await drain(app)
        assert await flow.result(end) == 14


async def test_a_handlers_writes_commit_with_its_completion(tmp_path: Path) -> None:
    app = Holdfast(f"sqlite:///{tmp_path}/jobs.db")

    @app.task()
    async def pay(job: Job, order: int) -> str:
        async with job.complete() as tx:
            tx.connection.execute("INSERT INTO payments VALUES (?)", (order,))
            tx.result = f"paid {order}"
        return tx.result

    async with app:
        connection = sqlite3.connect(tmp_path / "jobs.db")
        connection.execute("CREATE TABLE payments (id INTEGER)")
        connection.commit()
        handle = await pay.enqueue(7)
        await burst(app)
        assert await handle.result() == "paid 7"
        assert connection.execute("SELECT id FROM payments").fetchall() == [(7,)]
        connection.close()


async def test_a_def_handlers_writes_commit_with_its_completion(tmp_path: Path) -> None:
    app = Holdfast(f"sqlite:///{tmp_path}/jobs.db")

    @app.task()
    def pay(job: Job, order: int) -> str:
        with job.complete(f"paid {order}") as tx:
            tx.connection.execute("INSERT INTO payments VALUES (?)", (order,))
        return tx.result

    async with app:
        connection = sqlite3.connect(tmp_path / "jobs.db")
        connection.execute("CREATE TABLE payments (id INTEGER)")
        connection.commit()
        handle = await pay.enqueue(7)
        await burst(app)
        assert await handle.result() == "paid 7"
        assert connection.execute("SELECT id FROM payments").fetchall() == [(7,)]
        connection.close()


def test_staged_is_the_default_and_redis_refuses_both(app: Holdfast) -> None:
    @app.task()
    async def work() -> None: ...

    assert work.setting("completion") == "staged"
    redis = Holdfast("redis://localhost")
    with pytest.raises(ConfigError):
        redis.task(completion="staged")(work.fn)


async def test_a_job_is_leased_from_its_claim_on(app: Holdfast) -> None:
    gate = asyncio.Event()

    @app.task()
    async def work(job: Job) -> None:
        await gate.wait()

    async with working(app) as running:
        handle = await work.enqueue()
        await eventually(lambda: running.worker.active)
        (info,) = await app.workers()
        job = await handle.job()
        gate.set()
        await handle.result()
    assert (job.state, job.worker, info.active) == ("active", info.session.id, 1)
