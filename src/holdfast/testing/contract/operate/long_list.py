"""Lists of many jobs: what a filter finds among every form of a job, with many keys, and where few are left."""

from __future__ import annotations

from collections.abc import Callable

from ....core.job import JobRecord
from ....core.state import State
from ....store.contract import Filter
from ..bench import ERROR, QUEUE, Bench, carrying, complete, fail, new, retry
from ..case import Case
from ..chain.chain import go_on

HEX = "0123456789abcdef0123456789abcdef"
LONG = "a task with a long name, " * 12
KEYS = 530
"""More keys than a look at a queue goes through one by one."""
GONE = 3000
"""So many jobs came and went."""


class LongListCases(Case):
    """Many jobs."""

    async def test_a_filter_finds_the_same_whatever_form_its_jobs_have(self, bench: Bench) -> None:
        await _every_form(bench)
        every = await _all(bench, Filter(), 100)
        wanted: dict[Filter, Callable[[JobRecord], bool]] = {
            Filter(task=LONG): lambda job: job.task == LONG,
            Filter(task="u"): lambda job: job.task == "u",
            Filter(key="k"): lambda job: job.key == "k",
            Filter(key="k", task="t"): lambda job: (job.key, job.task) == ("k", "t"),
            Filter(tag="x/y"): lambda job: "x/y" in job.tags,
            Filter(tag="ü"): lambda job: "ü" in job.tags,
            **{
                Filter(id_prefix=prefix): lambda job, prefix=prefix: job.id.startswith(prefix)  # type: ignore[misc]
                for prefix in ("0", "01", "012", HEX[:20], HEX[:31], HEX, HEX + "0", "0124", "\1", "plain", "g", "f")
            },
        }
        for which, matches in wanted.items():
            found = [job for job in every if matches(job)]
            assert await _all(bench, which, 100) == found, which
            assert await _all(bench, which, 2) == found, which
            assert (await bench.store.count(which)).number == len(found), which
        assert all(any(matches(job) for job in every) for which, matches in wanted.items() if which.id_prefix is None)

    async def test_what_waits_with_many_keys_is_counted_and_listed_in_its_order(self, bench: Bench) -> None:
        for turn in range(2):
            jobs = [new(f"{turn}-{n}", key=f"k{n}", priority=(n + turn) % 3 - 1) for n in range(KEYS)]
            await bench.store.enqueue(QUEUE, [*jobs, *(new(f"{turn}-{n}-none") for n in range(5))])
            bench.clock.advance(1)
        (info,) = await bench.store.queues()
        assert info.counts["waiting"] == 2 * (KEYS + 5)
        assert info.oldest_waiting_ms == bench.now - 2000
        waiting = Filter(states=(State.WAITING,))
        found = await _all(bench, waiting, 200)
        assert found == sorted(found, key=lambda job: (job.run_at_ms, job.run), reverse=True)
        assert len({job.run for job in found}) == 2 * (KEYS + 5)
        assert await _all(bench, Filter(states=(State.WAITING,), task="none"), 50) == []
        of_one = await _all(bench, Filter(states=(State.WAITING,), key="k7"), 50)
        assert [job.id for job in of_one] == ["1-7", "0-7"]

    async def test_a_list_finds_the_few_that_are_left_of_many(self, bench: Bench) -> None:
        worker = await bench.session(slots=500)
        await bench.add("first", task="rare", delay_ms=3_600_000)
        for start in range(0, GONE, 500):
            await bench.store.enqueue(QUEUE, [new(f"{start + n}", result_ttl_ms=1000) for n in range(500)])
            await bench.turn(worker, *(complete(each) for each in await bench.claim(worker, 500)))
        bench.clock.advance(10)
        while (await bench.store.expire(QUEUE)).runs:
            pass
        await bench.add("last", task="rare")
        assert [job.id for job in await _all(bench, Filter(), 1)] == ["last", "first"]
        assert [job.id for job in await _all(bench, Filter(task="rare"), 50)] == ["last", "first"]
        counted = await bench.store.count(Filter(task="rare"))
        assert (counted.number, counted.more) == (2, False)


async def _every_form(bench: Bench) -> None:
    """Bring in jobs with ids, tasks and tags of every form, some that never ran, some that did, some of chains."""
    worker = await bench.session()
    tags = carrying(tags=["x/y", "ü"])
    for number, id in enumerate((HEX, "0124" + HEX[4:], HEX + "0", "012", "\1x", "plain")):
        task = ("t", LONG, "u")[number % 3]
        await bench.settle(worker, complete(await bench.take(worker, id, task=task, priority=number % 2, key="k")))
        await bench.add(f"g{id}", task=task, envelope=tags if number % 2 else None, delay_ms=90_000)
        bench.clock.advance(0.01)
    last = await go_on(bench, worker, await bench.take(worker, "0123-chain", task="u", envelope=tags), steps=2)
    await bench.settle(worker, fail(last, ERROR))
    again = await bench.take(worker, f"f{HEX[1:]}", task=LONG, key="k", envelope=tags)
    await bench.settle(worker, retry(again, delay_ms=90_000))
    await bench.add("plain-waits", task="t", key="k")


async def _all(bench: Bench, which: Filter, limit: int) -> list[JobRecord]:
    found: list[JobRecord] = []
    cursor: str | None = None
    while True:
        page = await bench.store.jobs(which, limit=limit, cursor=cursor)
        found += page.jobs
        cursor = page.cursor
        if cursor is None:
            return found
