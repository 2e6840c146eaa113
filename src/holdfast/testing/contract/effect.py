"""Effects: what each transition leaves in the record, in the log, and with callers that wait."""

from __future__ import annotations

from typing import Any

import msgspec

from ...core.envelope import Envelope
from ...core.event import Event
from ...core.job import ErrorRecord, Progress
from ...core.policy import Cause, Counters
from ...core.state import State
from ...store.contract import Claimed, Filter, ReapedJob, Session
from .bench import DAY, ERROR, QUEUE, TASK, UPDATE, Bench, complete, fail, free, release, retry, snooze, stall
from .case import Case

JOB: dict[str, Any] = {"priority": 7, "key": "ann"}


class EffectCases(Case):
    """One event for each transition, with all its columns, and a record that agrees with it."""

    async def test_enqueue(self, bench: Bench) -> None:
        envelope = Envelope(headers={"trace": "1"})
        answer = await bench.add("j", envelope=envelope.encoded(), **JOB)
        job = await bench.get("j")
        assert (job.run, job.state, job.payload, job.task) == (answer.run, State.WAITING, b"j", TASK)
        assert (job.priority, job.key, job.headers) == (7, "ann", {"trace": "1"})
        assert (job.run_at_ms, job.enqueued_at_ms, job.started_at_ms) == (bench.now, bench.now, None)
        assert job.counters == Counters()
        assert await _last(bench) == _event(bench, "enqueue", State.WAITING, answer.run, envelope=envelope)

    async def test_enqueue_for_later(self, bench: Bench) -> None:
        answer = await bench.add("j", delay_ms=5000, **JOB)
        assert (await bench.get("j")).state is answer.state is State.SCHEDULED
        expected = _event(bench, "enqueue", State.SCHEDULED, answer.run, run_at_ms=bench.now + 5000)
        assert await _last(bench) == expected

    async def test_update(self, bench: Bench) -> None:
        first = await bench.add("j", **JOB)
        bench.clock.advance(1)
        answer = await bench.add("j", UPDATE, payload=b"new", delay_ms=1000, priority=-1, key="bob")
        job = await bench.get("j")
        assert (answer.status, answer.run, job.run) == ("updated", first.run, first.run)
        assert (job.payload, job.priority, job.key) == (b"new", -1, "bob")
        assert (job.state, job.run_at_ms) == (State.SCHEDULED, bench.now + 1000)
        expected = _event(
            bench, "update", State.SCHEDULED, first.run, run_at_ms=bench.now + 1000, key="bob", priority=-1
        )
        assert await _last(bench) == expected

    async def test_promote_when_asked(self, bench: Bench) -> None:
        answer = await bench.add("j", delay_ms=5000, **JOB)
        bench.clock.advance(1)
        await bench.store.promote(QUEUE, "j")
        job = await bench.get("j")
        assert (job.state, job.run_at_ms) == (State.WAITING, bench.now)
        assert await _last(bench) == _event(bench, "promote", State.WAITING, answer.run, cause="asked")

    async def test_promote_when_due(self, bench: Bench) -> None:
        answer = await bench.add("j", delay_ms=5000, **JOB)
        due = bench.now + 5000
        await bench.tick(6)
        (claimed,) = await bench.claim(await bench.session())
        events = await bench.events("j")
        assert [event.transition for event in events] == ["enqueue", "promote", "claim"]
        promoted = msgspec.structs.replace(events[1], position="")
        assert promoted == _event(bench, "promote", State.WAITING, answer.run, run_at_ms=due)
        assert claimed.run_at_ms == due
        assert events[2].wait_ms == 1000, "it could have run a second ago"

    async def test_claim(self, bench: Bench) -> None:
        envelope = Envelope(headers={"trace": "1"})
        answer = await bench.add("j", envelope=envelope.encoded(), **JOB)
        enqueued = bench.now
        bench.clock.advance(3)
        worker = await bench.session()
        (claimed,) = await bench.claim(worker)
        assert (claimed.lease.queue, claimed.lease.id) == (QUEUE, "j")
        assert (claimed.lease.run, claimed.lease.attempt) == (answer.run, 1)
        assert (claimed.payload, claimed.task, claimed.envelope.headers) == (b"j", TASK, {"trace": "1"})
        assert (claimed.enqueued_at_ms, claimed.run_at_ms, claimed.claimed_at_ms) == (enqueued, enqueued, bench.now)
        assert (claimed.priority, claimed.key, claimed.last_error, claimed.checkpoint) == (7, "ann", None, None)
        job = await bench.get("j")
        assert (job.state, job.worker, job.started_at_ms) == (State.ACTIVE, worker.id, bench.now)
        assert job.counters == claimed.counters == Counters(attempts=1)
        expected = _event(
            bench, "claim", State.ACTIVE, answer.run, attempt=1, worker=worker.id, wait_ms=3000, run_at_ms=enqueued
        )
        assert await _last(bench) == expected

    async def test_extend_moves_the_expiry_and_appends_nothing(self, bench: Bench) -> None:
        worker = await bench.session()
        await bench.take(worker, "j")
        before = await bench.told("j")
        bench.clock.advance(5)
        assert not (await bench.store.extend(worker)).evicted
        (info,) = await bench.store.sessions()
        assert (info.heard_at_ms, info.expires_at_ms) == (bench.now, bench.now + worker.lease_ms)
        assert await bench.told("j") == before

    async def test_progress(self, bench: Bench) -> None:
        worker = await bench.session()
        claimed = await bench.take(worker, "j", **JOB)
        started = bench.now
        bench.clock.advance(2)
        await bench.store.progress(worker, claimed.lease, Progress(fraction=0.5, message="half"), b"here")
        job = await bench.get("j")
        assert (job.progress, job.checkpoint) == (Progress(fraction=0.5, message="half"), b"here")
        expected = _event(
            bench, "progress", State.ACTIVE, job.run, attempt=1, run_at_ms=started, progress=0.5, message="half"
        )
        assert msgspec.structs.replace(await _last(bench), worker=None) == expected

    async def test_complete(self, bench: Bench) -> None:
        worker, claimed = await running(bench)
        assert (await bench.settle(worker, complete(claimed, b"42"))).state is State.COMPLETED
        job = await bench.get("j")
        assert (job.state, job.result, job.error, job.finished_at_ms) == (State.COMPLETED, b"42", None, bench.now)
        assert job.holds_id
        assert job.expires_at_ms == bench.now + 3_600_000
        assert await _last(bench) == _ended(bench, "complete", State.COMPLETED, claimed, worker)

    async def test_retry(self, bench: Bench) -> None:
        worker, claimed = await running(bench)
        assert (await bench.settle(worker, retry(claimed))).state is State.SCHEDULED
        job = await bench.get("j")
        assert (job.state, job.run_at_ms, job.error) == (State.SCHEDULED, bench.now + 2000, ERROR)
        assert job.failing
        expected = _ended(
            bench, "retry", State.SCHEDULED, claimed, worker, cause="failure", run_at_ms=bench.now + 2000,
            failures=1, error=ERROR,
        )  # fmt: skip
        assert await _last(bench) == expected

    async def test_retry_after_a_timeout(self, bench: Bench) -> None:
        worker, claimed = await running(bench)
        await bench.settle(worker, retry(claimed, Cause.TIMEOUT))
        job = await bench.get("j")
        assert job.counters == Counters(attempts=1, timeouts=1)
        assert not job.failing
        expected = _ended(
            bench, "retry", State.SCHEDULED, claimed, worker, cause="timeout", run_at_ms=bench.now + 2000,
            timeouts=1, error=ERROR,
        )  # fmt: skip
        assert await _last(bench) == expected

    async def test_fail(self, bench: Bench) -> None:
        worker, claimed = await running(bench)
        assert (await bench.settle(worker, fail(claimed))).state is State.FAILED
        job = await bench.get("j")
        assert (job.state, job.error, job.finished_at_ms) == (State.FAILED, ERROR, bench.now)
        assert job.counters == Counters(attempts=1, failures=1)
        assert job.expires_at_ms == bench.now + 90 * DAY * 1000
        expected = _ended(bench, "fail", State.FAILED, claimed, worker, cause="permanent", failures=1, error=ERROR)
        assert await _last(bench) == expected

    async def test_snooze(self, bench: Bench) -> None:
        worker, claimed = await running(bench)
        at = bench.now + 90_000
        assert (await bench.settle(worker, snooze(claimed, run_at_ms=at))).state is State.SCHEDULED
        job = await bench.get("j")
        assert (job.state, job.run_at_ms, job.counters) == (State.SCHEDULED, at, Counters(attempts=1))
        assert await _last(bench) == _ended(bench, "snooze", State.SCHEDULED, claimed, worker, run_at_ms=at)

    async def test_a_snooze_into_the_past_is_raised_to_now(self, bench: Bench) -> None:
        worker, claimed = await running(bench)
        assert (await bench.settle(worker, snooze(claimed, run_at_ms=1))).state is State.SCHEDULED
        assert (await bench.get("j")).run_at_ms == bench.now
        assert await bench.order(worker) == ["j"]

    async def test_release(self, bench: Bench) -> None:
        worker, claimed = await running(bench)
        assert (await bench.settle(worker, release(claimed))).state is State.WAITING
        job = await bench.get("j")
        assert (job.state, job.run_at_ms) == (State.WAITING, claimed.run_at_ms)
        assert job.counters == Counters(attempts=1, releases=1)
        assert await _last(bench) == _ended(bench, "release", State.WAITING, claimed, worker, releases=1)

    async def test_release_with_a_delay(self, bench: Bench) -> None:
        worker, claimed = await running(bench)
        assert (await bench.settle(worker, release(claimed, 3))).state is State.SCHEDULED
        assert (await bench.get("j")).run_at_ms == bench.now + 3000

    async def test_release_for_the_workers_own_trouble(self, bench: Bench) -> None:
        worker, claimed = await running(bench)
        assert (await bench.settle(worker, free(claimed))).state is State.WAITING
        job = await bench.get("j")
        assert (job.state, job.run_at_ms, job.error) == (State.WAITING, claimed.run_at_ms, None)
        assert job.counters == Counters(attempts=1)
        last = await _last(bench)
        assert (last.transition, last.cause, last.worker) == ("release", "worker", worker.id)
        assert (await bench.settle(worker, free(claimed))).state is State.WAITING, "the reply was lost"

    async def test_release_of_a_job_whose_process_died(self, bench: Bench) -> None:
        worker, claimed = await running(bench)
        assert (await bench.settle(worker, stall(claimed))).state is State.WAITING
        job = await bench.get("j")
        assert (job.state, job.run_at_ms, job.error) == (State.WAITING, claimed.run_at_ms, ERROR)
        assert job.counters == Counters(attempts=1, stalls=1)
        last = await _last(bench)
        assert (last.transition, last.cause, last.counters.stalls) == ("release", "stall", 1)
        assert last.error_type == ERROR.type

    async def test_cancel(self, bench: Bench) -> None:
        answer = await bench.add("j", **JOB)
        found = await bench.store.cancel(QUEUE, "j")
        job = await bench.get("j")
        assert (found.state, found.run, found.signalled) == (State.WAITING, answer.run, False)
        assert (job.state, job.finished_at_ms, job.holds_id) == (State.CANCELLED, bench.now, False)
        assert await _last(bench) == _event(bench, "cancel", State.CANCELLED, answer.run)

    async def test_cancel_of_a_running_job(self, bench: Bench) -> None:
        worker, claimed = await running(bench)
        found = await bench.store.cancel(QUEUE, "j", "signal")
        assert (found.state, found.signalled) == (State.ACTIVE, True)
        assert (await bench.get("j")).cancel_requested
        assert (await bench.store.extend(worker)).aborts == [(claimed.lease, "cancelled")]
        assert (await bench.settle(worker, retry(claimed))).state is State.CANCELLED
        expected = _ended(bench, "cancel", State.CANCELLED, claimed, worker, cause="retry")
        assert await _last(bench) == expected
        assert (await bench.store.extend(worker)).aborts == []

    async def test_reap(self, bench: Bench) -> None:
        worker, claimed = await running(bench)
        reaped = await bench.vanish(worker)
        assert (reaped.sessions, reaped.returned, reaped.failed, reaped.more) == ((worker.id,), 1, 0, False)
        (told,) = reaped.jobs
        counters = Counters(attempts=1, stalls=1)
        assert told == ReapedJob(
            claimed.lease, claimed.task, State.WAITING, counters, bench.now - claimed.claimed_at_ms
        )
        assert told.ran_ms > 0
        job = await bench.get("j")
        assert (job.state, job.run_at_ms) == (State.WAITING, claimed.run_at_ms)
        assert job.counters == Counters(attempts=1, stalls=1)
        assert job.error is not None
        assert job.error.kind == "stall"
        expected = _ended(bench, "reap", State.WAITING, claimed, worker, stalls=1, error=job.error)
        assert await _last(bench) == expected

    async def test_requeue(self, bench: Bench) -> None:
        worker, claimed = await running(bench)
        await bench.settle(worker, fail(claimed))
        bench.clock.advance(1)
        ((queue, id, run),) = await bench.store.requeue(Filter(queue=QUEUE, ids=("j",)))
        job = await bench.get("j")
        assert (queue, id, run) == (QUEUE, "j", job.run)
        assert run > claimed.lease.run
        assert (job.state, job.payload, job.counters, job.error) == (State.WAITING, b"j", Counters(), None)
        assert (job.priority, job.key) == (7, "ann")
        assert await _last(bench) == _event(bench, "requeue", State.WAITING, run)
        dead = await bench.get("j", claimed.lease.run)
        assert (dead.state, dead.holds_id) == (State.FAILED, False)

    async def test_expire(self, bench: Bench) -> None:
        worker, claimed = await running(bench)
        await bench.settle(worker, complete(claimed))
        bench.clock.advance(3600)
        assert (await bench.store.expire(QUEUE)).runs == 1
        assert await bench.store.get(QUEUE, "j") is None
        expected = _event(bench, "expire", None, claimed.lease.run, attempt=1, run_at_ms=claimed.run_at_ms, cause="age")
        assert await _last(bench) == expected

    async def test_delete(self, bench: Bench) -> None:
        worker, claimed = await running(bench)
        await bench.store.delete(QUEUE, "j")
        assert await bench.store.get(QUEUE, "j") is None
        assert (await bench.store.extend(worker)).aborts == [(claimed.lease, "deleted")]
        expected = _event(bench, "delete", None, claimed.lease.run, attempt=1, run_at_ms=claimed.run_at_ms)
        assert await _last(bench) == expected

    async def test_the_handler_of_a_deleted_job_is_told_until_it_has_settled(self, bench: Bench) -> None:
        worker, claimed = await running(bench)
        await bench.store.delete(QUEUE, "j")
        assert (await bench.turn(worker)).aborts == [(claimed.lease, "deleted")]
        await bench.settle(worker, complete(claimed))
        assert (await bench.store.extend(worker)).aborts == []


async def running(bench: Bench) -> tuple[Session, Claimed]:
    """Return a worker that has run the job `j` for four seconds."""
    worker = await bench.session()
    claimed = await bench.take(worker, "j", **JOB)
    bench.clock.advance(4)
    return worker, claimed


async def _last(bench: Bench) -> Event:
    events = await bench.events()
    assert len({event.position for event in events}) == len(events)
    return msgspec.structs.replace(events[-1], position="")


def _event(bench: Bench, transition: str, state: State | None, run: int, **fields: object) -> Event:
    values = {"attempt": 0, "run_at_ms": bench.now, "key": "ann", "priority": 7, **fields}
    counters = Counters(attempts=values["attempt"])  # type: ignore[arg-type]
    return Event(
        **{
            "position": "", "at_ms": bench.now, "queue": QUEUE, "id": "j", "run": run, "transition": transition,
            "state": state, "task": TASK, "counters": counters, **values,
        }  # type: ignore[arg-type]
    )  # fmt: skip


def _ended(
    bench: Bench,
    transition: str,
    state: State,
    claimed: Claimed,
    worker: Session,
    *,
    error: ErrorRecord | None = None,
    cause: str | None = None,
    run_at_ms: int | None = None,
    **counted: int,
) -> Event:
    """Return the event of a transition that ended an attempt."""
    return _event(
        bench,
        transition,
        state,
        claimed.lease.run,
        attempt=1,
        worker=worker.id,
        cause=cause,
        run_at_ms=claimed.run_at_ms if run_at_ms is None else run_at_ms,
        run_ms=bench.now - claimed.claimed_at_ms,
        counters=Counters(attempts=1, **counted),
        error_type=error.type if error else None,
        error_signature=error.signature if error else None,
    )
