"""Schedules: a tick is fired by one worker, its jobs come with it, and a slower worker changes nothing."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from ....core.state import State
from ....core.transition import Reply
from ....store.contract import DedupSpec, Due, Filter, Fired, ScheduleChange, ScheduleRow, Store
from ... import rival
from ..bench import QUEUE, UPDATE, Bench, complete, new
from ..case import Case
from ..race import MANY, _by, _catch_up, _processes, _stores

OTHER = "other"


class ScheduleCases(Case):
    """What is written is read, unless another writer was quicker."""

    async def test_a_schedule_is_kept_as_it_was_given(self, bench: Bench) -> None:
        body = bytes(range(256))
        assert (await _put(bench, "s", None, "r1", bench.now + 5000, body)).reply is Reply.OK
        assert await bench.store.schedules() == [
            ScheduleRow(queue=QUEUE, name="s", revision="r1", next_at_ms=bench.now + 5000, body=body)
        ]
        await _remove(bench)

    async def test_schedules_are_listed_by_queue_and_name(self, bench: Bench) -> None:
        for number, (queue, name) in enumerate([(QUEUE, "b"), (OTHER, "z"), (QUEUE, "ä: 'x' %s"), (QUEUE, "a")]):
            await _put(bench, name, None, f"r{number}", queue=queue)
        everything = [(row.queue, row.name) for row in await bench.store.schedules()]
        assert everything == [(OTHER, "z"), (QUEUE, "a"), (QUEUE, "b"), (QUEUE, "ä: 'x' %s")]
        assert [row.name for row in await bench.store.schedules(OTHER)] == ["z"]
        assert [row.name for row in await bench.store.schedules(QUEUE, "ä: 'x' %s")] == ["ä: 'x' %s"]
        assert [row.queue for row in await bench.store.schedules(name="z")] == [OTHER]
        assert await bench.store.schedules(QUEUE, "z") == []
        assert await bench.store.schedules("no such queue") == []
        await _remove(bench)

    async def test_a_schedule_that_is_there_cannot_be_made(self, bench: Bench) -> None:
        await _put(bench, "s", None, "r1", body=b"first")
        again = await _put(bench, "s", None, "r2", bench.now, b"second", jobs=[new("j")])
        assert again == Fired(reply=Reply.STALE)
        (row,) = await bench.store.schedules()
        assert (row.revision, row.body, await bench.state("j")) == ("r1", b"first", None)
        await _remove(bench)

    async def test_a_schedule_that_was_changed_meanwhile_is_left_alone(self, bench: Bench) -> None:
        await _put(bench, "s", None, "r1")
        await _put(bench, "s", "r1", "r2", body=b"theirs")
        assert (await _put(bench, "s", "r1", "r3", bench.now, b"ours", jobs=[new("j")])).reply is Reply.STALE
        (row,) = await bench.store.schedules()
        assert (row.revision, row.body, await bench.state("j")) == ("r2", b"theirs", None)
        await _remove(bench)

    async def test_a_schedule_that_was_removed_fires_no_more(self, bench: Bench) -> None:
        await _put(bench, "s", None, "r1", bench.now)
        assert (await _put(bench, "s", "r1", "r2", body=None)).reply is Reply.OK
        assert (await _put(bench, "s", "r1", "r3", jobs=[new("j")])).reply is Reply.MISSING
        assert (await bench.store.schedules(), await bench.state("j")) == ([], None)
        assert (await bench.store.due([QUEUE])).rows == []

    async def test_one_of_the_same_name_is_not_taken_for_the_one_that_was_removed(self, bench: Bench) -> None:
        await _put(bench, "s", None, "r1", bench.now, b"old")
        await _put(bench, "s", "r1", "r2", body=None)
        await _put(bench, "s", None, "r3", bench.now, b"new")
        assert (await _put(bench, "s", "r1", "r4", body=b"old", jobs=[new("j")])).reply is Reply.STALE
        assert [row.body for row in await bench.store.schedules()] == [b"new"]
        await _remove(bench)

    # --- what is due

    async def test_a_schedule_is_due_when_its_tick_has_come(self, bench: Bench) -> None:
        await _put(bench, "s", None, "r1", bench.now + 1000)
        assert await bench.store.due([QUEUE]) == Due(now_ms=bench.now, rows=[], next_at_ms=bench.now + 1000)
        bench.clock.advance(1)
        due = await bench.store.due([QUEUE])
        assert ([row.name for row in due.rows], due.next_at_ms, due.now_ms) == (["s"], None, bench.now)
        await _remove(bench)

    async def test_one_without_a_next_tick_is_never_due(self, bench: Bench) -> None:
        await _put(bench, "s", None, "r1", bench.now)
        await _put(bench, "s", "r1", "r2", None)
        assert await bench.store.due([QUEUE]) == Due(now_ms=bench.now)
        assert [row.next_at_ms for row in await bench.store.schedules()] == [None]
        await _remove(bench)

    async def test_the_longest_overdue_come_first_and_no_more_than_asked_for(self, bench: Bench) -> None:
        for number, queue in enumerate([QUEUE, OTHER, QUEUE, OTHER]):
            await _put(bench, f"s{number}", None, f"r{number}", bench.now - number, queue=queue)
        names = [row.name for row in (await bench.store.due([QUEUE, OTHER], limit=3)).rows]
        assert names == ["s3", "s2", "s1"]
        await _remove(bench)

    async def test_only_the_queues_that_were_asked_for_count(self, bench: Bench) -> None:
        await _put(bench, "a", None, "r1", bench.now, queue=OTHER)
        await _put(bench, "b", None, "r2", bench.now + 5, queue=OTHER)
        assert await bench.store.due([QUEUE, "no such queue"]) == Due(now_ms=bench.now)
        due = await bench.store.due([QUEUE, OTHER])
        assert ([row.name for row in due.rows], due.next_at_ms) == (["a"], bench.now + 5)
        await _remove(bench)

    # --- firing

    async def test_a_tick_and_its_jobs_are_one_step(self, bench: Bench) -> None:
        await _put(bench, "s", None, "r1", bench.now)
        fired = await _put(bench, "s", "r1", "r2", bench.now + 1000, jobs=[new("s/1"), new("s/2", key="k")])
        assert [(answer.status, answer.id, answer.state) for answer in fired.answers] == [
            ("queued", "s/1", State.WAITING),
            ("queued", "s/2", State.WAITING),
        ]
        assert (await bench.store.due([QUEUE])).next_at_ms == bench.now + 1000
        worker = await bench.session()
        assert await bench.order(worker) == ["s/1", "s/2"]
        await _remove(bench)

    async def test_a_tick_wakes_a_worker(self, bench: Bench) -> None:
        listener, _, woken = await bench.listen()
        worker = await bench.session(address=listener.address)
        await bench.turn(worker, queues=[QUEUE], room=1, park=True)
        await _put(bench, "s", None, "r1", jobs=[new("j")])
        await bench.heard(woken, 1)
        await _remove(bench)

    async def test_the_last_tick_takes_the_schedule_with_it(self, bench: Bench) -> None:
        await _put(bench, "s", None, "r1", bench.now)
        fired = await _put(bench, "s", "r1", "r2", body=None, jobs=[new("j")])
        assert ([answer.status for answer in fired.answers], await bench.store.schedules()) == (["queued"], [])

    async def test_a_repeated_tick_gets_the_first_answer(self, bench: Bench) -> None:
        await _put(bench, "s", None, "r1", bench.now)
        first = await _put(bench, "s", "r1", "r2", bench.now + 1000, jobs=[new("j")], conflict=UPDATE)
        worker = await bench.session()
        await bench.claim(worker)
        again = await _put(bench, "s", "r1", "r2", bench.now + 1000, jobs=[new("j")], conflict=UPDATE)
        assert (first, first.answers[0].status) == (again, "queued")
        assert not (await bench.get("j")).successor
        assert (await _put(bench, "s", "r1", "r3")).reply is Reply.STALE
        assert (await _put(bench, "s", "r1", "r3")).reply is Reply.STALE
        await _remove(bench)

    async def test_a_tick_can_be_dropped_while_an_earlier_job_is_unfinished(self, bench: Bench) -> None:
        only = DedupSpec(key="s")
        await _put(bench, "s", None, "r1", jobs=[new("s/1", dedup=only)])
        fired = await _put(bench, "s", "r1", "r2", jobs=[new("s/2", dedup=only)])
        assert [(answer.status, answer.id) for answer in fired.answers] == [("duplicate", "s/1")]
        worker = await bench.session()
        (claimed,) = await bench.claim(worker)
        await bench.settle(worker, complete(claimed))
        fired = await _put(bench, "s", "r2", "r3", jobs=[new("s/3", dedup=only)])
        assert [(answer.status, answer.id) for answer in fired.answers] == [("queued", "s/3")]
        await _remove(bench)

    async def test_a_tick_can_follow_the_job_that_runs(self, bench: Bench) -> None:
        worker = await bench.session()
        await _put(bench, "s", None, "r1", jobs=[new("s")], conflict=UPDATE)
        (claimed,) = await bench.claim(worker)
        fired = await _put(bench, "s", "r1", "r2", jobs=[new("s", payload=b"next")], conflict=UPDATE)
        assert [answer.status for answer in fired.answers] == ["successor"]
        await bench.settle(worker, complete(claimed))
        (claimed,) = await bench.claim(worker)
        assert claimed.payload == b"next"
        await _remove(bench)

    # --- races

    async def test_many_fire_one_tick_and_one_does(self, bench: Bench) -> None:
        await _put(bench, "s", None, "r", bench.now)
        stores = await _stores(bench)
        fired = await asyncio.gather(
            *(_put(bench, "s", "r", f"r{n}", jobs=[new(f"j{n}")], store=_by(stores, n)) for n in range(MANY))
        )
        assert Counter(each.reply for each in fired) == {Reply.OK: 1, Reply.STALE: MANY - 1}
        assert len((await bench.store.jobs(Filter(queue=QUEUE))).jobs) == 1
        await _remove(bench)

    async def test_many_make_one_schedule_and_one_does(self, bench: Bench) -> None:
        stores = await _stores(bench)
        made = await asyncio.gather(*(_put(bench, "s", None, f"r{n}", store=_by(stores, n)) for n in range(MANY)))
        assert Counter(each.reply for each in made) == {Reply.OK: 1, Reply.STALE: MANY - 1}
        await _remove(bench)

    async def test_many_repeat_one_tick_and_all_get_the_same_answer(self, bench: Bench) -> None:
        await _put(bench, "s", None, "r", bench.now)
        stores = await _stores(bench)
        fired = await asyncio.gather(
            *(_put(bench, "s", "r", "r1", jobs=[new("j")], store=_by(stores, n)) for n in range(MANY))
        )
        assert {(each.reply, each.answers[0].status) for each in fired} == {(Reply.OK, "queued")}
        await _remove(bench)

    async def test_processes_fire_the_same_ticks_and_each_is_fired_once(self, bench: Bench) -> None:
        _catch_up(bench)
        await _put(bench, "s", None, "r", bench.now - 60_000, b"0", queue=rival.QUEUE)
        fired = [tick for each in await _processes(bench, "fire") for tick in each]
        assert sorted(fired) == list(range(rival.TICKS))
        jobs = (await bench.store.jobs(Filter(queue=rival.QUEUE), limit=1000)).jobs
        assert sorted(job.id for job in jobs) == sorted(f"s/{tick}" for tick in range(rival.TICKS))
        await _remove(bench)


async def _put(
    bench: Bench,
    name: str,
    expected: str | None,
    revision: str,
    next_at_ms: int | None = None,
    body: bytes | None = b"body",
    *,
    queue: str = QUEUE,
    store: Store | None = None,
    **more: Any,
) -> Fired:
    change = ScheduleChange(
        queue=queue, name=name, expected=expected, revision=revision, next_at_ms=next_at_ms, body=body
    )
    return await (store or bench.store).put_schedule(change, **more)


async def _remove(bench: Bench) -> None:
    """No schedule is left; nothing of it may be, either."""
    for row in await bench.store.schedules():
        gone = await _put(bench, row.name, row.revision, f"{row.revision} gone", body=None, queue=row.queue)
        assert gone.reply is Reply.OK
    assert await bench.store.schedules() == []
