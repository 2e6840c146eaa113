"""PostgreSQL as it comes, with tables that autovacuum has analyzed at any moment of a queue's life.

The planner's statistics are of a moment, and its kept plans outlive it: none of them may decide what a call costs.
Costs are counted in rows and entries that were read, beside those of a small store that was never analyzed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import closing
from typing import Any, Literal

import psycopg
import pytest
from aged import DAY_MS, Aged, aged
from servers import stock_postgres

from holdfast.client import new_id
from holdfast.core.bound import FEW_QUEUES
from holdfast.core.chain import BlockerRef, ChainRef
from holdfast.core.job import ErrorRecord
from holdfast.core.state import State
from holdfast.store import pages
from holdfast.store.contract import (
    Complete,
    Conflict,
    Continuation,
    DedupSpec,
    Failed,
    Filter,
    NewJob,
    Released,
    Retried,
)
from holdfast.store.contract import ScheduleChange as Change
from holdfast.store.postgres.read import page
from holdfast.store.postgres.read.page import PostgresPages
from holdfast.store.postgres.scan import PostgresScan
from holdfast.store.scan import open_scan

SMALL, LARGE = 40, 1_000
ERROR = ErrorRecord(type="E", message="no")
LETTERS = str.maketrans("0123456789", "ghijklmnop")
Work = Callable[[Aged], Awaitable[Any]]


async def enqueue(it: Aged) -> None:
    await it.add(10, fresh=True)


async def enqueue_ids(it: Aged) -> None:
    jobs = await it.add(10)
    await it.store.enqueue("plain", jobs)


async def enqueue_keyed(it: Aged) -> None:
    await it.add(5, "keyed", key="new")
    await it.add(5, "keyed", key="k1")


async def enqueue_once(it: Aged) -> None:
    await it.add(1, "dedup", dedup=DedupSpec(key="same"))
    await it.add(1, "dedup", dedup=DedupSpec(key=new_id()))


async def update(it: Aged) -> None:
    jobs = await it.add(5)
    await it.store.enqueue("plain", jobs, Conflict(on_conflict="update"))


async def cancel(it: Aged) -> None:
    for job in await it.add(3):
        await it.store.cancel("plain", job.id)
        await it.store.cancel("plain", job.id)


async def claim(it: Aged) -> None:
    jobs = await it.claim(10)
    assert len(jobs) == 10
    await it.store.settle_and_claim(it.session, [Complete(job.lease, b"null") for job in jobs], (), 0)


async def claim_keyed(it: Aged) -> None:
    jobs = await it.claim(10, "keyed")
    assert len(jobs) == 10
    await it.store.settle_and_claim(it.session, [Complete(job.lease, b"null") for job in jobs], (), 0)


async def retry(it: Aged) -> None:
    jobs = await it.claim(4)
    ends = [
        Retried(jobs[0].lease, ERROR),
        Failed(jobs[1].lease, ERROR),
        Released(jobs[2].lease),
        Released(jobs[3].lease, 1000),
    ]
    await it.store.settle_and_claim(it.session, ends, (), 0)
    it.clock.now_ms += 3600_000
    assert len(await it.claim(4)) == 4


async def promote(it: Aged) -> None:
    for job in await it.add(3, delay_ms=DAY_MS):
        assert await it.store.promote("plain", job.id) == "ok"


async def chain(it: Aged) -> None:
    jobs = await it.claim(5)
    then = [Continuation("next", NewJob(id=new_id(), task="t", payload=b"{}")) for _ in jobs]
    ends = [Complete(job.lease, b"null", None, next_) for job, next_ in zip(jobs, then, strict=True)]
    await it.store.settle_and_claim(it.session, ends, (), 0)
    last = await it.claim(5, "next")
    assert len(last) == 5
    await it.store.settle_and_claim(it.session, [Complete(job.lease, b"null") for job in last], (), 0)
    for job in jobs:
        found = await it.store.chain("plain", job.lease.id)
        assert found is not None
        assert found.state == "completed"
    await it.store.delete_chain("plain", jobs[0].lease.id)


async def unblock(it: Aged) -> None:
    (first,) = await it.add(1, "first")
    await it.add(3, "second", blockers=(BlockerRef("first", first.id),))
    (job,) = await it.claim(1, "first")
    await it.store.settle_and_claim(it.session, [Complete(job.lease, b"null")], (), 0)
    assert len(await it.claim(3, "second")) == 3


async def reap(it: Aged) -> None:
    queue = new_id()  # of its own: what was reaped comes first there, and in small company
    other = it.worker(queue)
    await it.store.register(other)
    await it.add(3, queue, fresh=True)
    jobs = await it.claim(3, queue, other)
    await it.store.leave(other)
    assert (await it.store.reap(queue)).returned == len(jobs) == 3


async def many_queues(it: Aged) -> None:
    """Queues that have nothing, one that has, and those with all that is kept."""
    queues = [*(f"none-{number}" for number in range(2 * FEW_QUEUES)), "plain", "keyed", "next"]
    other = it.worker(*queues)
    await it.store.register(other)
    turn = await it.store.settle_and_claim(other, [], queues, 3)
    assert len(turn.claimed) == 3
    done = [Complete(job.lease, b"null") for job in turn.claimed]
    await it.store.settle_and_claim(other, done, (), 0)
    await it.store.chores(queues, other.id)
    await it.store.leave(other)


async def upkeep(it: Aged) -> None:
    await it.add(5, "short", fresh=True)
    done = [Complete(job.lease, b"null", 1) for job in await it.claim(5, "short")]
    await it.store.settle_and_claim(it.session, done, (), 0)
    it.clock.now_ms += 1000
    assert (await it.store.expire("short")).runs == 5
    await it.store.expire("plain", 20)
    await it.store.extend(it.session)


async def fire(it: Aged) -> None:
    name = new_id()
    revision = new_id()
    now = it.clock.now_ms
    await it.store.put_schedule(
        Change(queue="plain", name=name, expected=None, revision=revision, next_at_ms=now, body=b"{}")
    )
    assert [row.name for row in (await it.store.due(["plain"])).rows] == [name]
    job = NewJob(id=new_id(), task="t", payload=b"{}")
    gone = Change(
        queue="plain", name=name, expected=revision, revision=new_id(), next_at_ms=now + 20 * DAY_MS, body=b"{}"
    )
    assert (await it.store.put_schedule(gone, [job])).reply == "ok"


async def look(it: Aged) -> None:
    (job,) = await it.add(1)
    (answer,) = await it.store.enqueue("plain", [job])
    assert await it.store.get("plain", job.id)
    assert await it.store.get("plain", job.id, answer.run)
    await it.store.cancel("plain", job.id)
    assert await it.store.get("plain", job.id)
    assert await it.store.pending(["plain"])
    assert len((await it.store.jobs(Filter(), limit=5)).jobs) == 5
    await it.store.held(it.session)


async def find(it: Aged) -> None:
    await it.add(1, id=(prefix := f"found-{new_id()}") + "x")
    (job,) = await it.claim(1)
    error = ErrorRecord(type="E", message=prefix.translate(LETTERS))  # numbers do not tell errors apart
    await it.store.settle_and_claim(it.session, [Failed(job.lease, error)], (), 0)
    assert len((await it.store.jobs(Filter(id_prefix=prefix))).jobs) == 1
    assert len((await it.store.jobs(Filter(signature=error.signature))).jobs) == 1
    assert (await it.store.jobs(Filter(states=(State.FAILED,)), limit=1)).jobs


async def measure(it: Aged) -> None:
    assert (await it.store.measure()).queues
    (first,) = await it.add(1, delay_ms=DAY_MS)
    assert (await it.store.dependants("plain", first.id)).count == 0


async def glance(it: Aged) -> None:
    assert await it.store.queues()
    assert await it.store.sessions()


async def read(it: Aged) -> None:
    end = (await it.store.events("end")).position
    await it.add(5)
    page = await it.store.events(end)
    assert len(page.events) == 5
    await it.store.hold("reader", page.position)
    await it.store.hold("reader", None)


async def delete(it: Aged) -> None:
    for job in await it.add(3):
        assert await it.store.delete("plain", job.id) == "ok"


CALLS: tuple[Work, ...] = (
    enqueue, enqueue_ids, enqueue_keyed, enqueue_once, update, cancel, claim, claim_keyed, retry, promote, chain,
    unblock, reap, many_queues, upkeep, fire, look, find, measure, glance, read, delete,
)  # fmt: skip


async def fresh(it: Aged) -> None:
    """Nobody has analyzed anything."""


async def empty(it: Aged) -> None:
    await it.analyze()


async def with_a_backlog(it: Aged) -> None:
    await it.backlog(LARGE)
    await it.analyze()


async def idle_with_kept_jobs(it: Aged) -> None:
    await it.idle(LARGE)
    await it.analyze()


async def order_with_a_backlog_jobs_without(it: Aged) -> None:
    await it.backlog(LARGE)
    await it.analyze("ready", "event")
    await it.drain()
    await it.analyze("job", "expiry", "grip")


async def with_keys(it: Aged) -> None:
    await it.keys(LARGE)
    await it.analyze()
    await it.drain("keyed")


async def idle_with_keys_gone(it: Aged) -> None:
    await it.keys(LARGE)
    await it.analyze("ready")
    await it.drain("keyed")
    await it.analyze("lane", "job")


async def with_schedules(it: Aged) -> None:
    await it.schedules(SMALL)
    await it.later(LARGE)
    await it.analyze()


async def with_chains(it: Aged) -> None:
    await it.backlog(200)
    await it.chains(LARGE)
    await it.dedups(SMALL)
    await it.analyze()


MOMENTS: tuple[Work, ...] = (
    fresh, empty, with_a_backlog, idle_with_kept_jobs, order_with_a_backlog_jobs_without, with_keys,
    idle_with_keys_gone,
    with_schedules, with_chains,
)  # fmt: skip


async def costs(it: Aged, size: int) -> dict[str, int]:
    """Return what each call costs once there is so much; its plan was made before."""
    await it.whole(SMALL)
    for call in CALLS:
        await call(it)
    await it.whole(size)
    for call in CALLS:  # whoever comes first walks over what has just died
        await call(it)
    found = {}
    for call in CALLS:
        await it.store.expire("plain", 10_000)  # the log is as short as it may be, and nothing dead is in front
        await it.store.events(limit=1)
        found[call.__name__] = await it.cost(call)
    return found


_small: dict[str, dict[str, int]] = {}


async def small_costs(which: Literal["oldest", "newest"]) -> dict[str, int]:
    """Return what each call costs in a small store that nobody has analyzed."""
    if which not in _small:
        async with aged(stock_postgres(which)) as it:
            _small[which] = await costs(it, SMALL)
    return _small[which]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("moment", MOMENTS, ids=lambda each: each.__name__)
@pytest.mark.parametrize("which", ["oldest", "newest"])
async def test_no_call_costs_more_for_what_was_analyzed_or_is_kept(
    which: Literal["oldest", "newest"], moment: Work
) -> None:
    few = await small_costs(which)
    async with aged(stock_postgres(which)) as it:
        await moment(it)
        many = await costs(it, LARGE)
    dear = {name: (few[name], many[name]) for name in few if many[name] > 2 * few[name] + LARGE / 4}
    assert not dear, f"rows read with {SMALL} and with {LARGE}: {dear}"


FILTERS = (
    Filter(), Filter(queue="plain"), Filter(task="t"), Filter(task="none"), Filter(key="k1"), Filter(id_prefix="zz"),
    Filter(tag="none"), Filter(enqueued_before_ms=1), Filter(chain=ChainRef("plain", "none", 1)),
    *(Filter(states=(state,)) for state in State), *(Filter(states=(state,), queue="plain") for state in State),
)  # fmt: skip


@pytest.mark.timeout(300)
@pytest.mark.parametrize("which", ["oldest", "newest"])
async def test_a_page_reads_a_bounded_number_of_rows(
    which: Literal["oldest", "newest"], monkeypatch: pytest.MonkeyPatch
) -> None:
    bound, gathered, shown = 100, 60, 5
    monkeypatch.setattr(pages, "LOOKED_AT_ONCE", bound)
    monkeypatch.setattr(pages, "FIRST_LOOK", 20)
    monkeypatch.setattr(pages, "GATHERED_AT_ONCE", gathered)
    monkeypatch.setattr(page, "GATHERED_AT_ONCE", gathered)
    monkeypatch.setattr(PostgresPages.matching, "__kwdefaults__", {"requeued": True, "most": bound})
    async with aged(stock_postgres(which)) as it:
        await it.whole(LARGE)
        dear = {}
        for each in FILTERS:
            cost = await it.cost(lambda it, each=each: it.store.jobs(each, limit=shown))
            if cost > 12 * bound + 2 * gathered:  # twice for a row and its entry, and what sorts of jobs there are
                dear[each] = cost
    assert not dear


def test_a_scan_compiles_nothing_where_the_server_would() -> None:
    url = stock_postgres("newest").url().partition("?")[0]
    with psycopg.connect(url) as connection:
        assert connection.execute("SHOW jit").fetchone() == ("on",)
    with closing(open_scan(url)) as scan:
        assert isinstance(scan, PostgresScan)
        assert scan._rows("SHOW jit") == [("off",)]
