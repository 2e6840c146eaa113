"""Commands: a worker is told through the store, and what it says of itself is known there."""

from __future__ import annotations

import msgspec

from ....core.action import OPERATE, acting_as
from ....store.contract import Session, SessionInfo
from ..bench import QUEUE, Bench, complete
from ..case import Case

OTHER = "other"


class CommandCases(Case):
    """What heartbeats bring to the worker, and from it."""

    async def test_a_worker_hears_its_command_with_each_heartbeat(self, bench: Bench) -> None:
        worker, other = await bench.session(QUEUE, OTHER), await bench.session()
        assert (await bench.store.extend(worker)).command is None
        assert await bench.store.command(worker.id, "drain")
        for _ in range(2):
            assert (await bench.store.extend(worker)).command == "drain"
        assert (await bench.store.extend(other)).command is None
        assert {(await _info(bench, each)).command for each in (worker, other)} == {"drain", None}

    async def test_to_stop_counts_above_to_drain(self, bench: Bench) -> None:
        worker = await bench.session(QUEUE, OTHER)
        for told, heard in (("drain", "drain"), ("stop", "stop"), ("drain", "stop")):
            assert await bench.store.command(worker.id, told)  # type: ignore[arg-type]
            assert (await bench.store.extend(worker)).command == heard
        events = [event for event in await bench.events() if event.transition == OPERATE]
        assert [msgspec.json.decode(event.message or "") for event in events] == [
            {"command": "drain"},
            {"command": "stop"},
        ]

    async def test_the_log_tells_who_told_which_worker(self, bench: Bench) -> None:
        worker = await bench.session("b", "a")
        with acting_as("ann"):
            await bench.store.command(worker.id, "drain")
        (event,) = await bench.events()
        assert (event.transition, event.cause, event.actor) == (OPERATE, "command", "ann")
        assert (event.queue, event.worker, event.id, event.run, event.state) == ("a", worker.id, "", 0, None)

    async def test_who_is_not_alive_is_told_nothing(self, bench: Bench) -> None:
        worker, late = await bench.session(), await bench.session()
        assert not await bench.store.command("nobody", "stop")
        await bench.store.leave(worker)
        assert not await bench.store.command(worker.id, "stop")
        await bench.tick(20)
        assert not await bench.store.command(late.id, "stop"), "its lease is over"
        await bench.store.reap(QUEUE)
        assert not await bench.store.command(late.id, "stop")
        assert await bench.events() == []

    async def test_a_worker_that_serves_more_queues_is_told_still(self, bench: Bench) -> None:
        worker = await bench.session()
        await bench.store.command(worker.id, "drain")
        wider = msgspec.structs.replace(worker, queues=(QUEUE, OTHER))
        await bench.register(wider)
        assert (await bench.store.extend(wider)).command == "drain"

    async def test_one_that_was_declared_dead_and_comes_back_was_told_nothing(self, bench: Bench) -> None:
        worker = await bench.session()
        await bench.take(worker, "j")
        await bench.store.command(worker.id, "drain")
        await bench.vanish(worker)
        await bench.register(worker)
        assert (await bench.store.extend(worker)).command is None

    async def test_a_worker_that_is_told_to_drain_settles_what_it_has(self, bench: Bench) -> None:
        worker = await bench.session()
        claimed = await bench.take(worker, "j")
        await bench.store.command(worker.id, "drain")
        assert (await bench.settle(worker, complete(claimed))).reply
        await bench.store.leave(worker)
        assert await bench.store.sessions() == []

    async def test_what_a_worker_says_of_itself_is_known(self, bench: Bench) -> None:
        worker = Session(id="s", name="w", host="here", pid=1, queues=(QUEUE, OTHER), version="0.1.0", python="3.13.1")
        await bench.register(worker)
        info = await _info(bench, worker)
        assert (info.session, info.memory_bytes, info.command) == (worker, None, None)
        await bench.store.extend(worker, 123_456_789_012)
        assert (await _info(bench, worker)).memory_bytes == 123_456_789_012
        await bench.store.extend(worker)
        await bench.turn(worker)
        assert (await _info(bench, worker)).memory_bytes == 123_456_789_012, "who says nothing has what it had"
        await bench.store.extend(worker, 5)
        assert (await _info(bench, worker)).memory_bytes == 5


async def _info(bench: Bench, worker: Session) -> SessionInfo:
    (found,) = [each for each in await bench.store.sessions() if each.session.id == worker.id]
    return found
