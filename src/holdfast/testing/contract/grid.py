"""The grid: every transition, from every state, by every kind of caller, against `judge`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from ...core.chain import BlockerRef
from ...core.job import Progress
from ...core.state import FINISHED, State
from ...core.transition import TRANSITIONS, Reply, judge
from ...store.contract import Filter, Lease, Session, Settlement
from .bench import DAY, QUEUE, UPDATE, Bench, complete, fail, release, retry, snooze
from .case import Case

SETTLEMENTS: dict[str, Callable[[Lease], Settlement]] = {
    "complete": complete,
    "retry": retry,
    "fail": fail,
    "snooze": snooze,
    "release": release,
}
FENCED = (*SETTLEMENTS, "progress")
BY_ID = ("enqueue", "update", "promote", "unblock", "cancel", "requeue", "delete", "claim", "reap", "expire")
BY_SESSION = ("extend",)

STATES: tuple[State | None, ...] = (None, *State)
TRIED: tuple[State | None, ...] = tuple(state for state in STATES if state is not State.BLOCKED)
"""Where a run can stand that was started before: none is blocked any more."""
ELSEWHERE = "elsewhere"
ENDED_BY = {
    State.WAITING: "release",
    State.SCHEDULED: "retry",
    State.COMPLETED: "complete",
    State.FAILED: "fail",
    State.CANCELLED: "release",
}
"""How the last attempt of a job in each state ended, on this bench."""


class GridCases(Case):
    """What a store answers, for each cell of the grid; and a refusal changes nothing."""

    def test_the_grid_is_whole(self) -> None:
        assert {*FENCED, *BY_ID, *BY_SESSION} == set(TRANSITIONS)

    @pytest.mark.parametrize("state", STATES, ids=str)
    async def test_complete_from_outside(self, bench: Bench, state: State | None) -> None:
        worker = await bench.session()
        await _bring(bench, worker, state)
        expected = judge("complete", state, outside=True)
        changes = expected is Reply.OK
        await _expect(bench, changes, expected, lambda: bench.store.complete_chain(QUEUE, "j", None, b"done"))
        assert not changes or await bench.state("j") is State.COMPLETED

    @pytest.mark.parametrize("state", STATES, ids=str)
    @pytest.mark.parametrize("name", FENCED)
    async def test_by_the_last_holder(self, bench: Bench, name: str, state: State | None) -> None:
        worker = await bench.session()
        lease = await _bring(bench, worker, state)
        repeated = state is not None and ENDED_BY.get(state) == name
        expected = judge(name, state, holds_lease=state is State.ACTIVE, repeated=repeated)
        changes = expected is Reply.OK and not repeated
        await _expect(bench, changes, expected, lambda: _word(bench, worker, name, lease))

    @pytest.mark.parametrize("state", STATES, ids=str)
    @pytest.mark.parametrize("name", FENCED)
    async def test_by_another_session_with_the_same_token(self, bench: Bench, name: str, state: State | None) -> None:
        worker, stranger = await bench.session(), await bench.session()
        lease = await _bring(bench, worker, state)
        expected = judge(name, state, holds_lease=False)
        await _expect(bench, False, expected, lambda: _word(bench, stranger, name, lease))

    @pytest.mark.parametrize("state", TRIED, ids=str)
    @pytest.mark.parametrize("name", FENCED)
    async def test_by_the_holder_of_an_earlier_attempt(self, bench: Bench, name: str, state: State | None) -> None:
        former, worker = await bench.session(), await bench.session()
        first = await bench.take(former, "j")
        await bench.settle(former, release(first))
        await _bring(bench, worker, state, fresh=False)
        repeated = state is not None and name == "release"
        expected = judge(name, state, holds_lease=False, repeated=repeated)
        await _expect(bench, False, expected, lambda: _word(bench, former, name, first.lease))

    @pytest.mark.parametrize("state", TRIED, ids=str)
    @pytest.mark.parametrize("name", FENCED)
    async def test_by_a_session_that_was_reaped(self, bench: Bench, name: str, state: State | None) -> None:
        zombie, worker = await bench.session(), await bench.session(lease_ms=3_600_000)
        first = await bench.take(zombie, "j")
        await bench.vanish(zombie)
        await _bring(bench, worker, state, fresh=False)
        before = await _all(bench)
        if name == "progress":
            assert await _word(bench, zombie, name, first.lease) is judge(name, state, holds_lease=False)
        else:
            turn = await bench.turn(zombie, SETTLEMENTS[name](first.lease), queues=(QUEUE,), room=1)
            assert turn.evicted
            assert not turn.settled
            assert not turn.claimed
        assert await _all(bench) == before

    @pytest.mark.parametrize("state", STATES, ids=str)
    @pytest.mark.parametrize("name", BY_ID)
    async def test_by_anybody(self, bench: Bench, name: str, state: State | None) -> None:
        worker = await bench.session()
        await _bring(bench, worker, state)
        expected = judge(name, state)
        await _prepare(bench, name, worker)
        others = await bench.session()
        changes = expected is Reply.OK or name in ("enqueue", "update")
        await _expect(bench, changes, expected, lambda: _ASK[name](bench, others))

    @pytest.mark.parametrize("state", STATES, ids=str)
    async def test_extend_is_for_the_session_whatever_its_jobs(self, bench: Bench, state: State | None) -> None:
        worker = await bench.session()
        await _bring(bench, worker, state)
        await _expect(bench, False, False, lambda: _evicted(bench, worker))
        await bench.vanish(worker)
        assert await _evicted(bench, worker)

    @pytest.mark.parametrize("name", SETTLEMENTS)
    async def test_a_repeat_is_answered_ok_even_when_the_job_has_gone_on(self, bench: Bench, name: str) -> None:
        worker, other = await bench.session(), await bench.session()
        claimed = await bench.take(worker, "j")
        settlement = SETTLEMENTS[name](claimed.lease)
        assert (await bench.settle(worker, settlement)).reply is Reply.OK
        await bench.tick(60)
        again = await bench.claim(other)
        assert bool(again) == (name in ("retry", "snooze", "release"))
        await _expect(bench, False, Reply.OK, lambda: _word(bench, worker, name, claimed.lease))

    @pytest.mark.parametrize("name", ["retry", "snooze", "release"])
    async def test_a_repeat_is_answered_ok_even_when_the_job_was_cancelled_since(self, bench: Bench, name: str) -> None:
        worker = await bench.session()
        claimed = await bench.take(worker, "j")
        await bench.settle(worker, SETTLEMENTS[name](claimed.lease))
        await bench.store.cancel(QUEUE, "j")
        await _expect(bench, False, Reply.OK, lambda: _word(bench, worker, name, claimed.lease))


async def _bring(bench: Bench, worker: Session, state: State | None, *, fresh: bool = True) -> Lease:
    """The job `j` has this state, by real calls; return the lease of its last attempt."""
    if state is State.BLOCKED:
        await bench.add("b", queue=ELSEWHERE)
        answer = await bench.add("j", blockers=(BlockerRef(ELSEWHERE, "b"),))
        return Lease(QUEUE, "j", answer.run, 1)
    if fresh:
        await bench.add("j")
    (claimed,) = await bench.claim(worker)
    if state is None:
        await bench.store.delete(QUEUE, "j")
    elif state is not State.ACTIVE:
        if state is State.CANCELLED:
            await bench.store.cancel(QUEUE, "j", "signal")
        await bench.settle(worker, SETTLEMENTS[ENDED_BY[state]](claimed.lease))
    assert await bench.state("j") is state
    return claimed.lease


async def _prepare(bench: Bench, name: str, worker: Session) -> None:
    """Meet the transition's own guard, besides the state."""
    if name == "enqueue":
        bench.clock.advance(3600)  # no finished run holds the id any more
        await bench.add("the-clock-moved", queue=ELSEWHERE)
    if name == "expire":
        bench.clock.advance(100 * DAY)
    if name == "reap":
        await bench.tick(worker.lease_ms / 1000 + 1)


async def _expect(bench: Bench, changes: bool, expected: object, ask: Callable[[], Awaitable[object]]) -> None:
    before = await _all(bench)
    assert await ask() == expected
    if not changes:
        assert await _all(bench) == before, "a call that does nothing left a trace"


async def _all(bench: Bench) -> tuple[object, ...]:
    jobs = (await bench.store.jobs(Filter(queue=QUEUE), limit=500)).jobs
    return jobs, await bench.events("j")


async def _word(bench: Bench, session: Session, name: str, lease: Lease) -> Reply:
    if name == "progress":
        return await bench.store.progress(session, lease, Progress(fraction=0.5), b"half")
    return (await bench.settle(session, SETTLEMENTS[name](lease))).reply


async def _evicted(bench: Bench, session: Session) -> bool:
    return (await bench.store.extend(session)).evicted


async def _enqueue(bench: Bench, _: Session) -> Reply:
    status = (await bench.add("j")).status
    return {"queued": Reply.OK, "duplicate": Reply.WRONG_STATE}[status]


async def _update(bench: Bench, _: Session) -> Reply:
    """An active job gets a successor instead, a finished one a new run, a missing one its first."""
    known = await bench.state("j") is not None
    status = (await bench.add("j", UPDATE)).status
    if status == "updated":
        return Reply.OK
    assert status in ("successor", "queued", "requeued")
    return Reply.WRONG_STATE if known else Reply.MISSING


async def _promote(bench: Bench, _: Session) -> Reply:
    return await bench.store.promote(QUEUE, "j")


async def _unblock(bench: Bench, _: Session) -> Reply:
    """No caller asks for it: it follows from the end of the last blocker."""
    before = await bench.told("j")
    await bench.store.complete_chain(ELSEWHERE, "b", None, b"done")
    return await _refusal(bench, (await bench.told("j"))[len(before) :] == ["unblock"])


async def _cancel(bench: Bench, _: Session) -> Reply:
    return (await bench.store.cancel(QUEUE, "j")).reply


async def _delete(bench: Bench, _: Session) -> Reply:
    return await bench.store.delete(QUEUE, "j")


async def _requeue(bench: Bench, _: Session) -> Reply:
    which = Filter(queue=QUEUE, ids=("j",), states=tuple(FINISHED))
    return await _refusal(bench, bool(await bench.store.requeue(which)))


async def _claim(bench: Bench, session: Session) -> Reply:
    return await _refusal(bench, bool(await bench.claim(session)))


async def _reap(bench: Bench, session: Session) -> Reply:
    reaped = await bench.store.reap(QUEUE, but=session.id)
    return await _refusal(bench, reaped.returned + reaped.failed == 1)


async def _expire(bench: Bench, _: Session) -> Reply:
    before = await bench.told("j")
    gone = (await bench.store.expire(QUEUE)).runs
    assert gone == (await bench.told("j")).count("expire") - before.count("expire")
    return Reply.OK if gone else await _refusal(bench, False)


async def _refusal(bench: Bench, ok: bool) -> Reply:
    """Return the word for a call that answers with what it did; a refusal is silence."""
    if ok:
        return Reply.OK
    return Reply.MISSING if await bench.state("j") is None else Reply.WRONG_STATE


_ASK: dict[str, Callable[[Bench, Session], Awaitable[Reply]]] = {
    "enqueue": _enqueue,
    "update": _update,
    "promote": _promote,
    "unblock": _unblock,
    "cancel": _cancel,
    "requeue": _requeue,
    "delete": _delete,
    "claim": _claim,
    "reap": _reap,
    "expire": _expire,
}
