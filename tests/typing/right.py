"""What a type checker must accept, under --strict."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, assert_type

from holdfast import (
    At,
    Blocker,
    Call,
    ChainRecord,
    Continued,
    Cron,
    Dedup,
    Depends,
    EnqueueCounts,
    Every,
    FlowProgress,
    Group,
    Handle,
    Holdfast,
    HookEvent,
    Job,
    JobRecord,
    Node,
    Policy,
    Queue,
    QueueSettings,
    Rate,
    Reply,
    Resource,
    Retry,
    Schedule,
    Task,
    Worker,
    WorkerProcesses,
    current_job,
)
from holdfast.testing import (
    ManualClock,
    Ran,
    advance_to_next,
    assert_enqueued,
    assert_not_enqueued,
    drain,
    failing,
    run_one,
    travel,
)
from holdfast.worker import Report

app = Holdfast("memory://", retry=Retry(failures=5), timeout=timedelta(minutes=1))


@dataclass
class Receipt:
    id: str


@app.task(queue="mail", retry=Retry(failures=5, permanent=(ValueError, "httpx.InvalidURL")), timeout=30)
async def send(to: str, template: str = "welcome") -> Receipt:
    return Receipt(to)


@app.task()
def resize(path: str, *, width: int) -> list[int]:
    return [width]


@app.task()
async def with_job(job: Job, to: str) -> int:
    await job.progress(0.5, "half")
    await job.save({"at": 3})
    job.signal.check()
    return job.attempt


@app.task()
def with_job_in_thread(job: Job, n: int = 0) -> str:
    app.sync(job.progress(0.5))
    return job.id


@app.task(on_failure=with_job_in_thread)
async def nothing() -> None: ...


@app.task()
async def anything(payload: Any) -> None: ...


@app.task()
def whatever(value: object) -> int:
    return 1


@app.task(queue="bank")
async def charge(order: int) -> Receipt:
    return Receipt(str(order))


@app.task()
async def reserve(job: Job, order: int) -> Continued[Receipt]:
    return job.continue_with(charge.options(delay=5), order)


@app.task()
async def branch(job: Job, order: int) -> Receipt | Continued[Receipt]:
    return Receipt("") if order < 0 else job.continue_with(reserve, order=order)


@app.task()
def loop(job: Job, n: int) -> int | Continued[int]:
    return n if n > 9 else job.continue_with(loop, n + 1)


@app.task()
async def gather(job: Job) -> int:
    assert_type(await job.blockers(), list[Blocker])
    return job.position


class Pool:
    """Something that no payload could carry."""


@app.resource
async def pool() -> AsyncIterator[Pool]:
    yield Pool()


@app.resource()
def clock_of_process() -> Iterator[float]:
    yield 1.0


@app.resource(scope="worker")
async def model() -> dict[str, int]:
    return {}


@app.resource(scope="attempt")
def session(job: Job, db: Pool = Depends(pool)) -> list[Pool]:
    return [db]


@app.task
async def bare(to: str) -> Receipt:
    return Receipt(to)


@app.task
def bare_in_thread(job: Job, path: str, *, width: int = 1) -> list[int]:
    return [width]


@app.task
async def given(
    to: str, db: Pool = Depends(pool), job: Job = Depends(Job), *, rows: list[Pool] = Depends(session), n: int = 0
) -> int:
    assert_type(pool(), Pool)
    return job.attempt + n


@app.task(queue="mail")
def job_by_keyword(to: str, *, job: Job = Depends(Job)) -> str:
    return job.id


async def injected() -> None:
    assert_type(pool, Resource[Pool])
    assert_type(clock_of_process, Resource[float])
    assert_type(model, Resource[dict[str, int]])
    assert_type(session, Resource[list[Pool]])
    assert_type(await bare.call("ann"), Receipt)
    assert_type(await bare_in_thread.call("x.png", width=3), list[int])
    assert_type(await given.call("ann", n=3), int)
    assert_type(await job_by_keyword.enqueue(to="ann"), Handle[str])
    with app.override(pool, Pool()):
        assert_type(await given("ann", job=current_job() or Depends(Job)), Any)


async def chained() -> None:
    assert_type(await reserve.call(1), Receipt)
    assert_type(await branch.call(1), Receipt)
    assert_type(await loop.call(1), int)
    handle = await branch.enqueue(1)
    assert_type(await handle.result(), Receipt)
    assert_type(await handle.chain(), ChainRecord)
    assert_type(await branch.complete("o1", Receipt("")), Reply)
    await gather.options(blockers=[handle, (await handle.chain()).ref, ("bank", "o1")]).enqueue()
    flow = app.flow("f")
    assert_type(flow.map(charge, [1, 2]), Group[Receipt])
    assert_type(flow.map(send, ["ann", "bob"]), Group[Receipt])
    assert_type(flow.reduce(flow.map(loop, range(5)), gather.args()), Node[int])
    mixed: Group[object] = flow.group([charge.args(1), gather.args(), nothing.args()])
    assert_type(flow.map(charge, [1])[0], Node[Receipt])
    flow.add(gather.args(), after=[mixed, "name", mixed[0]])
    assert_type(await flow.result(flow.add(charge.args(1))), Receipt)
    assert_type(await flow.progress(), FlowProgress)


def plain_function(job: Job, receipt: Receipt) -> int:
    return len(receipt.id)


async def plain_coroutine(number: int) -> Receipt:
    return Receipt(str(number))


async def main() -> None:
    async with app:
        assert_type(await send.enqueue("ann"), Handle[Receipt])
        assert_type(await send.enqueue("ann", template="x"), Handle[Receipt])
        assert_type(await send.enqueue_nowait("ann", template="x"), Handle[Receipt])
        assert_type(await send.call("ann"), Receipt)
        assert_type(await send.call_within(5, "ann", template="x"), Receipt)
        assert_type(await (await send.enqueue("ann")).result(), Receipt)
        assert_type(await send.result("id"), Receipt)
        assert_type(await send.status("id"), JobRecord)
        assert_type(await resize.call("x.png", width=5), list[int])
        assert_type(await with_job.call("ann"), int)
        assert_type(await with_job_in_thread.call(n=5), str)
        assert_type(await with_job_in_thread.call(), str)
        assert_type(await nothing.call(), None)
        await anything.call({"a": 1})
        await anything.call(payload={"a": 1})  # pyright: ignore[reportCallIssue]  # Any might be a Job, so its name is lost
        assert_type(await whatever.call(5), int)
        special = send.options(job_id="x", delay=timedelta(1), priority=5, dedup=Dedup("k"), on_conflict="update")
        assert_type(await special.call("ann"), Receipt)
        await send.options(run_at=datetime.now(UTC), update_run_at="if_later").enqueue("ann")
        assert_type(send.args("ann"), Call[Receipt])
        assert_type(await send.enqueue_many(send.args(each) for each in ("ann", "bob")), EnqueueCounts)
        await send.enqueue_many([send.args("ann"), resize.args("x.png", width=3)])
        await send.enqueue_many(stream())
        assert_type(await app.queue("plain", handler="mod:fn", concurrency=3).call({"a": 1}, job_id="x"), Any)
        orders = app.queue(
            "orders", payload=Receipt, result=list[int], executor="process", size=50, on_failure=whatever
        )
        assert_type(orders, Queue[Receipt, list[int]])
        assert_type(await orders.options(key="k").call(Receipt("1"), wait=5, priority=3), list[int])
        assert_type(await orders.enqueue(Receipt("1"), delay=5), Handle[list[int]])
        assert_type(await orders.result("id"), list[int])
        assert_type(orders.decode_result(b"[]"), list[int])
        assert_type(orders.args(Receipt("1")), Call[list[int]])
        await orders.enqueue_many(Receipt(str(n)) for n in range(3))
        assert_type(app.queue("a", handler=plain_function), Queue[Receipt, int])
        assert_type(app.queue("b", handler=plain_coroutine), Queue[int, Receipt])
        assert_type(app.queue("c", payload=Receipt), Queue[Receipt, Any])
        assert_type(app.queue("d", result=Receipt), Queue[Any, Receipt])
        assert_type(app.queue("e"), Queue[Any, Any])
        assert_type(await app.worker(["mail"], slots=5).run(burst=True), Report)
        assert_type(app.worker(lease=timedelta(seconds=30), on_stuck="exit", middleware=[around], logger="w"), Worker)
        assert_type(WorkerProcesses("shop:app", 2, ["mail"], slots=5, drain=3.5, name="w"), WorkerProcesses)
        assert_type(await orders.set(concurrency=5, rate=Rate(3), result_ttl=60, clear=["paused"]), QueueSettings)
        assert_type(await orders.adjust("send", failures=5, timeout=timedelta(minutes=1)), Policy)
        assert_type(await send.adjust(failures=None, jitter=0.5, clear=["timeout"]), Policy)
        assert_type(await drain(app), list[Ran])
        every = Every(timedelta(minutes=5), anchor=datetime.now(UTC))
        assert_type(await app.schedules.add("s", every, send.args("ann"), catch_up="all"), Schedule)
        assert_type(await app.schedules.change("s", spec=At(1.8e9), overlap="skip", clear=["limit"]), Schedule)
        assert_type(await app.schedules.list(), list[Schedule])
        assert_type((await app.schedules.trigger("s")).id, str)
    app.schedule("nightly", Cron("0 3 * * *", tz="Europe/Berlin"), app.queue("plain").args({"a": 1}, key="k"))
    assert_type(app.sync(send.call("ann")), Receipt)
    for event in app.sync.each(app.events(follow=True)):
        assert_type(event.queue, str)


async def stream() -> AsyncIterator[Call[Receipt]]:
    yield send.args("ann")


def batch() -> Iterator[Call[Any]]:
    yield nothing.args()


@app.on("complete")
async def heard(happening: HookEvent) -> None:
    assert_type(happening.id, str | None)


@app.on("*")
def heard_too(happening: HookEvent) -> None: ...


@app.middleware
async def around(job: Job, next: Any) -> Any:
    return await next()


def taken(task: Task[[int], str]) -> None:
    """Tasks may be handed around by their type."""


clock = ManualClock()
assert_type(clock(), int)
assert_type(current_job(), Job | None)


async def tested(record: JobRecord) -> None:
    """What users' own tests call."""
    assert_type(send.decode_args(record), dict[str, Any])
    assert_type(await assert_enqueued(app, send, ["ann"], {}, key="k", delay=5, tags=["a"], times=1), JobRecord)
    await assert_not_enqueued(app, send, containing={"to": "ann"}, state="failed")
    with failing(send, ValueError("no"), times=2):
        assert_type(await run_one(app, raise_errors=True), Ran)
    assert_type(await advance_to_next(app, clock), float)
    assert_type(await travel(app, clock, timedelta(days=1)), list[Ran])
    assert_type(clock.advance_to(datetime.now(UTC)), int)
