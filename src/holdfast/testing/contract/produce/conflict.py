"""Enqueueing an id that exists: keep and update; and deduplication by key."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ....core.policy import Counters, Overrides
from ....core.state import State
from ....store.contract import Claimed, Conflict, DedupSpec, Filter, Settlement, UpdateRunAt
from ..bench import ERROR, QUEUE, UPDATE, Bench, carrying, complete, fail, new, release, retry
from ..case import Case

REQUEUE = Conflict(on_failed="requeue")


class ConflictCases(Case):
    """What becomes of a job whose id is taken."""

    # --- keep

    async def test_keep_changes_nothing_and_answers_the_existing_state(self, bench: Bench) -> None:
        first = await bench.add("j", delay_ms=1000)
        before = await bench.get("j")
        answer = await bench.add("j", payload=b"other", priority=9)
        assert (answer.status, answer.state, answer.run) == ("duplicate", State.SCHEDULED, first.run)
        assert await bench.get("j") == before
        assert await bench.told("j") == ["enqueue"]

    async def test_keep_answers_a_completed_id_with_its_result(self, bench: Bench) -> None:
        worker = await bench.session()
        claimed = await bench.take(worker, "j")
        await bench.settle(worker, complete(claimed, b"null"))
        answer = await bench.add("j")
        assert (answer.status, answer.state, answer.result) == ("completed", State.COMPLETED, b"null")

    async def test_keep_answers_a_failed_id_with_its_error(self, bench: Bench) -> None:
        worker = await bench.session()
        await bench.settle(worker, fail(await bench.take(worker, "j")))
        answer = await bench.add("j")
        assert (answer.status, answer.state, answer.error) == ("duplicate", State.FAILED, ERROR)

    async def test_on_failed_requeue_starts_a_failed_id_again(self, bench: Bench) -> None:
        worker = await bench.session()
        claimed = await bench.take(worker, "j")
        await bench.settle(worker, fail(claimed))
        answer = await bench.add("j", REQUEUE, payload=b"again")
        assert (answer.status, answer.state) == ("requeued", State.WAITING)
        assert answer.run > claimed.lease.run
        (again,) = await bench.claim(worker)
        assert (again.payload, again.counters, again.last_error) == (b"again", Counters(attempts=1), None)
        assert await bench.told("j") == ["enqueue", "claim", "fail", "requeue", "claim"]

    async def test_a_dead_letter_that_was_started_again_is_not_offered_for_requeue(self, bench: Bench) -> None:
        worker = await bench.session()
        await bench.settle(worker, fail(await bench.take(worker, "j")))
        await bench.add("j", REQUEUE)
        await bench.settle(worker, complete((await bench.claim(worker))[0]))
        bench.clock.advance(3601)
        assert await bench.store.requeue(Filter(queue=QUEUE), dry_run=True) == []

    async def test_on_failed_requeue_keeps_everything_else(self, bench: Bench) -> None:
        worker = await bench.session()
        claimed = await bench.take(worker, "j")
        assert (await bench.add("j", REQUEUE)).status == "duplicate"
        await bench.settle(worker, complete(claimed))
        assert (await bench.add("j", REQUEUE)).status == "completed"

    # --- update

    async def test_update_runs_a_finished_id_anew(self, bench: Bench) -> None:
        worker = await bench.session()
        for end in (complete, fail):
            claimed = await bench.take(worker, "j") if end is complete else (await bench.claim(worker))[0]
            await bench.settle(worker, end(claimed))
            answer = await bench.add("j", UPDATE, payload=end.__name__.encode())
            assert answer.run > claimed.lease.run
            job = await bench.get("j")
            assert (job.state, job.payload, job.counters) == (State.WAITING, end.__name__.encode(), Counters())
            assert (await bench.get("j", claimed.lease.run)).state.finished, "the earlier run is still there"

    @pytest.mark.parametrize("payload", [True, False])
    @pytest.mark.parametrize("reset", [True, False, None])
    async def test_update_field_by_field(self, bench: Bench, payload: bool, reset: bool | None) -> None:
        worker = await bench.session()
        claimed = await bench.take(worker, "j", payload=b"old", priority=1, key="old")
        await bench.settle(worker, retry(claimed))
        conflict = Conflict(on_conflict="update", update_payload=payload, reset_counts=reset)
        await bench.add("j", conflict, payload=b"new", priority=2, key="new")
        job = await bench.get("j")
        taken = (b"new", 2, "new") if payload else (b"old", 1, "old")
        assert (job.payload, job.priority, job.key) == taken
        resets = payload if reset is None else reset
        assert job.counters == Counters(attempts=1, failures=0 if resets else 1)
        assert (job.error is None) == resets, "a job that starts anew has no last error"

    async def test_a_new_payload_does_not_inherit_the_checkpoint_of_the_old(self, bench: Bench) -> None:
        worker = await bench.session()
        claimed = await bench.take(worker, "j")
        await bench.store.progress(worker, claimed.lease, None, b"half of the old")
        await bench.settle(worker, release(claimed))
        await bench.add("j", Conflict(on_conflict="update", update_payload=False))
        assert (await bench.get("j")).checkpoint == b"half of the old"
        await bench.add("j", UPDATE, payload=b"new")
        assert (await bench.get("j")).checkpoint is None

    @pytest.mark.parametrize(
        ("mode", "seconds", "expected"),
        [
            ("always", 5, 5), ("always", 20, 20), ("never", 5, 10), ("never", 20, 10),
            ("if_later", 5, 10), ("if_later", 20, 20), ("if_earlier", 5, 5), ("if_earlier", 20, 10),
        ],
    )  # fmt: skip
    async def test_update_of_run_at(self, bench: Bench, mode: UpdateRunAt, seconds: int, expected: int) -> None:
        start = bench.now
        await bench.add("j", delay_ms=10_000)
        await bench.add("j", Conflict(on_conflict="update", update_run_at=mode), run_at_ms=start + seconds * 1000)
        job = await bench.get("j")
        assert (job.state, job.run_at_ms) == (State.SCHEDULED, start + expected * 1000)

    @pytest.mark.parametrize("run_at", [0, 1, None])
    async def test_an_update_for_now_makes_a_scheduled_job_waiting(self, bench: Bench, run_at: int | None) -> None:
        await bench.add("j", delay_ms=10_000)
        await bench.add("j", UPDATE, run_at_ms=run_at)
        job = await bench.get("j")
        assert (job.state, job.run_at_ms) == (State.WAITING, bench.now)

    async def test_an_update_cannot_jump_the_queue_by_an_old_date(self, bench: Bench) -> None:
        await bench.add("first")
        bench.clock.advance(1)
        await bench.add("second")
        await bench.add("second", UPDATE, run_at_ms=1)
        assert await bench.order(await bench.session()) == ["first", "second"]

    async def test_a_waiting_job_that_is_updated_for_later_is_not_claimed(self, bench: Bench) -> None:
        worker = await bench.session()
        await bench.add("j", key="k")
        await bench.add("j", UPDATE, delay_ms=1000, key="k")
        assert await bench.order(worker) == []
        bench.clock.advance(1)
        assert await bench.order(worker) == ["j"]

    async def test_update_carries_overrides_and_headers(self, bench: Bench) -> None:
        await bench.add("j")
        await bench.add("j", UPDATE, envelope=carrying(headers={"a": "b"}), overrides=Overrides(timeout_ms=5))
        (claimed,) = await bench.claim(await bench.session())
        assert (claimed.envelope.headers, claimed.overrides) == ({"a": "b"}, Overrides(timeout_ms=5))

    # --- deduplication

    async def test_dedup_returns_the_existing_job_and_beats_the_callers_id(self, bench: Bench) -> None:
        first = await bench.add("a", dedup=DedupSpec(key="k"))
        answer = await bench.add("b", dedup=DedupSpec(key="k"))
        assert (answer.status, answer.id, answer.run) == ("duplicate", "a", first.run)
        assert await bench.store.get(QUEUE, "b") is None
        assert (await bench.add("c", dedup=DedupSpec(key="other"))).status == "queued"
        assert (await bench.add("a", UPDATE, dedup=DedupSpec(key="k"), payload=b"x")).status == "duplicate"

    async def test_dedup_answers_a_job_with_a_made_id_alike(self, bench: Bench) -> None:
        first = await bench.add("a", dedup=DedupSpec(key="k"), fresh=True)
        answer = await bench.add("b", dedup=DedupSpec(key="k"), fresh=True)
        assert (answer.status, answer.id, answer.run) == ("duplicate", "a", first.run)

    async def test_dedup_is_for_one_queue_and_task(self, bench: Bench) -> None:
        await bench.add("a", dedup=DedupSpec(key="k"))
        assert (await bench.add("b", task="another", dedup=DedupSpec(key="k"))).status == "queued"
        assert (await bench.add("c", queue="another", dedup=DedupSpec(key="k"))).status == "queued"

    @pytest.mark.parametrize("end", [complete, fail])
    async def test_dedup_by_scope(self, bench: Bench, end: Callable[[Claimed], Settlement]) -> None:
        worker = await bench.session()
        claimed = await bench.take(worker, "a", dedup=DedupSpec(key="k"))
        assert (await bench.add("b", dedup=DedupSpec(key="k"))).id == "a"
        await bench.settle(worker, end(claimed))
        found = await bench.add("b", dedup=DedupSpec(key="k", scope="any"))
        assert (found.id, found.run) == ("a", claimed.lease.run)
        assert (await bench.add("b", dedup=DedupSpec(key="k", scope="incomplete"))).status == "queued"

    async def test_a_cancelled_job_does_not_answer_for_its_key(self, bench: Bench) -> None:
        await bench.add("a", dedup=DedupSpec(key="k", scope="any"))
        await bench.store.cancel(QUEUE, "a")
        assert (await bench.add("b", dedup=DedupSpec(key="k", scope="any"))).status == "queued"

    async def test_dedup_within_a_window(self, bench: Bench) -> None:
        spec = DedupSpec(key="k", scope="any", window_ms=10_000)
        first = await bench.add("a", dedup=spec)
        bench.clock.advance(9.999)
        assert (await bench.add("b", dedup=spec)).run == first.run
        bench.clock.advance(0.001)
        assert (await bench.add("b", dedup=spec)).status == "queued"

    async def test_a_window_outlasts_the_result(self, bench: Bench) -> None:
        worker = await bench.session()
        spec = DedupSpec(key="k", scope="any", window_ms=10 * 3600 * 1000)
        claimed = await bench.take(worker, "a", dedup=spec)
        await bench.settle(worker, complete(claimed))
        await bench.store.set_result_ttl(QUEUE, "a", 1000)
        bench.clock.advance(9 * 3600)
        await bench.store.expire(QUEUE)
        assert (await bench.add("b", dedup=spec)).run == claimed.lease.run
        bench.clock.advance(3600)
        await bench.store.expire(QUEUE)
        assert (await bench.add("b", dedup=spec)).status == "queued"

    async def test_dedup_can_leave_out_ids(self, bench: Bench) -> None:
        await bench.add("a", dedup=DedupSpec(key="k"))
        answer = await bench.add("b", dedup=DedupSpec(key="k", exclude=("a",)))
        assert (answer.status, answer.id) == ("queued", "b")

    async def test_a_job_taken_in_as_a_successor_or_by_an_update_answers_for_its_key(self, bench: Bench) -> None:
        worker = await bench.session()
        claimed = await bench.take(worker, "a")
        await bench.add("a", UPDATE, dedup=DedupSpec(key="k"))
        await bench.settle(worker, complete(claimed))
        assert (await bench.add("b", dedup=DedupSpec(key="k"))).id == "a"
        await bench.add("c")
        await bench.add("c", UPDATE, dedup=DedupSpec(key="m"))
        assert (await bench.add("d", dedup=DedupSpec(key="m"))).id == "c"

    # --- batches

    async def test_one_batch_may_hold_new_taken_and_repeated_ids(self, bench: Bench) -> None:
        await bench.add("old")
        answers = await bench.store.enqueue(QUEUE, [new("a"), new("old"), new("b"), new("a")])
        assert [answer.status for answer in answers] == ["queued", "duplicate", "queued", "duplicate"]
        assert answers[3].run == answers[0].run
        assert await bench.store.enqueue(QUEUE, []) == []

    async def test_runs_are_numbered_and_never_reused(self, bench: Bench) -> None:
        runs = []
        for _ in range(3):
            runs.append((await bench.add("j")).run)
            await bench.store.delete(QUEUE, "j")
        assert runs == sorted(set(runs))
