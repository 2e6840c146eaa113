"""Idle workers: a store may claim for one when it wakes it. Each job comes once, and only where there is room."""

from __future__ import annotations

import msgspec

from ....core.state import State
from ....core.transition import Reply
from ....store.contract import Claimed, Session, Turn
from ..bench import QUEUE, Bench, complete
from ..case import Case


class IdleCases(Case):
    """What an idle session is given, or asks for: a test cannot tell which."""

    async def test_an_idle_session_that_is_woken_has_the_job_once(self, bench: Bench) -> None:
        worker, woken = await _parked(bench)
        await bench.add("j", payload=b"A")
        await bench.heard(woken, 1)
        (claimed,) = await _taken(bench, worker, 10)
        assert (claimed.lease.id, claimed.lease.attempt, claimed.payload) == ("j", 1, b"A")
        assert await _taken(bench, worker, 9) == []
        assert (await bench.settle(worker, complete(claimed))).state is State.COMPLETED

    async def test_a_job_that_is_given_has_its_event_and_its_time_out(self, bench: Bench) -> None:
        await bench.declare(timeout_ms=1234)
        worker, woken = await _parked(bench)
        await bench.add("j")
        await bench.heard(woken, 1)
        (claimed,) = await _taken(bench, worker, 10)
        assert claimed.timeout_ms == 1234
        assert await bench.told("j") == ["enqueue", "claim"]
        assert (await bench.events("j"))[-1].worker == worker.id

    async def test_an_idle_session_never_has_more_than_it_has_room_for(self, bench: Bench) -> None:
        worker, woken = await _parked(bench, room=2)
        await bench.add("j0")
        await bench.heard(woken, 1)
        for number in range(1, 5):
            await bench.add(f"j{number}")
        first = await _taken(bench, worker, 2)
        assert len(first) == 2
        turn = await _turn(bench, worker, 0, complete(first[0]))
        assert turn.claimed == []
        turn = await _turn(bench, worker, 2, complete(first[1]))
        assert len(turn.claimed) == 2

    async def test_a_turn_has_what_its_session_was_given_and_did_not_take(self, bench: Bench) -> None:
        worker, woken = await _parked(bench, room=3)
        await bench.add("first")
        await bench.heard(woken, 1)
        for id in ("second", "third", "fourth"):
            await bench.add(id)
        turn = await _turn(bench, worker, 3)
        more = await _turn(bench, worker, 3 - len(turn.claimed)) if len(turn.claimed) < 3 else Turn()
        assert [each.lease.id for each in turn.claimed + more.claimed] == ["first", "second", "third"]

    async def test_what_a_session_was_given_and_has_no_room_for_is_handed_back(self, bench: Bench) -> None:
        worker, woken = await _parked(bench)
        await bench.add("j")
        await bench.heard(woken, 1)
        assert (await _turn(bench, worker, 0)).claimed == []
        assert await bench.state("j") is State.WAITING
        (claimed,) = await bench.claim(await bench.session())
        assert claimed.counters.stalls == 0

    async def test_what_a_session_was_given_is_handed_back_when_it_leaves(self, bench: Bench) -> None:
        worker, woken = await _parked(bench)
        await bench.add("j")
        await bench.heard(woken, 1)
        await bench.store.leave(worker)
        (claimed,) = await bench.claim(await bench.session())
        assert (claimed.lease.id, claimed.counters.stalls) == ("j", 0)

    async def test_what_a_session_asks_after_is_not_given_a_second_time(self, bench: Bench) -> None:
        worker, woken = await _parked(bench)
        await bench.add("j")
        await bench.heard(woken, 1)
        held = await bench.store.held(worker)
        rest = await _taken(bench, worker, 10)
        assert [each.lease.id for each in held + rest] == ["j"]

    async def test_a_paused_queue_gives_nothing(self, bench: Bench) -> None:
        worker, _ = await _parked(bench)
        await bench.store.configure(QUEUE, {"paused": True})
        await bench.add("j")
        assert await _taken(bench, worker, 10) == []
        assert await bench.state("j") is State.WAITING

    async def test_a_limit_holds_for_what_is_given(self, bench: Bench) -> None:
        await bench.store.configure(QUEUE, {"concurrency": 1})
        other = await bench.session()
        await bench.take(other, "running")
        worker, _ = await _parked(bench)
        await bench.add("j")
        assert await _taken(bench, worker, 10) == []

    async def test_a_session_that_is_dead_is_given_nothing(self, bench: Bench) -> None:
        worker, _ = await _parked(bench)
        await bench.vanish(worker)
        await bench.add("j")
        assert await bench.state("j") is State.WAITING
        (claimed,) = await bench.claim(await bench.session())
        assert claimed.lease.id == "j"

    async def test_a_session_that_registers_again_serves_more_queues_and_holds_what_it_held(self, bench: Bench) -> None:
        worker, woken = await _parked(bench)
        await bench.add("before")
        await bench.heard(woken, 1)
        (before,) = await _taken(bench, worker, 10)
        wider = await _wider(bench, worker)
        await bench.add("there", queue="other")
        turn = await bench.turn(wider, complete(before), queues=wider.queues, room=9, park=True)
        assert [each.reply for each in turn.settled] == [Reply.OK]
        assert [each.lease.id for each in turn.claimed] == ["there"]
        count = len(woken)
        await bench.add("later", queue="other")
        await bench.heard(woken, count + 1)
        (later,) = await bench.claim(wider, 8)
        assert later.lease.id == "later"

    async def test_what_a_session_was_given_while_it_registered_again_is_not_lost(self, bench: Bench) -> None:
        """A turn that is `unsure` asks the worker to look at what it holds; a gift may have come in between."""
        worker, _ = await _parked(bench)
        wider = await _wider(bench, worker)
        await bench.add("j")
        given = bench.store.given(wider, 10)
        turn = await bench.turn(wider, queues=wider.queues, room=10, park=True)
        held = await bench.store.held(wider) if turn.unsure else []
        assert {each.lease.id for each in (*given, *turn.claimed, *held)} == {"j"}


async def _wider(bench: Bench, worker: Session) -> Session:
    """Return the session with another queue."""
    wider = msgspec.structs.replace(worker, queues=(*worker.queues, "other"))
    await bench.register(wider)
    return wider


async def _parked(bench: Bench, room: int = 10) -> tuple[Session, list[bool]]:
    """Return a session that has nothing to do and waits to be woken, and its wake-ups."""
    listener, _, woken = await bench.listen()
    worker = await bench.session(address=listener.address)
    turn = await bench.store.settle_and_claim(worker, [], (QUEUE,), room, park=True, idle=True)
    assert turn.claimed == []
    return worker, woken


async def _taken(bench: Bench, worker: Session, room: int) -> list[Claimed]:
    """Return what the session has: what it was given, and what a turn brings besides."""
    given = bench.store.given(worker, room)
    return given + (await _turn(bench, worker, room - len(given))).claimed


async def _turn(bench: Bench, worker: Session, room: int, *settlements: object) -> Turn:
    queues = (QUEUE,) if room else ()
    return await bench.store.settle_and_claim(worker, list(settlements), queues, room)  # type: ignore[arg-type]
