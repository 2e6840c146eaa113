"""Workers of many queues: a call names those that may fill it, and no job is missed for it."""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from servers import postgres
from support import eventually

from holdfast.core.bound import FEW_QUEUES
from holdfast.core.limit import QueueSettings
from holdfast.core.policy import Counters
from holdfast.core.state import State
from holdfast.store.contract import Claimed, Complete, Lease, NewJob, Session, Turn
from holdfast.store.postgres import PostgresStore
from holdfast.store.postgres.many_queues import AT_ONCE, BEHIND, ManyQueues
from holdfast.testing import ManualClock

QUEUES = tuple(f"queue-{number:03}" for number in range(3 * AT_ONCE))
SESSION = Session(id="w", name="w", host="here", pid=1, queues=QUEUES, lease_ms=60_000, slots=10)
_numbers = itertools.count(1)


@asynccontextmanager
async def opened(clock: ManualClock | None = None) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(postgres().url(f"many_{os.getpid()}_{next(_numbers)}"), clock=clock)
    await store.open()
    try:
        yield store
    finally:
        await store.caller.rows(f'DROP SCHEMA "{store.caller.address.schema}" CASCADE', ())
        await store.close()


async def add(store: PostgresStore, queue: str, *ids: str, **fields: object) -> None:
    await store.enqueue(queue, [NewJob(id=id, task="t", payload=b"1", **fields) for id in ids])  # type: ignore[arg-type]


async def turn(store: PostgresStore, room: int, order: Sequence[str] = QUEUES, done: Sequence[Claimed] = ()) -> Turn:
    return await store.settle_and_claim(SESSION, [Complete(job.lease, b"1") for job in done], order, room)


def ids(turn: Turn) -> list[str]:
    return [job.lease.id for job in turn.claimed]


async def test_jobs_come_in_the_order_of_the_queues_and_wherever_they_are() -> None:
    async with opened() as store:
        await store.register(SESSION)
        for at in (150, 3, 70, 191, 20):
            await add(store, QUEUES[at], f"{at}-a", f"{at}-b")
        found = await turn(store, 3)
        assert ids(found) == ["3-a", "3-b", "20-a"]
        assert ids(await turn(store, 4, done=found.claimed)) == ["20-b", "70-a", "70-b", "150-a"]
        assert ids(await turn(store, 10)) == ["150-b", "191-a", "191-b"]
        assert ids(await turn(store, 10)) == []
        job = await store.get(QUEUES[3], "3-a")
        assert job is not None
        assert job.state is State.COMPLETED


async def test_limits_of_one_of_many_queues_hold() -> None:
    async with opened() as store:
        await store.register(SESSION)
        await store.configure(QUEUES[100], {"concurrency": 1})
        await store.configure(QUEUES[101], {"paused": True})
        await add(store, QUEUES[100], "a", "b")
        await add(store, QUEUES[101], "c")
        await add(store, QUEUES[102], "d", "e", key="k")
        assert ids(await turn(store, 10)) == ["a", "d", "e"]


async def test_a_turn_tells_when_something_is_due_in_a_queue_that_has_nothing_yet() -> None:
    clock = ManualClock(1_000_000)
    async with opened(clock) as store:
        await store.register(SESSION)
        await add(store, QUEUES[120], "late", run_at_ms=clock.now_ms + 5000)
        await add(store, QUEUES[121], "later", run_at_ms=clock.now_ms + 9000)
        found = await turn(store, 10)
        assert (ids(found), found.next_at_ms) == ([], clock.now_ms + 5000)
        clock.advance(5)
        assert ids(await turn(store, 10)) == ["late"]


async def test_a_parked_session_is_woken_by_any_of_its_queues() -> None:
    async with opened() as store:
        woken: list[bool] = []
        listener = await store.listen(lambda: woken.append(True), lambda finished: None)
        session = Session(id="p", name="p", host="here", pid=1, queues=QUEUES, slots=10, address=listener.address)
        await store.register(session)
        await add(store, QUEUES[5], "first")
        found = await store.settle_and_claim(session, [], QUEUES, 2, park=True)
        assert (ids(found), woken) == (["first"], [])
        await add(store, QUEUES[190], "second")
        await eventually(lambda: bool(woken), "the session is woken")
        assert ids(await store.settle_and_claim(session, [], QUEUES, 2, park=True)) == ["second"]
        await store.leave(session)


async def test_settings_are_told_again_after_a_third_of_the_lease() -> None:
    async with opened() as store:
        await store.register(SESSION)
        first = await turn(store, 1)
        assert set(first.settings) == set(QUEUES)
        assert (await turn(store, 1)).settings is first.settings


def job(queue: str) -> Claimed:
    return Claimed(
        lease=Lease(queue, "j", 1, 1), task="t", payload=b"1", priority=0, key=None, run_at_ms=0, enqueued_at_ms=0,
        claimed_at_ms=0, counters=Counters(attempts=1),
    )  # fmt: skip


def claimed(*queues: str) -> Turn:
    return Turn(claimed=[job(queue) for queue in queues])


def parts(many: ManyQueues, order: Sequence[str] = QUEUES) -> list[list[str]]:
    return [list(part) for part, _ in many.parts(order)]


def asked(many: ManyQueues) -> list[str]:
    return list(itertools.chain.from_iterable(parts(many)))


def test_all_queues_are_asked_at_once_until_a_turn_was_filled() -> None:
    many = ManyQueues(SESSION)
    assert parts(many) == [list(QUEUES)]
    many.answered(QUEUES, claimed(QUEUES[0], QUEUES[1]), 2)
    assert parts(many) == [list(QUEUES[:FEW_QUEUES]), list(QUEUES[FEW_QUEUES:])]
    many.answered(QUEUES, claimed(QUEUES[150]), 1)
    assert len(parts(many)[0]) == AT_ONCE
    many.answered(QUEUES, claimed(QUEUES[0]), 2)
    assert len(parts(many)) == 1


def test_a_queue_that_had_nothing_is_asked_behind_the_others_for_some_turns_that_bring_jobs() -> None:
    many = ManyQueues(SESSION)
    many.answered(QUEUES, claimed(QUEUES[2]), 1)
    assert asked(many) == [*QUEUES[2:], *QUEUES[:2]]
    for _ in range(BEHIND - 1):
        many.answered(QUEUES[2:], claimed(QUEUES[2]), 1)
        assert asked(many)[0] == QUEUES[2]
    many.answered(QUEUES[2:], Turn(), 1)
    many.answered(QUEUES[2:], claimed(QUEUES[2]), 1)
    assert asked(many)[:2] == list(QUEUES[:2])


def test_where_priorities_differ_each_queue_is_asked_where_its_place_is() -> None:
    many = ManyQueues(SESSION)
    many.told({QUEUES[0]: QueueSettings(priority=1), QUEUES[1]: QueueSettings()})
    many.answered(QUEUES, claimed(QUEUES[2]), 1)
    assert asked(many) == list(QUEUES)


def test_settings_are_wanted_after_a_third_of_a_lease_and_the_same_object_while_they_are_the_same() -> None:
    now = [0.0]
    many = ManyQueues(SESSION, lambda: now[0])
    assert many.wants_settings()
    many.told(first := {"q": QueueSettings()})
    assert not many.wants_settings()
    now[0] = SESSION.lease_ms / 3000
    assert many.wants_settings()
    many.told({"q": QueueSettings()})
    assert many.settings is first
