"""Lists of one state that may have any number of jobs: each in the order of its own index, whatever else there is."""

from __future__ import annotations

from typing import Any

import pytest

from ....core.job import JobRecord
from ....core.policy import Retry
from ....core.state import State
from ....errors import ConfigError
from ....store.contract import Filter
from ..bench import QUEUE, Bench, complete, fail, new, retry
from ..case import Case
from ..chain.chain import go_on

OTHER = "other"
WAITING, SCHEDULED, COMPLETED = State.WAITING, State.SCHEDULED, State.COMPLETED


class StateOrderCases(Case):
    """What waits, is scheduled or is completed."""

    async def test_what_waits_is_listed_by_when_it_was_due_the_last_first(self, bench: Bench) -> None:
        await bench.add("was later", delay_ms=2500)
        kinds: list[dict[str, Any]] = [{}, {"priority": 7}, {"key": "k"}, {"priority": -3}, {"key": "l"}, {}]
        for number, fields in enumerate(kinds):
            await bench.add(f"j{number}", queue=OTHER if number == 5 else QUEUE, **fields)
            bench.clock.advance(1)
        worker = await bench.session()
        (promoted,) = await bench.claim(worker)
        assert promoted.lease.id == "j1", "what is due is promoted by the claim"
        assert await _ids(bench, WAITING) == ["j5", "j4", "j3", "was later", "j2", "j0"]
        assert await _ids(bench, WAITING, queue=QUEUE) == ["j4", "j3", "was later", "j2", "j0"]
        assert await _ids(bench, WAITING, key="k") == ["j2"]
        assert await _ids(bench, WAITING, id_prefix="j") == ["j5", "j4", "j3", "j2", "j0"]

    async def test_suspects_are_listed_where_they_wait(self, bench: Bench) -> None:
        await bench.declare(retry=Retry(stalls=9))
        worker = await bench.session(slots=10)
        for number in range(4):
            await bench.add(f"j{number}", key="k" if number % 2 else None, priority=number)
            bench.clock.advance(1)
        assert len(await bench.claim(worker, 4)) == 4
        await bench.vanish(worker)
        await bench.add("new")
        every = await _all(bench, Filter(states=(WAITING,)), 100)
        assert sorted(job.id for job in every) == ["j0", "j1", "j2", "j3", "new"]
        assert every == sorted(every, key=lambda job: (job.run_at_ms, job.run), reverse=True)
        assert await _all(bench, Filter(states=(WAITING,)), 1) == every

    async def test_what_is_scheduled_is_listed_by_when_it_is_due_the_next_first(self, bench: Bench) -> None:
        for number, delay in enumerate((5000, 1000, 9000, 1000)):
            await bench.add(f"j{number}", delay_ms=delay, queue=OTHER if number == 2 else QUEUE)
        worker = await bench.session()
        await bench.settle(worker, retry(await bench.take(worker, "again"), delay_ms=3000))
        assert await _ids(bench, SCHEDULED) == ["j1", "j3", "again", "j0", "j2"]
        assert await _ids(bench, SCHEDULED, queue=QUEUE) == ["j1", "j3", "again", "j0"]

    async def test_what_is_completed_is_listed_by_when_it_is_removed_the_last_first(self, bench: Bench) -> None:
        worker = await bench.session(QUEUE, OTHER)
        for id, ttl, end in (("a", 60, complete), ("b", 90, complete), ("c", 600, fail), ("d", 60, complete)):
            await bench.settle(worker, end(await bench.take(worker, id, result_ttl_ms=ttl * 1000)))
            bench.clock.advance(1)
        await bench.add("e", queue=OTHER, result_ttl_ms=70_000)
        (far,) = await bench.claim(worker)
        await bench.settle(worker, complete(far))
        assert await _ids(bench, COMPLETED) == ["b", "e", "d", "a"]
        assert await _ids(bench, COMPLETED, queue=QUEUE) == ["b", "d", "a"]
        await bench.store.set_result_ttl(QUEUE, "a", 500_000)
        assert await _ids(bench, COMPLETED) == ["a", "b", "e", "d"]
        bench.clock.advance(80)
        assert await _ids(bench, COMPLETED) == ["a", "b"]

    async def test_jobs_of_open_chains_are_completed_too_and_come_last(self, bench: Bench) -> None:
        worker = await bench.session()
        last = await go_on(bench, worker, await bench.take(worker, "chain"), steps=2)
        await bench.settle(worker, complete(await bench.take(worker, "plain")))
        (plain, *links) = await _all(bench, Filter(states=(COMPLETED,)), 1)
        assert (plain.id, [job.position for job in links]) == ("plain", [1, 0])
        both = await _all(bench, Filter(states=(COMPLETED, State.FAILED)), 2)
        assert sorted(job.run for job in both) == sorted(job.run for job in (plain, *links))
        bench.clock.advance(1)
        await bench.settle(worker, complete(last))
        found = await _all(bench, Filter(states=(COMPLETED,)), 2)
        assert sorted(job.position for job in found) == [0, 0, 1, 2]

    async def test_a_list_of_a_state_comes_at_once_whatever_lies_in_front_of_it(self, bench: Bench) -> None:
        worker = await bench.session(slots=500)
        await bench.store.enqueue(QUEUE, [new(f"done-{number}") for number in range(30)])
        await bench.turn(worker, *(complete(each) for each in await bench.claim(worker, 30)))
        await bench.store.enqueue(QUEUE, [new(f"later-{number}", delay_ms=90_000) for number in range(30)])
        await bench.store.enqueue(QUEUE, [new(f"now-{number}") for number in range(30)])
        for start in range(0, 6000, 500):
            await bench.store.enqueue(OTHER, [new(f"j{start + number}", delay_ms=99_000) for number in range(500)])
        for state in (COMPLETED, SCHEDULED, WAITING):
            page = await bench.store.jobs(Filter(states=(state,)), limit=25)
            assert [job.queue for job in page.jobs] == [QUEUE] * 25
            page = await bench.store.jobs(Filter(states=(state,), queue=QUEUE), limit=25, cursor=None)
            assert len(page.jobs) == 25
            rest = await bench.store.jobs(Filter(states=(state,), queue=QUEUE), limit=25, cursor=page.cursor)
            assert len({job.run for job in (*page.jobs, *rest.jobs)}) == 30

    async def test_a_cursor_that_no_list_gave_is_refused(self, bench: Bench) -> None:
        for number in range(3):
            await bench.add(f"j{number}")
        waiting = Filter(states=(WAITING,))
        cursor = (await bench.store.jobs(waiting, limit=1)).cursor
        assert cursor is not None
        with pytest.raises(ConfigError, match="with another filter: begin at the first page"):
            await bench.store.jobs(Filter(states=(SCHEDULED,)), cursor=cursor)
        with pytest.raises(ConfigError, match="is not one that a list of jobs gave"):
            await bench.store.jobs(waiting, cursor=f"{cursor.rpartition('-')[0]}-bm9uc2Vuc2U")


async def _all(bench: Bench, which: Filter, limit: int) -> list[JobRecord]:
    found: list[JobRecord] = []
    cursor: str | None = None
    while True:
        page = await bench.store.jobs(which, limit=limit, cursor=cursor)
        assert len(page.jobs) <= limit
        found += page.jobs
        cursor = page.cursor
        if cursor is None:
            return found


async def _ids(bench: Bench, state: State, **fields: str) -> list[str]:
    """Return the ids of a list, which is the same whatever the page."""
    which = Filter(states=(state,), **fields)  # type: ignore[arg-type]
    ids = [[job.id for job in await _all(bench, which, limit)] for limit in (1, 2, 100)]
    assert ids[0] == ids[1] == ids[2]
    return ids[0]
