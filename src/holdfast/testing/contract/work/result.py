"""Results, dead letters and retention: everything is kept for its time, and then gone."""

from __future__ import annotations

import pytest

from ....core.bound import FOR_EVER_MS
from ....core.state import State
from ....core.transition import Reply
from ....errors import ConfigError
from ....store.contract import Complete, Conflict, Continuation, Filter
from ..bench import DAY, ERROR, QUEUE, Bench, complete, fail, new
from ..case import Case

HOUR = 3600.0


class ResultCases(Case):
    """How long a result, an id and a dead letter are there."""

    @pytest.mark.parametrize("result", [b"null", b"", b"\x00\xff", b"[1]"])
    async def test_none_and_nothing_are_results(self, bench: Bench, result: bytes) -> None:
        worker = await bench.session()
        await bench.settle(worker, complete(await bench.take(worker, "j"), result))
        job = await bench.get("j")
        assert (job.state, job.result) == (State.COMPLETED, result)
        assert (await bench.add("j")).result == result

    async def test_after_its_ttl_a_result_is_gone_and_its_id_free_swept_or_not(self, bench: Bench) -> None:
        worker = await bench.session()
        for sweep in (False, True):
            await bench.settle(worker, complete(await bench.take(worker, "j")))
            bench.clock.advance(HOUR - 0.001)
            assert (await bench.add("j")).status == "completed"
            bench.clock.advance(0.001)
            assert await bench.store.get(QUEUE, "j") is None
            assert (await bench.store.jobs(Filter(queue=QUEUE))).jobs == []
            if sweep:
                assert (await bench.store.expire(QUEUE)).runs > 0
            assert (await bench.add("j")).status == "queued"
            await bench.store.delete(QUEUE, "j")

    async def test_the_ttl_by_queue_by_job_and_by_worker(self, bench: Bench) -> None:
        worker = await bench.session()
        await bench.store.configure(QUEUE, {"result_ttl_ms": 10_000})
        await bench.settle(worker, complete(await bench.take(worker, "queue")))
        await bench.settle(worker, complete(await bench.take(worker, "job", result_ttl_ms=20_000)))
        await bench.settle(worker, complete(await bench.take(worker, "worker"), result_ttl_ms=30_000))
        both = await bench.take(worker, "both", result_ttl_ms=20_000)
        await bench.settle(worker, complete(both, result_ttl_ms=30_000))
        for id, seconds in (("queue", 10), ("job", 20), ("worker", 30), ("both", 30)):
            assert (await bench.get(id)).expires_at_ms == bench.now + seconds * 1000

    async def test_a_ttl_for_ever_keeps_the_result_and_the_id(self, bench: Bench) -> None:
        worker = await bench.session()
        await bench.settle(worker, complete(await bench.take(worker, "job", result_ttl_ms=FOR_EVER_MS)))
        await bench.settle(worker, complete(await bench.take(worker, "worker"), result_ttl_ms=FOR_EVER_MS))
        await bench.settle(worker, complete(await bench.take(worker, "later")))
        assert await bench.store.set_result_ttl(QUEUE, "later", FOR_EVER_MS) is Reply.OK
        lost = await bench.take(worker, "lost", result_ttl_ms=FOR_EVER_MS)
        await bench.settle(worker, fail(lost))
        await bench.store.configure(QUEUE, {"result_ttl_ms": FOR_EVER_MS})
        await bench.settle(worker, complete(await bench.take(worker, "queue")))
        ends = [(await bench.get(id)).expires_at_ms for id in ("job", "worker", "later", "lost", "queue")]
        assert ends == [bench.now + FOR_EVER_MS] * 5
        bench.clock.advance(1000 * 365 * DAY)
        await bench.store.expire(QUEUE)
        assert [(await bench.add(id)).status for id in ("job", "worker", "later", "queue")] == ["completed"] * 4
        assert (await bench.get("job")).result == b"done"
        assert (await bench.add("lost")).state is State.FAILED
        for id in ("job", "worker", "later", "lost", "queue"):
            assert await bench.store.delete(QUEUE, id) is Reply.OK

    async def test_a_failed_job_holds_its_id_by_the_same_ttl(self, bench: Bench) -> None:
        worker = await bench.session()
        await bench.store.configure(QUEUE, {"result_ttl_ms": 10_000})
        await bench.settle(worker, fail(await bench.take(worker, "queue")))
        await bench.settle(worker, fail(await bench.take(worker, "job", result_ttl_ms=20_000)))
        bench.clock.advance(10)
        assert ((await bench.add("queue")).status, (await bench.add("job")).status) == ("queued", "duplicate")
        bench.clock.advance(10)
        assert (await bench.add("job")).status == "queued"

    async def test_the_ttl_can_be_changed_afterwards(self, bench: Bench) -> None:
        worker = await bench.session()
        claimed = await bench.take(worker, "j")
        assert await bench.store.set_result_ttl(QUEUE, "j", 5000) is Reply.OK
        await bench.settle(worker, complete(claimed))
        assert (await bench.get("j")).expires_at_ms == bench.now + 5000
        assert await bench.store.set_result_ttl(QUEUE, "j", 9000) is Reply.OK
        bench.clock.advance(8.999)
        assert (await bench.add("j")).status == "completed"
        bench.clock.advance(0.001)
        assert (await bench.add("j")).status == "queued"
        assert await bench.store.set_result_ttl(QUEUE, "nobody", 1) is Reply.MISSING

    async def test_the_ttl_of_many_runs_can_be_changed_by_their_numbers(self, bench: Bench) -> None:
        worker = await bench.session()
        done, lost = await bench.take(worker, "done", result_ttl_ms=90_000), await bench.take(worker, "lost")
        await bench.settle(worker, complete(done))
        await bench.settle(worker, fail(lost))
        waiting, other = (
            await bench.add("waiting", result_ttl_ms=90_000),
            await bench.add("other", result_ttl_ms=90_000),
        )
        assert other.run > waiting.run > lost.lease.run > done.lease.run
        await bench.store.keep_runs(QUEUE, done.lease.run, waiting.run, 5000)
        await bench.store.keep_runs("elsewhere", done.lease.run, other.run, 1)
        assert (await bench.get("done")).expires_at_ms == bench.now + 5000
        for claimed in await bench.claim(worker, 2):
            await bench.settle(worker, complete(claimed))
        assert (await bench.get("waiting")).expires_at_ms == bench.now + 5000
        assert (await bench.get("other")).expires_at_ms == bench.now + 90_000
        bench.clock.advance(5)
        assert [(await bench.add(id)).status for id in ("done", "lost", "waiting", "other")] == [
            "queued", "queued", "queued", "completed",
        ]  # fmt: skip
        assert (await bench.get("lost", lost.lease.run)).state is State.FAILED

    async def test_many_runs_can_be_kept_as_the_queue_says(self, bench: Bench) -> None:
        worker = await bench.session()
        done = await bench.take(worker, "done", result_ttl_ms=90_000)
        await bench.settle(worker, complete(done))
        held = await bench.take(worker, "held", result_ttl_ms=90_000)
        last = await bench.add("waiting", result_ttl_ms=90_000)
        await bench.store.configure(QUEUE, {"result_ttl_ms": 20_000})
        await bench.store.keep_runs(QUEUE, done.lease.run, last.run, None)
        assert (await bench.get("done")).expires_at_ms == bench.now + 20_000
        await bench.store.configure(QUEUE, {"result_ttl_ms": 30_000})
        await bench.settle(worker, complete(held))
        await bench.settle(worker, complete((await bench.claim(worker, 1))[0]))
        assert (await bench.get("held")).expires_at_ms == bench.now + 30_000
        assert (await bench.get("waiting")).expires_at_ms == bench.now + 30_000

    async def test_a_shortened_ttl_frees_the_id_and_keeps_the_dead_letter(self, bench: Bench) -> None:
        worker = await bench.session()
        claimed = await bench.take(worker, "j")
        await bench.settle(worker, fail(claimed))
        await bench.store.set_result_ttl(QUEUE, "j", 1000)
        bench.clock.advance(1)
        assert (await bench.add("j")).status == "queued"
        assert (await bench.get("j", claimed.lease.run)).state is State.FAILED

    async def test_a_dead_letter_outlives_its_id_and_is_listed_by_run(self, bench: Bench) -> None:
        worker = await bench.session()
        runs = []
        for _ in range(3):
            claimed = await bench.take(worker, "j")
            runs.append(claimed.lease.run)
            await bench.settle(worker, fail(claimed))
            bench.clock.advance(HOUR)
            await bench.store.expire(QUEUE)
        found = (await bench.store.jobs(Filter(states=(State.FAILED,)))).jobs
        assert [job.run for job in found] == runs[::-1]
        assert all(job.error == ERROR and not job.holds_id for job in found)
        bench.clock.advance(90 * DAY)
        await bench.store.expire(QUEUE)
        assert (await bench.store.jobs(Filter(states=(State.FAILED,)))).jobs == []

    async def test_a_dead_letter_is_seen_again_when_a_later_result_is_over_swept_or_not(self, bench: Bench) -> None:
        worker = await bench.session()
        claimed = await bench.take(worker, "j")
        await bench.settle(worker, fail(claimed))
        await bench.add("j", Conflict(on_failed="requeue"))
        await bench.settle(worker, complete((await bench.claim(worker))[0]))
        bench.clock.advance(HOUR)
        for _ in range(2):
            assert (await bench.get("j")).run == claimed.lease.run
            assert (await bench.store.cancel(QUEUE, "j")).state is State.FAILED
            await bench.store.expire(QUEUE)

    async def test_retention_of_failed_runs_by_count_keeps_the_newest(self, bench: Bench) -> None:
        await bench.store.configure(QUEUE, {"retention": {"failed_count": 2}})
        worker = await bench.session()
        for number in range(5):
            await bench.settle(worker, fail(await bench.take(worker, f"j{number}")))
        await bench.store.expire(QUEUE)
        assert len((await bench.store.jobs(Filter(queue=QUEUE))).jobs) == 5, "an id is held until its TTL ends"
        bench.clock.advance(HOUR)
        assert (await bench.store.expire(QUEUE)).runs == 3
        assert [job.id for job in (await bench.store.jobs(Filter(queue=QUEUE))).jobs] == ["j4", "j3"]

    async def test_dead_letters_stay_however_many_they_are_until_their_age(self, bench: Bench) -> None:
        worker = await bench.session()
        await bench.store.enqueue(QUEUE, [new(f"j{number}") for number in range(1_100)])
        while held := await bench.claim(worker, 100):
            await bench.turn(worker, *(fail(claimed) for claimed in held))
        bench.clock.advance(89 * DAY)
        while (swept := await bench.store.expire(QUEUE)).more:
            pass
        assert swept.runs == 0
        (info,) = [info for info in await bench.store.queues() if info.name == QUEUE]
        assert info.counts["failed"] == 1_100

    async def test_dead_letters_that_nobody_decides_about_stay_for_ever_if_so_wished(self, bench: Bench) -> None:
        await bench.store.configure(QUEUE, {"retention": {"failed": None}})
        worker = await bench.session()
        await bench.settle(worker, fail(await bench.take(worker, "j")))
        bench.clock.advance(50 * 365 * DAY)
        assert (await bench.store.expire(QUEUE)).runs == 0
        assert (await bench.get("j")).state is State.FAILED
        await bench.store.delete(QUEUE, "j")

    async def test_what_retention_takes_is_counted_and_told_with_its_cause(self, bench: Bench) -> None:
        await bench.store.configure(QUEUE, {"retention": {"failed": 2 * HOUR, "failed_count": 3}})
        worker = await bench.session()
        for number in range(5):
            await bench.settle(worker, fail(await bench.take(worker, f"j{number}")))
        await bench.settle(worker, complete(await bench.take(worker, "done")))
        bench.clock.advance(HOUR)
        swept = await bench.store.expire(QUEUE)
        assert (swept.runs, swept.failed_by_age, swept.failed_by_count) == (3, 0, 2)
        bench.clock.advance(HOUR)
        swept = await bench.store.expire(QUEUE)
        assert (swept.runs, swept.failed_by_age, swept.failed_by_count) == (3, 3, 0)
        told = {event.id: event.cause for event in await bench.events() if event.transition == "expire"}
        assert told == {"done": "age", "j0": "count", "j1": "count", "j2": "age", "j3": "age", "j4": "age"}

    async def test_a_failed_chain_is_a_dead_letter_too(self, bench: Bench) -> None:
        await bench.store.configure(QUEUE, {"retention": {"failed": HOUR}})
        worker = await bench.session()
        first = await bench.take(worker, "j")
        await bench.settle(worker, Complete(first.lease, b"", then=Continuation(QUEUE, new("next"))))
        (second,) = await bench.claim(worker)
        await bench.settle(worker, fail(second))
        bench.clock.advance(HOUR)
        swept = await bench.store.expire(QUEUE)
        assert (swept.runs, swept.failed_by_age, swept.failed_by_count) == (2, 1, 0)

    async def test_retention_of_completed_runs_outlasts_the_id(self, bench: Bench) -> None:
        await bench.store.configure(QUEUE, {"retention": {"completed": DAY}})
        worker = await bench.session()
        claimed = await bench.take(worker, "j")
        await bench.settle(worker, complete(claimed))
        bench.clock.advance(HOUR)
        assert (await bench.add("j")).status == "queued"
        assert (await bench.get("j", claimed.lease.run)).state is State.COMPLETED

    async def test_a_sweep_is_bounded(self, bench: Bench) -> None:
        worker = await bench.session()
        for number in range(7):
            await bench.settle(worker, complete(await bench.take(worker, f"j{number}")))
        bench.clock.advance(HOUR)
        swept = [await bench.store.expire(QUEUE, limit=3) for _ in range(4)]
        assert [(each.runs, each.more) for each in swept] == [(3, True), (3, True), (1, False), (0, False)]

    async def test_expire_touches_nothing_that_lives(self, bench: Bench) -> None:
        worker = await bench.session(lease_ms=10**12)
        await bench.take(worker, "active")
        await bench.add("waiting")
        await bench.add("scheduled", delay_ms=10**11)
        bench.clock.advance(365 * DAY)
        assert (await bench.store.expire(QUEUE)).runs == 0
        assert len((await bench.store.jobs(Filter(queue=QUEUE))).jobs) == 3

    # --- requeue

    async def test_requeue_by_filter_and_dry_run(self, bench: Bench) -> None:
        worker = await bench.session()
        runs = {}
        for id, key, task in (("a", "x", "t"), ("b", "x", "u"), ("c", "y", "t")):
            claimed = await bench.take(worker, id, key=key, task=task)
            runs[id] = claimed.lease.run
            await bench.settle(worker, fail(claimed))
        await bench.settle(worker, complete(await bench.take(worker, "d", key="x")))
        dry = await bench.store.requeue(Filter(queue=QUEUE, key="x"), dry_run=True)
        assert dry == [(QUEUE, "a", runs["a"]), (QUEUE, "b", runs["b"])]
        assert await bench.claim(worker) == []
        done = await bench.store.requeue(Filter(queue=QUEUE, key="x", task="t"))
        assert [(queue, id) for queue, id, _ in done] == [(QUEUE, "a")]
        assert await bench.store.requeue(Filter(queue=QUEUE, key="x", task="t")) == [], "once"
        assert [id for _, id, _ in await bench.store.requeue(Filter(queue=QUEUE))] == ["b", "c"]
        assert sorted(await bench.order(worker)) == ["a", "b", "c"]

    async def test_requeue_of_a_completed_job_when_it_is_asked_for(self, bench: Bench) -> None:
        worker = await bench.session()
        await bench.settle(worker, complete(await bench.take(worker, "j")))
        assert await bench.store.requeue(Filter(queue=QUEUE, ids=("j",))) == [], "dead letters are the default"
        which = Filter(queue=QUEUE, ids=("j",), states=(State.COMPLETED,))
        assert len(await bench.store.requeue(which)) == 1
        assert await bench.order(worker) == ["j"]

    async def test_requeue_leaves_an_id_alone_that_another_run_holds(self, bench: Bench) -> None:
        worker = await bench.session()
        await bench.settle(worker, fail(await bench.take(worker, "j")))
        bench.clock.advance(HOUR)
        await bench.add("j", payload=b"newer")
        assert await bench.store.requeue(Filter(queue=QUEUE)) == []
        assert (await bench.get("j")).payload == b"newer"

    async def test_requeue_is_bounded(self, bench: Bench) -> None:
        worker = await bench.session()
        for number in range(5):
            await bench.settle(worker, fail(await bench.take(worker, f"j{number}")))
        sizes = [len(await bench.store.requeue(Filter(queue=QUEUE), limit=2)) for _ in range(4)]
        assert sizes == [2, 2, 1, 0]

    async def test_requeue_of_what_is_not_over_is_refused(self, bench: Bench) -> None:
        with pytest.raises(ConfigError, match="only finished jobs"):
            await bench.store.requeue(Filter(queue=QUEUE, states=(State.WAITING,)))
