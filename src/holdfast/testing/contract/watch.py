"""A caller that waits for a run is told of its end; and what lists and counts show."""

from __future__ import annotations

from typing import Any

import pytest

from ...core.job import Progress
from ...core.state import State
from ...store.contract import KEEP, Claimed, Filter, Settlement
from .bench import QUEUE, TASK, Bench, complete, fail, new, release, retry, snooze
from .case import Case
from .effect import running

JOB: dict[str, Any] = {"priority": 7, "key": "ann"}


class WatchCases(Case):
    """What is told, and what is to be seen."""

    @pytest.mark.parametrize("how", ["complete", "fail", "cancel", "delete", "stall"])
    async def test_whoever_waits_for_a_run_is_told_of_its_end(self, bench: Bench, how: str) -> None:
        listener, heard, _ = await bench.listen()
        await bench.declare(retry={"stalls": 1})
        worker = await bench.session()
        answer = await bench.add("j", watcher=listener.address)
        (claimed,) = await bench.claim(worker)
        again = await bench.add("j", watcher=listener.address)
        assert (again.status, again.run) == ("duplicate", answer.run)
        if how == "complete":
            await bench.settle(worker, complete(claimed))
        elif how == "fail":
            await bench.settle(worker, fail(claimed))
        elif how == "cancel":
            await bench.store.cancel(QUEUE, "j", "signal")
            await bench.settle(worker, snooze(claimed))
        elif how == "delete":
            await bench.store.delete(QUEUE, "j")
        else:
            await bench.vanish(worker)
        await bench.heard(heard, 1)
        ends = {"complete": State.COMPLETED, "fail": State.FAILED, "stall": State.FAILED}
        told = heard[0]
        assert (told.queue, told.id, told.run) == (QUEUE, "j", answer.run)
        assert told.state is ends.get(how, State.CANCELLED)
        assert told.result is None or (how, told.result) == ("complete", b"done")  # a store may send it along

    async def test_a_large_result_is_found_by_whoever_hears_of_its_end(self, bench: Bench) -> None:
        listener, heard, _ = await bench.listen()
        worker = await bench.session()
        claimed = await bench.take(worker, "j", watcher=listener.address)
        await bench.settle(worker, complete(claimed, b"x" * 1_000_000))
        await bench.heard(heard, 1)
        assert heard[0].result in (None, b"x" * 1_000_000)
        assert (await bench.get("j")).result == b"x" * 1_000_000

    @pytest.mark.parametrize("how", [retry, snooze, release])
    async def test_whoever_waits_hears_nothing_while_the_run_goes_on(self, bench: Bench, how: _Way) -> None:
        listener, heard, _ = await bench.listen()
        worker = await bench.session()
        await bench.add("j", watcher=listener.address)
        (claimed,) = await bench.claim(worker)
        await bench.settle(worker, how(claimed))
        await bench.tick(61)
        (claimed,) = await bench.claim(worker)
        assert not heard
        await bench.settle(worker, complete(claimed))
        await bench.heard(heard, 1)

    async def test_whoever_waits_hears_of_progress(self, bench: Bench) -> None:
        listener, heard, _ = await bench.listen()
        worker, claimed = await running(bench)
        await bench.store.watch(listener, QUEUE, "j", claimed.lease.run)
        await bench.store.progress(worker, claimed.lease, Progress(fraction=0.5), None)
        await bench.heard(heard, 1)
        assert (heard[0].run, heard[0].state) == (claimed.lease.run, State.ACTIVE)
        await bench.settle(worker, complete(claimed))
        await bench.heard(heard, 2)

    async def test_watch_is_refused_for_a_run_that_is_over(self, bench: Bench) -> None:
        listener, heard, _ = await bench.listen()
        worker, claimed = await running(bench)
        assert await bench.store.watch(listener, QUEUE, "j", claimed.lease.run)
        await bench.settle(worker, complete(claimed))
        await bench.heard(heard, 1)
        assert not await bench.store.watch(listener, QUEUE, "j", claimed.lease.run)
        assert not await bench.store.watch(listener, QUEUE, "nobody", 99)

    async def test_unwatch_ends_the_hearing(self, bench: Bench) -> None:
        listener, heard, _ = await bench.listen()
        worker, claimed = await running(bench)
        await bench.store.watch(listener, QUEUE, "j", claimed.lease.run)
        await bench.store.unwatch(listener, QUEUE, "j", claimed.lease.run)
        await bench.settle(worker, complete(claimed))
        await bench.heard(heard, 0)

    async def test_counts_and_the_oldest_waiting_job_are_right(self, bench: Bench) -> None:
        worker = await bench.session()
        await bench.take(worker, "a")
        oldest = bench.now
        await bench.add("b")
        bench.clock.advance(1)
        await bench.add("c")
        await bench.add("d", delay_ms=1000)
        (info,) = [queue for queue in await bench.store.queues() if queue.name == QUEUE]
        assert {name: n for name, n in info.counts.items() if n} == {"active": 1, "waiting": 2, "scheduled": 1}
        assert (info.oldest_waiting_ms, info.workers) == (oldest, 1)

    async def test_lists_filter_and_page(self, bench: Bench) -> None:
        for number in range(5):
            await bench.add(f"j{number}", key="odd" if number % 2 else None, task="x" if number == 4 else TASK)
        page = await bench.store.jobs(Filter(queue=QUEUE), limit=2)
        assert [job.id for job in page.jobs] == ["j4", "j3"]
        page = await bench.store.jobs(Filter(queue=QUEUE), limit=3, cursor=page.cursor)
        assert ([job.id for job in page.jobs], page.cursor) == (["j2", "j1", "j0"], None)
        assert [job.id for job in (await bench.store.jobs(Filter(key="odd"))).jobs] == ["j3", "j1"]
        assert [job.id for job in (await bench.store.jobs(Filter(task="x"))).jobs] == ["j4"]
        assert (await bench.store.jobs(Filter(queue="other"))).jobs == []
        assert (await bench.store.jobs(Filter(states=(State.FAILED,)))).jobs == []

    async def test_lists_of_several_queues_leave_nothing_out_when_the_clock_was_set_back(self, bench: Bench) -> None:
        behind = await bench.another(behind=3600)
        wanted = []
        for number, store in enumerate((bench.store, behind, bench.store, behind)):
            for queue in (QUEUE, "other"):
                await store.enqueue(queue, [new(f"j{number}")], KEEP)
                wanted.append((queue, f"j{number}"))
        page = await bench.store.jobs(Filter(), limit=3)
        found = page.jobs
        while page.cursor is not None:
            page = await bench.store.jobs(Filter(), limit=3, cursor=page.cursor)
            found += page.jobs
        assert sorted((job.queue, job.id) for job in found) == sorted(wanted)

    async def test_pending_is_true_while_somebody_could_claim_now_or_try_again(self, bench: Bench) -> None:
        assert not await bench.store.pending([QUEUE])
        await bench.add("later", delay_ms=60_000)
        assert not await bench.store.pending([QUEUE]), "a job for later is no reason to stay"
        worker = await bench.session()
        claimed = await bench.take(worker, "j")
        await bench.settle(worker, retry(claimed))
        assert await bench.store.pending([QUEUE]), "it was started, and will be tried again"
        await bench.store.configure(QUEUE, {"paused": True})
        assert not await bench.store.pending([QUEUE])


class _Way:
    """A settlement by its maker."""

    def __call__(self, claimed: Claimed) -> Settlement:
        raise NotImplementedError
