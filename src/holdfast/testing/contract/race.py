"""Races: many callers at once, in one store object, in several, and in several processes; one wins."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeVar

import pytest

from ...core.state import State
from ...core.transition import Reply
from ...store.contract import Claimed, Conflict, DedupSpec, Filter, Session, Settlement, Store
from .. import rival
from .bench import QUEUE, UPDATE, Bench, complete, fail, new, release, retry
from .case import Case

T = TypeVar("T")
Settle = Callable[[Claimed], Settlement]
MANY = 24
RIVALS = 3


class RaceCases(Case):
    """The first caller wins, and all others hear so."""

    async def test_many_enqueue_one_id_and_one_is_queued(self, bench: Bench) -> None:
        stores = await _stores(bench)
        answers = await _at_once(_by(stores, n).enqueue(QUEUE, [new("j", payload=b"%d" % n)]) for n in range(MANY))
        statuses = Counter(answer.status for (answer,) in answers)
        assert statuses == {"queued": 1, "duplicate": MANY - 1}
        assert len({answer.run for (answer,) in answers}) == 1
        assert len(await bench.order(await bench.session(), 100)) == 1

    async def test_many_enqueue_one_dedup_key_and_one_is_queued(self, bench: Bench) -> None:
        stores = await _stores(bench)
        answers = await _at_once(
            _by(stores, n).enqueue(QUEUE, [new(f"j{n}", dedup=DedupSpec(key="k"))]) for n in range(MANY)
        )
        assert Counter(answer.status for (answer,) in answers) == {"queued": 1, "duplicate": MANY - 1}
        assert len({(answer.id, answer.run) for (answer,) in answers}) == 1

    async def test_many_repeat_one_request_and_all_get_the_same_answer(self, bench: Bench) -> None:
        stores = await _stores(bench)
        answers = await _at_once(_by(stores, n).enqueue(QUEUE, [new("j")], request="r") for n in range(MANY))
        assert {(answer.status, answer.run) for (answer,) in answers} == {("queued", answers[0][0].run)}

    async def test_many_update_a_running_job_and_it_has_one_successor(self, bench: Bench) -> None:
        worker = await bench.session()
        claimed = await bench.take(worker, "j")
        stores = await _stores(bench)
        answers = await _at_once(_by(stores, n).enqueue(QUEUE, [new("j")], UPDATE) for n in range(MANY))
        assert {(answer.status, answer.run) for (answer,) in answers} == {("successor", answers[0][0].run)}
        await bench.settle(worker, complete(claimed))
        assert await bench.order(worker) == ["j"]
        assert await bench.order(worker) == []

    async def test_many_start_a_failed_job_again_and_one_does(self, bench: Bench) -> None:
        worker = await bench.session()
        await bench.settle(worker, fail(await bench.take(worker, "j")))
        stores = await _stores(bench)
        conflict = Conflict(on_failed="requeue")
        answers = await _at_once(_by(stores, n).enqueue(QUEUE, [new("j")], conflict) for n in range(MANY))
        assert Counter(answer.status for (answer,) in answers) == {"requeued": 1, "duplicate": MANY - 1}

    async def test_claims_never_give_a_job_twice(self, bench: Bench) -> None:
        await bench.store.enqueue(QUEUE, [new(f"j{n}", key=f"k{n % 7}" if n % 2 else None) for n in range(100)])
        stores = await _stores(bench)
        sessions = [await bench.session() for _ in range(MANY)]
        turns = await _at_once(
            _by(stores, n).settle_and_claim(session, [], [QUEUE], 6) for n, session in enumerate(sessions)
        )
        ids = [job.lease.id for turn in turns for job in turn.claimed]
        assert len(ids) == len(set(ids)) == 100

    async def test_claims_at_once_keep_every_limit(self, bench: Bench) -> None:
        await bench.store.configure(QUEUE, {"concurrency": 10, "key_concurrency": 2})
        await bench.store.enqueue(QUEUE, [new(f"j{n}", key=f"k{n % 4}") for n in range(60)])
        stores = await _stores(bench)
        sessions = [await bench.session() for _ in range(MANY)]
        turns = await _at_once(
            _by(stores, n).settle_and_claim(session, [], [QUEUE], 3) for n, session in enumerate(sessions)
        )
        keys = Counter(job.key for turn in turns for job in turn.claimed)
        assert keys == {"k0": 2, "k1": 2, "k2": 2, "k3": 2}

    @pytest.mark.parametrize(
        "kinds", [(complete, complete), (complete, retry), (release, fail)], ids=["cc", "cr", "rf"]
    )
    async def test_many_settle_one_attempt_and_it_ends_once(self, bench: Bench, kinds: tuple[Settle, Settle]) -> None:
        worker = await bench.session()
        claimed = await bench.take(worker, "j")
        stores = await _stores(bench)
        turns = await _at_once(
            _by(stores, n).settle_and_claim(worker, [kinds[n % 2](claimed)], [], 0) for n in range(MANY)
        )
        replies = [turn.settled[0].reply for turn in turns]
        first = kinds[0] if replies[0] is Reply.OK else kinds[1]
        assert set(replies) <= {Reply.OK, Reply.STALE}
        assert replies.count(Reply.OK) == (MANY if kinds[0] is kinds[1] else MANY // 2), "a repeat is ok, a rival stale"
        assert (await bench.told("j"))[2:] == [first.__name__]

    async def test_many_settle_for_another_and_all_are_stale(self, bench: Bench) -> None:
        worker = await bench.session()
        claimed = await bench.take(worker, "j")
        thieves = [await bench.session() for _ in range(MANY)]
        turns = await _at_once(bench.store.settle_and_claim(thief, [complete(claimed)], [], 0) for thief in thieves)
        assert {turn.settled[0].reply for turn in turns} == {Reply.STALE}
        assert (await bench.settle(worker, complete(claimed))).reply is Reply.OK

    async def test_many_reap_at_once_and_each_job_stalls_once(self, bench: Bench) -> None:
        doomed = [await bench.session() for _ in range(5)]
        await bench.store.enqueue(QUEUE, [new(f"j{n}") for n in range(20)])
        for session in doomed:
            assert len(await bench.claim(session, 4)) == 4
        await bench.tick(16)
        stores = await _stores(bench)
        reaped = await _at_once(_by(stores, n).reap(QUEUE, limit=3) for n in range(MANY))
        assert sum(each.returned for each in reaped) == 20
        jobs = (await bench.store.jobs(Filter(queue=QUEUE))).jobs
        assert {(job.state, job.counters.stalls) for job in jobs} == {(State.WAITING, 1)}

    async def test_a_reap_and_the_late_holder_race_and_one_of_them_wins(self, bench: Bench) -> None:
        stores = await _stores(bench)
        for n in range(8):
            worker = await bench.session()
            claimed = await bench.take(worker, f"j{n}")
            await bench.tick(16)
            rivals: list[Awaitable[Any]] = [
                _by(stores, 1).reap(QUEUE),
                _by(stores, n).settle_and_claim(worker, [complete(claimed)], [], 0),
            ]
            await _at_once(rivals if n % 2 else rivals[::-1])
            job = await bench.get(f"j{n}")
            assert (job.state, job.counters.stalls) in [(State.COMPLETED, 0), (State.WAITING, 1)]
            await bench.store.delete(QUEUE, f"j{n}")

    async def test_many_cancel_one_job_and_one_does(self, bench: Bench) -> None:
        await bench.add("j")
        stores = await _stores(bench)
        found = await _at_once(_by(stores, n).cancel(QUEUE, "j") for n in range(MANY))
        assert Counter(each.reply for each in found) == {Reply.OK: 1, Reply.WRONG_STATE: MANY - 1}

    async def test_a_cancel_and_a_claim_race_and_the_payload_runs_or_is_cancelled(self, bench: Bench) -> None:
        stores = await _stores(bench)
        worker = await bench.session()
        for n in range(10):
            await bench.add(f"j{n}")
            rivals: list[Awaitable[Any]] = [
                _by(stores, 0).cancel(QUEUE, f"j{n}"),
                _by(stores, 1).settle_and_claim(worker, [], [QUEUE], 1),
            ]
            results = await _at_once(rivals if n % 2 else rivals[::-1])
            found, turn = results if n % 2 else results[::-1]
            assert (found.reply is Reply.OK) == (not turn.claimed)

    async def test_many_requeue_one_dead_letter_and_one_does(self, bench: Bench) -> None:
        worker = await bench.session()
        await bench.settle(worker, fail(await bench.take(worker, "j")))
        stores = await _stores(bench)
        done = await _at_once(_by(stores, n).requeue(Filter(queue=QUEUE)) for n in range(MANY))
        assert sum(len(each) for each in done) == 1

    # --- between processes

    async def test_processes_enqueue_the_same_ids_and_each_is_queued_once(self, bench: Bench) -> None:
        statuses = await _processes(bench, "enqueue")
        assert Counter(word for each in statuses for word in each) == {
            "queued": 50,
            "duplicate": 50 * (len(statuses) - 1),
        }

    async def test_processes_enqueue_the_same_dedup_keys_and_each_is_queued_once(self, bench: Bench) -> None:
        statuses = await _processes(bench, "dedup")
        assert Counter(word for each in statuses for word in each)["queued"] == 50

    async def test_processes_work_on_one_queue_and_every_job_runs_once(self, bench: Bench) -> None:
        jobs = [new(f"j{n}", key=f"k{n % 5}" if n % 3 else None) for n in range(200)]
        await bench.store.enqueue(rival.QUEUE, jobs)
        ran = [id for each in await _processes(bench, "work") for id in each]
        assert sorted(ran) == sorted(job.id for job in jobs)

    async def test_processes_reap_the_same_dead_session_and_each_job_stalls_once(self, bench: Bench) -> None:
        _catch_up(bench)
        session = Session(id="doomed", name="", host="", pid=0, queues=(rival.QUEUE,), lease_ms=60_000)
        await bench.store.register(session)
        await bench.store.enqueue(rival.QUEUE, [new(f"j{n}") for n in range(40)])
        assert len(await bench.claim(session, 40)) == 40
        await bench.store.leave(session)
        returned = await _processes(bench, "reap")
        assert sum(sum(each) for each in returned) == 40


def _catch_up(bench: Bench) -> None:
    """The bench's clock is not behind the real one, by which other processes go."""
    bench.clock.advance(max(0.0, time.time() - bench.now / 1000))


async def _stores(bench: Bench) -> list[Store]:
    return [bench.store, await bench.another(), await bench.another()]


def _by(stores: list[Store], number: int) -> Store:
    return stores[number % len(stores)]


async def _at_once(calls: Iterable[Awaitable[T]]) -> list[T]:
    return await asyncio.gather(*calls)


async def _processes(bench: Bench, race: str) -> Sequence[list[Any]]:
    """Return what each rival got. Where no other process can reach the store, the rivals are store objects here."""
    if not bench.harness.processes:
        stores = await _stores(bench)
        return await _at_once(rival.RACES[race](store, f"r{n}") for n, store in enumerate(stores))
    arguments = [sys.executable, "-m", rival.__name__, bench.harness.url, race]
    pipe = asyncio.subprocess.PIPE
    processes = [
        await asyncio.create_subprocess_exec(*arguments, f"r{n}", stdin=pipe, stdout=pipe) for n in range(RIVALS)
    ]
    for process in processes:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"ready\n"
    outputs = await asyncio.gather(*(process.communicate(b"go\n") for process in processes))
    _catch_up(bench)
    return [json.loads(output) for output, _ in outputs]
