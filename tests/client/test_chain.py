"""Chains and blockers as users see them: handlers that go on, jobs that wait, completion from outside."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import places
import pytest
from support import burst, eventually, working

from holdfast import (
    Blocker,
    ChainRef,
    ConfigError,
    Continued,
    Dedup,
    Holdfast,
    Job,
    JobCancelled,
    JobFailed,
    JobMissing,
    JobTimeout,
    Permanent,
    Reply,
    Retry,
    State,
)
from holdfast.testing import drain


@dataclass
class Receipt:
    """What a chain of these tests ends with."""

    order: int
    paid: bool


@pytest.fixture(params=places.STORES)
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Holdfast]:
    with places.place(request.param, tmp_path) as url:
        yield Holdfast(url, retry=Retry(failures=1))


class Shop:
    """A pipeline of three tasks in two queues."""

    def __init__(self, app: Holdfast) -> None:
        @app.task(queue="bank")
        async def charge(order: int) -> Receipt:
            if order < 0:
                raise Permanent("no such order")
            return Receipt(order, True)

        @app.task(queue="shop")
        async def pack(job: Job, order: int) -> Receipt | Continued[Receipt]:
            return Receipt(order, False) if order == 0 else job.continue_with(charge, order)

        @app.task(queue="shop")
        async def reserve(job: Job, order: int) -> Continued[Receipt]:
            return job.continue_with(pack, order)

        self.charge, self.pack, self.reserve = charge, pack, reserve


async def test_call_gives_the_result_of_the_chain(app: Holdfast) -> None:
    shop = Shop(app)
    async with working(app):
        assert await shop.reserve.call(7) == Receipt(7, True)
        assert await shop.reserve.call(0) == Receipt(0, False)


async def test_a_handle_leads_to_the_chain(app: Holdfast) -> None:
    shop = Shop(app)
    async with working(app):
        handle = await shop.reserve.options(job_id="o7").enqueue(7)
        assert await handle.result() == Receipt(7, True)
        chain = await handle.chain()
        assert (chain.ref, chain.state, chain.position) == (ChainRef("shop", "o7", handle.run), State.COMPLETED, 2)
        assert chain.current.queue == "bank"
        assert await shop.reserve.result("o7") == Receipt(7, True)
        later = await app.client.wait("bank", chain.current.id, chain.current.run, 5)
        assert shop.charge.decode_result(later) == Receipt(7, True)
        middle = [job for job in (await app.jobs(chain=chain.ref)).jobs if job.position == 1]
        assert [(job.task, job.continued) for job in middle] == [("pack", True)]
        assert await app.client.wait("shop", middle[0].id, middle[0].run, 5) == later
        again = await shop.reserve.options(job_id="o7").enqueue(8)
        assert (again.status, await again.result()) == ("completed", Receipt(7, True))


async def test_a_chain_that_fails_raises_for_whoever_waits(app: Holdfast) -> None:
    shop = Shop(app)
    async with working(app):
        with pytest.raises(JobFailed, match="no such order"):
            await shop.reserve.call(-1)
        (chain,) = (await app.chains(state="failed")).chains
        assert (chain.task, chain.error and chain.error.message) == ("reserve", "no such order")
        assert (await app.chains(queue="bank")).chains == []


async def test_a_loop_is_a_chain(app: Holdfast) -> None:
    @app.task()
    def count(job: Job, n: int) -> int | Continued[int]:
        return n if n == 20 else job.continue_with(count, n + 1)

    async with working(app):
        handle = await count.enqueue(0)
        assert await handle.result() == 20
        assert (await handle.chain()).position == 20


async def test_a_job_knows_its_place(app: Holdfast) -> None:
    seen: list[tuple[ChainRef, int]] = []

    @app.task()
    async def step(job: Job, n: int) -> int | Continued[int]:
        seen.append((job.chain, job.position))
        return n if n == 0 else job.continue_with(step, n - 1)

    async with app:
        handle = await step.enqueue(2)
        await burst(app)
    first = ChainRef("default", handle.id, handle.run)
    assert seen == [(first, 0), (first, 1), (first, 2)]


async def test_a_continuation_has_options(app: Holdfast) -> None:
    @app.task(queue="slow")
    async def later(n: int) -> int:
        return n

    @app.task()
    async def now(job: Job, n: int) -> Continued[int]:
        return job.continue_with(later.options(delay=3600, priority=5, headers={"a": "b"}), n)

    async with app:
        handle = await now.enqueue(1)
        await burst(app)
        chain = await handle.chain()
        record = await app.status(chain.current.queue, chain.current.id)
        assert (record.state, record.priority, record.headers) == (State.SCHEDULED, 5, {"a": "b"})
        with pytest.raises(JobTimeout):
            await handle.result(0.01)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"job_id": "x"}, "job_id= is not for a job that continues"),
        ({"dedup": Dedup("k")}, "dedup= is not for a job that continues"),
        ({"on_conflict": "update"}, "its id is new"),
    ],
)
async def test_what_a_chain_decides_is_no_option_of_a_continuation(options: dict[str, object], words: str) -> None:
    app = Holdfast("memory://", retry=Retry(failures=1))

    @app.task()
    async def next_one() -> int:
        return 1

    @app.task()
    async def first(job: Job) -> Continued[int]:
        return job.continue_with(next_one.options(**options))  # type: ignore[arg-type]

    async with working(app):
        with pytest.raises(JobFailed, match=words):
            await first.call()


async def test_tasks_of_a_chain_read_each_others_results() -> None:
    app = Holdfast("memory://", retry=Retry(failures=1))

    @app.task(result_codec="msgpack")
    async def packed() -> int:
        return 1

    @app.task()
    async def first(job: Job) -> Continued[int]:
        return job.continue_with(packed)

    async with working(app):
        with pytest.raises(JobFailed, match="its result codec is another"):
            await first.call()


async def test_a_chain_does_not_go_on_in_a_store_where_nobody_would_see_it(tmp_path: Path) -> None:
    app = Holdfast(f"sqlite:///{tmp_path}/here.db", retry=Retry(failures=1))
    elsewhere = Holdfast(f"sqlite:///{tmp_path}/there.db")

    @elsewhere.task(queue="far")
    async def far() -> int:
        return 1

    @app.task()
    async def first(job: Job) -> Continued[int]:
        return job.continue_with(far)

    async with working(app):
        with pytest.raises(
            JobFailed, match=r"continue_with\(far\): this chain is in '.*/here.db', .* on '.*/there.db'"
        ):
            await first.call()
        assert [job.task for job in (await app.jobs()).jobs] == ["first"]


async def test_a_chain_goes_on_with_a_task_of_another_app_on_the_same_store(tmp_path: Path) -> None:
    app, other = Holdfast(f"sqlite:///{tmp_path}/jobs.db"), Holdfast(f"sqlite:///{tmp_path}/jobs.db?history=5000")

    @other.task(queue="next")
    async def last(number: int) -> int:
        return number + 1

    @app.task()
    async def first(job: Job) -> Continued[int]:
        return job.continue_with(last, 1)

    async with working(app), working(other):
        assert await first.call() == 2


async def test_a_chain_runs_in_place() -> None:
    app = Holdfast("memory://")
    shop = Shop(app)
    async with app:
        handle = await shop.reserve.enqueue(3)
        ran = await drain(app)
        assert [(each.task, each.result) for each in ran] == [
            ("reserve", None),
            ("pack", None),
            ("charge", Receipt(3, True)),
        ]
        assert await handle.result() == Receipt(3, True)


async def test_a_chain_goes_on_with_tasks_alone() -> None:
    app = Holdfast("memory://", retry=Retry(failures=1))

    @app.task()
    async def first(job: Job) -> Any:
        return job.continue_with("second")  # type: ignore[arg-type]

    async with app:
        handle = await first.enqueue()
        await burst(app)
        with pytest.raises(JobFailed, match=r"continue_with\('second'\): give a task"):
            await handle.result()


async def test_update_of_a_later_job_raises(app: Holdfast) -> None:
    shop = Shop(app)
    async with app:
        handle = await shop.reserve.enqueue(3)
        await burst(app, "shop", slots=1)
        chain = await handle.chain()
        late = shop.charge.options(job_id=chain.current.id, on_conflict="update")
        with pytest.raises(ConfigError, match=r"is a later job of a chain, which on_conflict=\"update\" cannot change"):
            await late.enqueue(9)
        assert (await app.enqueue_many([late.args(9)])).refused == 1


# --- from outside


async def test_a_chain_is_approved_from_outside_while_nobody_works_on_it(app: Holdfast) -> None:
    shop = Shop(app)
    async with app:
        handle = await shop.reserve.enqueue(3)
        await burst(app, "shop", slots=1)
        waiter = asyncio.create_task(handle.result())
        assert await shop.reserve.complete(handle.id, Receipt(3, False)) is Reply.OK
        assert await waiter == Receipt(3, False)
        assert await shop.reserve.complete(handle.id, Receipt(3, True)) is Reply.WRONG_STATE
        await burst(app)
        assert await handle.result() == Receipt(3, False)


async def test_a_running_handler_hears_that_its_chain_was_completed_elsewhere(app: Holdfast) -> None:
    heard: list[str] = []
    started = asyncio.Event()

    @app.task()
    async def wait_for_approval(job: Job) -> str:
        started.set()
        try:
            heard.append(await job.signal.wait())
        except asyncio.CancelledError:
            heard.append(str(job.abort_reason))
            raise
        return "mine"

    @app.task()
    async def ask(job: Job) -> Continued[str]:
        return job.continue_with(wait_for_approval)

    async with working(app):
        handle = await ask.enqueue()
        await started.wait()
        assert await app.complete_chain("default", handle.id, "approved") is Reply.OK
        assert await handle.result() == "approved"
        await eventually(lambda: heard == ["completed_elsewhere"])


async def test_complete_chain_of_nobody_says_so(app: Holdfast) -> None:
    async with app:
        with pytest.raises(JobMissing, match="there is no job default/nobody"):
            await app.complete_chain("default", "nobody", 1)


async def test_cancelling_a_handle_cancels_the_chain(app: Holdfast) -> None:
    shop = Shop(app)
    async with app:
        handle = await shop.reserve.enqueue(3)
        await burst(app, "shop", slots=1)
        assert (await handle.cancel()).reply is Reply.OK
        with pytest.raises(JobCancelled):
            await handle.result()
        again = await handle.cancel()
        assert (again.reply, again.state) == (Reply.WRONG_STATE, State.CANCELLED)


async def test_a_chain_that_goes_on_while_it_is_cancelled_is_cancelled(
    app: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    @app.task(queue="c")
    async def last() -> None: ...

    @app.task(queue="b")
    async def second(job: Job) -> Continued[None]:
        return job.continue_with(last)

    @app.task(queue="a")
    async def first(job: Job) -> Continued[None]:
        return job.continue_with(second)

    cancel = app.store.cancel

    async def late(queue: str, *rest: Any) -> Any:
        if queue == "b":
            await burst(app, "b")  # between the look at the chain and the cancel of its current job
        return await cancel(queue, *rest)

    async with app:
        handle = await first.enqueue()
        await burst(app, "a")
        monkeypatch.setattr(app.store, "cancel", late)
        answer = await handle.cancel()
        assert (answer.reply, answer.state) == (Reply.OK, State.WAITING)
        with pytest.raises(JobCancelled):
            await handle.result()


async def test_cancelling_a_chain_says_whether_it_had_a_successor(app: Holdfast) -> None:
    shop = Shop(app)
    async with app:
        await shop.reserve.options(job_id="j").enqueue(3)
        await burst(app, "shop", slots=1)
        again = await shop.reserve.options(job_id="j", on_conflict="update").enqueue(3)
        assert again.status == "successor"
        answer = await app.cancel("shop", "j")
        assert (answer.reply, answer.successor) == (Reply.OK, True)


async def test_a_chain_is_deleted_with_all_its_jobs(app: Holdfast) -> None:
    shop = Shop(app)
    async with app:
        handle = await shop.reserve.enqueue(3)
        await burst(app)
        waiting = await shop.charge.options(blockers=[("shop", handle.id)], delay=3600).enqueue(1)
        assert (await app.delete_chain("shop", handle.id)).reply is Reply.OK, "a chain that is over blocks nobody"
        assert [job.id for job in (await app.jobs()).jobs] == [waiting.id]


# --- blockers


async def test_a_job_sees_the_results_of_its_blockers_in_order(app: Holdfast) -> None:
    shop = Shop(app)
    seen: list[Blocker] = []

    @app.task()
    async def total(job: Job) -> int:
        seen.extend(await job.blockers())
        return sum(each.result.order for each in seen)

    async with working(app):
        handles = [await shop.reserve.enqueue(number) for number in range(1, 6)]
        assert await total.options(blockers=handles).call() == 15
        assert [each.result for each in seen] == [Receipt(number, True) for number in range(1, 6)]
        assert [each.id for each in seen] == [handle.id for handle in handles]


async def test_a_failed_blocker_fails_the_job(app: Holdfast) -> None:
    shop = Shop(app)
    async with working(app):
        bad = await shop.charge.enqueue(-1)
        with pytest.raises(JobFailed, match=r"it waited for 'bank/.*', which did not complete"):
            await shop.charge.options(blockers=[bad]).call(2)


async def test_an_ignored_failure_is_seen_by_the_handler(app: Holdfast) -> None:
    shop = Shop(app)

    @app.task()
    async def look(job: Job) -> list[str]:
        return [each.error.message if each.error else str(each.state) for each in await job.blockers()]

    async with working(app):
        bad, good = await shop.charge.enqueue(-1), await shop.charge.enqueue(1)
        seen = await look.options(blockers=[bad, good], on_blocker_failed="ignore").call()
        assert seen == ["no such order", "completed"]


async def test_a_plain_queue_waits_as_well(app: Holdfast) -> None:
    shop = Shop(app)
    async with app:
        first = await shop.charge.enqueue(1)
        handle = await app.queue("plain").enqueue({"a": 1}, blockers=(first,))
        assert handle.state is State.BLOCKED
        await burst(app, "bank")
        await eventually(lambda: _is(handle.job, State.WAITING))


async def _is(look: object, state: State) -> bool:
    return (await look()).state is state  # type: ignore[operator]


async def test_a_job_cannot_wait_for_itself(app: Holdfast) -> None:
    shop = Shop(app)
    async with app:
        with pytest.raises(ConfigError, match="blockers: bank/j cannot wait for itself"):
            await shop.charge.options(job_id="j", blockers=[("bank", "j")]).enqueue(3)
        with pytest.raises(ConfigError, match="blockers: plain/j cannot wait for itself"):
            await app.queue("plain").enqueue(3, job_id="j", blockers=[("plain", "j")])
        assert not (await app.jobs()).jobs
        before = await shop.charge.options(job_id="j", result_ttl=0).enqueue(3)
        await burst(app, "bank")
        again = await shop.charge.options(job_id="j", blockers=[before], on_blocker_failed="ignore").enqueue(3)
        await burst(app, "bank")
        assert (await again.job()).state is State.COMPLETED, "an earlier run of the id is another job"


@pytest.mark.parametrize("whom", ["first", "itself"])
async def test_a_continuation_cannot_wait_for_its_own_chain(app: Holdfast, whom: str) -> None:
    @app.task(queue="line")
    async def step(job: Job, left: int) -> int | Continued[int]:
        if left > 1:
            return job.continue_with(step, left - 1)
        awaited = ("line", "j") if whom == "first" else (job.queue, job.id)
        return job.continue_with(step.options(blockers=[awaited]), 0)

    async with app:
        handle = await step.options(job_id="j").enqueue(3)
        await burst(app, "line")
        with pytest.raises(JobFailed, match=r"continue_with\(step\): line/.* is of its own chain, which cannot end"):
            await handle.result()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"blockers": 7}, "blockers=7: a list of"),
        ({"blockers": "j"}, "blockers='j': a list of"),
        ({"blockers": ["j"]}, "neither a handle, nor a job, nor"),
        ({"blockers": [("q", "j", "1")]}, "neither a handle, nor a job, nor"),
        ({"blockers": [("q",)]}, "neither a handle, nor a job, nor"),
        ({"blockers": [("q", "j", -1)]}, "no run has this number"),
        ({"blockers": [("q", "j", 2**70)]}, "no run has this number"),
        ({"blockers": [("q", "j\0")]}, "it holds a NUL character"),
        ({"blockers": [("q\ud800", "j")]}, "it holds half a surrogate pair"),
        ({"blockers": [("q", "j")], "on_conflict": "update"}, "exclude each other"),
        ({"on_blocker_failed": "wait"}, '"fail", "cancel" or "ignore"'),
    ],
)
def test_wrong_blockers_are_refused_at_once(options: dict[str, object], words: str) -> None:
    app = Holdfast("memory://")

    @app.task()
    async def job() -> None: ...

    with pytest.raises(ConfigError, match=words):
        job.options(**options)  # type: ignore[arg-type]


# --- with a handler's own transaction


async def test_a_continuation_is_committed_with_the_handlers_writes(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE mine (n INTEGER)")
    connection.close()
    app = Holdfast(f"sqlite:///{path}", retry=Retry(failures=2, initial=0))

    @app.task(queue="next")
    async def last(n: int) -> int:
        return n

    @app.task()
    async def first(job: Job, n: int) -> Continued[int]:
        async with job.complete() as tx:
            tx.connection.execute("INSERT INTO mine VALUES (?)", (n,))
            tx.result = job.continue_with(last, n + 1)
            if job.attempt == 1:
                raise RuntimeError("undo it all")
        return job.continue_with(last, n)

    async with app:
        handle = await first.enqueue(1)
        waiting = await last.options(blockers=[handle]).enqueue(0)
        await burst(app, "default")
        assert [job.position for job in (await app.jobs(queue="next", state="waiting")).jobs] == [1]
        assert (await waiting.job()).state is State.BLOCKED
        await burst(app)
        assert await handle.result() == 2
        assert await waiting.result() == 0
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT n FROM mine").fetchall() == [(1,)]
    connection.close()


async def test_a_transaction_that_is_undone_lets_go_of_the_file_though_its_cursor_is_kept(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE mine (n INTEGER)")
        connection.executemany("INSERT INTO mine VALUES (?)", [(1,), (2,)])
    connection.close()
    app, kept = Holdfast(f"sqlite:///{path}?busy_timeout=1"), list[sqlite3.Cursor]()

    @app.task()
    async def work(job: Job) -> None:
        async with job.complete() as tx:
            kept.append(tx.connection.execute("UPDATE mine SET n = n + 1 RETURNING n"))
            kept.append(tx.connection.execute("SELECT n FROM mine"))
            raise Permanent("no")

    async with working(app):
        with pytest.raises(JobFailed):
            await work.call()
        with closing(sqlite3.connect(path, timeout=1)) as connection, connection:
            assert connection.execute("SELECT n FROM mine").fetchall() == [(1,), (2,)]
            connection.execute("INSERT INTO mine VALUES (3)")


async def test_a_chain_that_was_cancelled_does_not_go_on_and_its_writes_are_undone(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE mine (n INTEGER)")
    connection.close()
    app = Holdfast(f"sqlite:///{path}")
    started = asyncio.Event()

    @app.task(queue="next")
    async def last() -> None: ...

    @app.task()
    async def first(job: Job) -> Continued[None]:
        started.set()
        await job.signal.wait()
        async with job.complete() as tx:
            tx.connection.execute("INSERT INTO mine VALUES (1)")
            tx.result = job.continue_with(last)
        return job.continue_with(last)

    async with working(app):
        handle = await first.enqueue()
        await started.wait()
        assert (await handle.cancel(running="signal")).signalled
        with pytest.raises(JobCancelled):
            await handle.result()
        assert (await app.jobs(queue="next")).jobs == []
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT n FROM mine").fetchall() == []
    connection.close()
