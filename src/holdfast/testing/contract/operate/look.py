"""What operators look at: lists by filter, counts, keys, measures, who waits, and where settings come from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ....core.chain import BlockerRef, ChainRef
from ....core.declaration import Declaration
from ....core.job import ErrorRecord, JobRecord
from ....core.limit import Rate
from ....core.policy import Policy, Retry
from ....core.state import State
from ....errors import ConfigError
from ....store.contract import Filter, KeyInfo, KeyOrder, QueueMeasure
from ..bench import QUEUE, UPDATE, Bench, carrying, complete, fail, new, retry
from ..case import Case

OTHER = "other"
OWN_ORDER = ((State.WAITING,), (State.SCHEDULED,), (State.COMPLETED,))
"""Lists of these states are in an order of their own: see `StateOrderCases`."""
FIRST, SECOND = ErrorRecord(type="KeyError", message="'a' 17"), ErrorRecord(type="ValueError", message="no")


class LookCases(Case):
    """Lists, counts, keys and measures."""

    # --- filters

    async def test_jobs_are_found_by_the_beginning_of_their_id(self, bench: Bench) -> None:
        ids = ["a-1", "a-2", "A-3", "b-1", "a", "ä-1", "0" * 32, "0" * 31 + "1", "0" * 5, 'a-"', "a%", "a_x", "\x01a"]
        for id in ids:
            await bench.add(id)
        bench.clock.advance(1)
        await bench.add("a-9", queue=OTHER)
        for prefix in ("a-", "a", "A", "0" * 31, "0" * 32, "00", "ä", "a%", "a_", "\x01", "z", 'a-"'):
            wanted = [id for id in reversed(ids) if id.startswith(prefix)]
            assert await _ids(bench, queue=QUEUE, id_prefix=prefix) == wanted, prefix
        assert await _ids(bench, id_prefix="a-") == ["a-9", 'a-"', "a-2", "a-1"]

    async def test_earlier_runs_are_found_by_the_beginning_of_their_id(self, bench: Bench) -> None:
        worker = await bench.session()
        await bench.settle(worker, fail(await bench.take(worker, "job-1")))
        await bench.store.requeue(Filter(queue=QUEUE))
        found = (await bench.store.jobs(Filter(id_prefix="job"))).jobs
        assert [job.state for job in found] == [State.WAITING, State.FAILED]
        found = (await bench.store.jobs(Filter(queue=QUEUE, ids=("job-1",)))).jobs
        assert [job.state for job in found] == [State.WAITING, State.FAILED]

    async def test_jobs_are_found_by_the_signature_of_their_error(self, bench: Bench) -> None:
        worker = await bench.session()
        await bench.settle(worker, fail(await bench.take(worker, "failed"), FIRST))
        await bench.settle(worker, retry(await bench.take(worker, "failing"), error=FIRST))
        await bench.settle(worker, fail(await bench.take(worker, "else"), SECOND))
        await bench.settle(worker, complete(await bench.take(worker, "done")))
        await bench.add("new")
        assert await _ids(bench, signature=FIRST.signature) == ["failing", "failed"]
        assert await _ids(bench, signature=FIRST.signature, states=(State.FAILED,)) == ["failed"]
        assert await _ids(bench, signature=FIRST.signature, states=(State.COMPLETED,)) == []
        assert await _ids(bench, signature=SECOND.signature, queue=QUEUE) == ["else"]
        assert await _ids(bench, signature=SECOND.signature, queue=OTHER) == []
        assert await _ids(bench, signature="0" * 16) == []

    async def test_a_job_that_completed_after_all_has_no_error(self, bench: Bench) -> None:
        worker = await bench.session()
        for id, end in (("a", complete), ("b", fail)):
            await bench.settle(worker, retry(await bench.take(worker, id), error=FIRST, delay_ms=0))
            (again,) = await bench.claim(worker)
            await bench.settle(worker, end(again))
        await bench.settle(worker, retry(await bench.take(worker, "c"), error=FIRST))
        await bench.add("c", UPDATE)
        assert await _ids(bench, signature=FIRST.signature) == []

    async def test_errors_that_a_store_makes_have_a_signature_too(self, bench: Bench) -> None:
        await bench.declare(retry=Retry(stalls=1))
        worker = await bench.session()
        await bench.take(worker, "stalled")
        await bench.vanish(worker)
        job = await bench.get("stalled")
        assert job.state is State.FAILED
        assert job.error is not None
        assert await _ids(bench, signature=job.error.signature) == ["stalled"]
        assert (await bench.store.count(Filter(signature=job.error.signature))).number == 1

    async def test_what_failed_alike_is_requeued_together(self, bench: Bench) -> None:
        worker = await bench.session()
        for id, error in (("a-1", FIRST), ("b-1", SECOND), ("a-2", FIRST)):
            await bench.settle(worker, fail(await bench.take(worker, id, envelope=carrying(tags=["x"])), error))
        done = await bench.store.requeue(Filter(signature=FIRST.signature), dry_run=True)
        assert [id for _, id, _ in done] == ["a-1", "a-2"]
        done = await bench.store.requeue(Filter(signature=FIRST.signature, id_prefix="a-2"))
        assert [id for _, id, _ in done] == ["a-2"]
        done = await bench.store.requeue(Filter(tag="x", id_prefix="b"), request="r")
        assert [id for _, id, _ in done] == ["b-1"]
        assert await bench.store.requeue(Filter(tag="x", id_prefix="b"), request="r") == done

    async def test_jobs_are_found_by_when_they_came(self, bench: Bench) -> None:
        for id in ("a", "b", "c"):
            await bench.add(id)
            bench.clock.advance(10)
        begun = bench.now - 30_000
        assert await _ids(bench, enqueued_after_ms=begun + 10_000) == ["c", "b"]
        assert await _ids(bench, enqueued_before_ms=begun + 10_000) == ["a"]
        assert await _ids(bench, enqueued_after_ms=begun + 1, enqueued_before_ms=begun + 20_000) == ["b"]

    async def test_jobs_are_found_by_when_they_were_started_and_finished(self, bench: Bench) -> None:
        worker = await bench.session()
        begun = bench.now
        for id, end in (("a", complete), ("b", fail), ("c", retry)):
            claimed = await bench.take(worker, id)
            bench.clock.advance(10)
            await bench.settle(worker, end(claimed))
        await bench.take(worker, "d")
        await bench.add("never")
        assert await _ids(bench, started_after_ms=begun + 10_000) == ["d", "c", "b"]
        assert await _ids(bench, started_before_ms=begun + 10_000) == ["a"]
        assert await _ids(bench, finished_after_ms=begun + 20_000) == ["b"]
        assert await _ids(bench, finished_before_ms=begun + 20_000, queue=QUEUE) == ["a"]
        assert await _ids(bench, started_after_ms=begun, finished_before_ms=begun + 60_000) == ["b", "a"]
        assert await _ids(bench, finished_after_ms=begun, states=(State.COMPLETED,)) == ["a"]
        assert await _ids(bench, finished_after_ms=begun, states=(State.WAITING,)) == []
        assert (await bench.store.count(Filter(started_after_ms=begun + 10_000))).number == 3
        assert (await bench.store.count(Filter(finished_before_ms=begun + 60_000, queue=QUEUE))).number == 2
        done = await bench.store.requeue(
            Filter(finished_after_ms=begun + 20_000, states=(State.COMPLETED, State.FAILED))
        )
        assert [id for _, id, _ in done] == ["b"]

    # --- pages

    async def test_every_filter_gives_every_job_once_whatever_the_page(self, bench: Bench) -> None:
        worker = await _various(bench)
        filters = [
            Filter(), Filter(queue=QUEUE), Filter(queue=OTHER), Filter(task="u"), Filter(key="k"), Filter(tag="x"),
            Filter(id_prefix="j"), Filter(id_prefix="j1", queue=QUEUE), Filter(holders=(worker,)),
            Filter(started_after_ms=1), Filter(finished_after_ms=1),
            Filter(finished_after_ms=1, states=(State.COMPLETED,)),
            Filter(signature=FIRST.signature), Filter(states=tuple(State)), Filter(states=(State.ACTIVE, State.FAILED)),
            *(Filter(states=(state,)) for state in State), *(Filter(states=(state,), queue=QUEUE) for state in State),
        ]  # fmt: skip
        every = await _all(bench, Filter(), 1000)
        for which in filters:
            whole = await _all(bench, which, 1000)
            assert whole, which
            in_order = [job for job in every if job in whole]
            assert in_order == (whole if which.states not in OWN_ORDER else sorted(whole, key=every.index)), which
            assert await _all(bench, which, 1) == whole, which
            assert await _all(bench, which, 3) == whole, which
            assert (await bench.store.count(which)).number == len(whole), which
        by_state = [job for state in State for job in await _all(bench, Filter(states=(state,)), 3)]
        assert sorted(by_state, key=every.index) == every

    async def test_a_cursor_of_another_list_is_refused(self, bench: Bench) -> None:
        for number in range(3):
            await bench.add(f"j{number}")
        cursor = (await bench.store.jobs(Filter(queue=QUEUE), limit=1)).cursor
        assert cursor is not None
        assert len((await bench.store.jobs(Filter(queue=QUEUE), limit=7, cursor=cursor)).jobs) == 2
        for which in (Filter(), Filter(queue=OTHER), Filter(queue=QUEUE, task="t")):
            with pytest.raises(ConfigError, match="with another filter: begin at the first page"):
                await bench.store.jobs(which, cursor=cursor)
        with pytest.raises(ConfigError, match="with another filter"):
            await bench.store.chains(Filter(queue=QUEUE), cursor=cursor)
        with pytest.raises(ConfigError, match="of another store"):
            await bench.store.jobs(Filter(queue=QUEUE), cursor=f"another-{cursor.partition('-')[2]}")

    # --- counts

    async def test_jobs_are_counted_up_to_a_bound(self, bench: Bench) -> None:
        await bench.store.enqueue(QUEUE, [new(f"j{number}", key="k" if number % 2 else None) for number in range(20)])
        await bench.add("far", queue=OTHER, task="u")
        counts = [
            (Filter(), 10, (21, False)), (Filter(queue=QUEUE), 10, (20, False)), (Filter(queue="none"), 10, (0, False)),
            (Filter(states=(State.WAITING,)), 10, (21, False)), (Filter(states=(State.FAILED,)), 10, (0, False)),
            (Filter(key="k"), 20, (10, False)), (Filter(key="k"), 10, (10, False)), (Filter(key="k"), 9, (9, True)),
            (Filter(task="u"), 5, (1, False)), (Filter(id_prefix="j1"), 5, (5, True)),
            (Filter(ids=("j1", "j2")), 5, (2, False)),
        ]  # fmt: skip
        for which, most, wanted in counts:
            found = await bench.store.count(which, most=most)
            if (found.number, found.more) != wanted:  # at the bound, a store need not know that there is nothing more
                assert (found.number, found.more, wanted) == (most, True, (most, False)), which

    # --- keys

    async def test_keys_are_shown_with_their_jobs_and_limits(self, bench: Bench) -> None:
        await bench.store.configure(QUEUE, {"key_concurrency": 2})
        await bench.store.limit_key(QUEUE, "own", 1)
        worker = await bench.session(slots=10)
        for id, key in (("1", "own"), ("2", "busy"), ("3", "busy")):
            await bench.add(id, key=key)
            bench.clock.advance(1)
        assert len(await bench.claim(worker, 3)) == 3
        start = bench.now
        for id, key in (("4", "idle"), ("5", "own"), ("6", "busy"), ("7", "own")):
            await bench.add(id, key=key)
            bench.clock.advance(1)
        await bench.add("8")
        busy, idle, own = await _keys(bench, "name")
        assert busy == KeyInfo(key="busy", waiting=1, active=2, limit=2, oldest_waiting_ms=start + 2000)
        assert idle == KeyInfo(key="idle", waiting=1, active=0, limit=2, oldest_waiting_ms=start)
        assert own == KeyInfo(key="own", waiting=2, active=1, limit=1, own_limit=True, oldest_waiting_ms=start + 1000)
        assert [each.at_limit for each in (busy, idle, own)] == [True, False, True]
        assert [each.key for each in await _keys(bench, "busiest")] == ["busy", "own", "idle"]
        assert [each.key for each in await _keys(bench, "starved")] == ["idle", "own", "busy"]
        assert [each.key for each in await bench.store.keys(QUEUE, order="starved", limit=2)] == ["idle", "own"]
        assert (await _measured(bench)).keys_at_limit == 2
        assert await bench.store.keys("none") == []

    async def test_keys_are_shown_with_the_tokens_that_they_have(self, bench: Bench) -> None:
        await bench.store.configure(QUEUE, {"key_rate": Rate(1, per=10)})
        worker = await bench.session()
        for id in ("a", "b"):
            await bench.add(id, key="k")
        assert len(await bench.claim(worker, 2)) == 1
        began = bench.now
        bench.clock.advance(4)
        (info,) = await _keys(bench, "busiest")
        assert (info.waiting, info.active, info.limit, info.at_limit) == (1, 1, None, False)
        assert info.tokens == pytest.approx(0.4)
        assert info.ready_at_ms == began + 10_000

    # --- measures

    async def test_a_store_is_measured(self, bench: Bench) -> None:
        await bench.add("now")
        await bench.add("later", delay_ms=5000)
        await bench.add("far", delay_ms=90_000, queue=OTHER)
        assert (await _measured(bench)).scheduled_overdue_ms == 0
        bench.clock.advance(8)
        found = await bench.store.measure()
        assert {each.info.name: each.scheduled_overdue_ms for each in found.queues} == {QUEUE: 3000, OTHER: 0}
        assert [each.info for each in found.queues] == await bench.store.queues()
        assert found.now_ms == bench.now

    async def test_the_log_and_its_readers_are_measured(self, bench: Bench) -> None:
        for number in range(3):
            await bench.add(f"j{number}")
        await bench.add("far", queue=OTHER)
        page = await bench.store.events(limit=2)
        await bench.store.hold("lake", page.position)
        await bench.store.hold("other", (await bench.store.events("end")).position)
        log = (await bench.store.measure()).log
        assert (log.events, log.readers) == (4, {"lake": 2, "other": 0})
        assert log.lag_ms == {"lake": 0, "other": 0}
        bench.clock.advance(7)
        assert (await bench.store.measure()).log.lag_ms == {"lake": 7000, "other": 0}
        assert log.bytes is None or log.bytes > 0
        await bench.add("j3")
        await bench.store.hold("lake", None)
        log = (await bench.store.measure()).log
        assert (log.events, log.readers) == (5, {"other": 1})
        await bench.store.hold("other", None)

    # --- dependants, and where settings come from

    async def test_who_waits_for_a_chain_is_told(self, bench: Bench) -> None:
        first = await bench.add("first", delay_ms=60_000)
        ref = BlockerRef(QUEUE, "first")
        waiting = [await bench.add(f"w{number}", blockers=(ref,)) for number in range(3)]
        far = await bench.add("far", queue=OTHER, blockers=(ref,))
        refs = [ChainRef(QUEUE, each.id, each.run) for each in waiting] + [ChainRef(OTHER, "far", far.run)]
        found = await bench.store.dependants(QUEUE, "first", first.run)
        assert (set(found.jobs), found.count) == (set(refs), 4)
        assert (await bench.store.dependants(QUEUE, "first")).count == 4
        few = await bench.store.dependants(QUEUE, "first", limit=2)
        assert (len(few.jobs), few.count) == (2, 4)
        assert set(few.jobs) < set(refs)
        await bench.store.cancel(QUEUE, "w0")
        assert (await bench.store.dependants(QUEUE, "first")).count == 3
        nobody = [await bench.store.dependants(QUEUE, id) for id in ("w1", "nobody's")]
        assert [(each.jobs, each.count) for each in nobody] == [([], 0), ([], 0)]

    async def test_what_was_declared_and_what_was_set_is_told(self, bench: Bench) -> None:
        policy = Policy(retry=Retry(failures=5))
        declared = Declaration(queue=QUEUE, version=3, settings={"concurrency": 4}, tasks={"t": policy, "u": Policy()})
        await bench.store.declare([declared])
        await bench.store.configure(QUEUE, {"concurrency": 9})
        await bench.store.adjust(QUEUE, "t", {"failures": 7})
        view = await bench.store.layers(QUEUE)
        assert (view.version, view.declared, view.operator) == (3, {"concurrency": 4}, {"concurrency": 9})
        assert {task: each.version for task, each in view.tasks.items()} == {"t": 3, "u": 3}
        assert (view.tasks["t"].policy, view.adjusted) == (policy, {"t": {"failures": 7}})
        assert view.policy("t").retry.failures == 7
        assert view.policies() == dict(await bench.store.policies(QUEUE))
        nothing = await bench.store.layers("none")
        assert (nothing.version, nothing.tasks, nothing.declared) == (0, {}, {})


async def _various(bench: Bench) -> str:
    """Bring jobs into every state, with keys, tags, tasks and errors; return the session that holds the active ones."""
    worker = await bench.session(QUEUE, OTHER)
    for queue in (QUEUE, OTHER):
        for number in range(7):
            await bench.add(f"j{number}", queue=queue, key="k" if number % 2 else None)
            bench.clock.advance(0.001)
        claimed = await bench.claim(worker, 4, queue)
        await bench.turn(worker, complete(claimed[0]), fail(claimed[1], FIRST), retry(claimed[2], error=FIRST))
        await bench.add("later", queue=queue, delay_ms=60_000, task="u", envelope=carrying(tags=["x"]))
        await bench.add("j10", queue=queue)
        await bench.store.cancel(queue, "j10")
        await bench.add("blocked", queue=queue, blockers=(BlockerRef(queue, "later"),))
        await bench.add("j11", queue=queue, task="u", envelope=carrying(tags=["x", "y"]))
    return worker.id


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


async def _ids(bench: Bench, **fields: Any) -> list[str]:
    return [job.id for job in await _all(bench, Filter(**fields), 100)]


async def _keys(bench: Bench, order: KeyOrder) -> Sequence[KeyInfo]:
    return await bench.store.keys(QUEUE, order=order)


async def _measured(bench: Bench) -> QueueMeasure:
    return next(each for each in (await bench.store.measure()).queues if each.info.name == QUEUE)
