"""Actions: whoever acts is in the events of what they did, and what is no transition has an event of its own."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ....core.action import OPERATE, Action, acting_as, scheduled
from ....core.chain import BlockerRef
from ....core.event import Event
from ....core.policy import Policy, Retry
from ....store.contract import Continuation, Declaration, Filter, ScheduleChange
from ..bench import QUEUE, TASK, UPDATE, Bench, complete, fail, new
from ..case import Case

ANN = "ann@example.com <b>ä</b>"


class ActionCases(Case):
    """Who did what. Nothing is stored where nobody said who acts, and what follows by itself is nobody's."""

    async def test_what_was_asked_for_has_its_actor(self, bench: Bench) -> None:
        worker = await bench.session()
        await bench.add("promoted", delay_ms=1000)
        await bench.add("cancelled", delay_ms=1000)
        await bench.add("deleted", delay_ms=1000)
        await bench.settle(worker, fail(await bench.take(worker, "requeued")))
        with acting_as(ANN):
            await bench.store.promote(QUEUE, "promoted")
            await bench.store.cancel(QUEUE, "cancelled", request="r")
            await bench.store.delete(QUEUE, "deleted")
            await bench.store.requeue(Filter(queue=QUEUE))
        assert await _actors(bench, "promoted") == [("enqueue", None), ("promote", ANN)]
        assert await _actors(bench, "cancelled") == [("enqueue", None), ("cancel", ANN)]
        assert await _actors(bench, "deleted") == [("enqueue", None), ("delete", ANN)]
        assert (await _actors(bench, "requeued"))[-2:] == [("fail", None), ("requeue", ANN)]

    async def test_a_successor_that_is_cancelled_with_its_job_has_the_actor_too(self, bench: Bench) -> None:
        worker = await bench.session()
        claimed = await bench.take(worker, "j")
        await bench.add("j", UPDATE)
        with acting_as(ANN):
            await bench.store.cancel(QUEUE, "j")
        assert (await _actors(bench, "j"))[-1] == ("cancel", ANN)
        await bench.settle(worker, complete(claimed))

    async def test_chains_too_and_in_every_queue(self, bench: Bench) -> None:
        worker = await bench.session(QUEUE, "other")
        claimed = await bench.take(worker, "first")
        await bench.turn(worker, complete(claimed, then=Continuation("other", new("second"))))
        with acting_as(ANN):
            await bench.store.complete_chain(QUEUE, "first", None, b"by hand")
            await bench.store.delete_chain(QUEUE, "first")
        told = [(event.id, event.transition, event.actor) for event in await bench.events()]
        assert ("second", "complete", ANN) in told
        assert {("first", "delete", ANN), ("second", "delete", ANN)} <= set(told)
        assert ("first", "complete", None) in told

    async def test_what_follows_by_itself_is_nobodys(self, bench: Bench) -> None:
        first = await bench.add("first", delay_ms=1000)
        blocker = BlockerRef(QUEUE, "first", first.run)
        await bench.add("second", blockers=(blocker,), on_blocker_failed="cancel")
        with acting_as(ANN):
            await bench.store.cancel(QUEUE, "first")
        assert (await _actors(bench, "second"))[-1] == ("cancel", None)

    async def test_without_an_actor_there_is_none(self, bench: Bench) -> None:
        await bench.add("j", delay_ms=1000)
        await bench.store.cancel(QUEUE, "j")
        with acting_as(ANN), acting_as(None):
            await bench.store.configure(QUEUE, {"paused": True})
        with acting_as(ANN):
            worker = await bench.session()
            await bench.store.configure(QUEUE, {}, ["paused"])
            claimed = await bench.take(worker, "k")
            await bench.settle(worker, complete(claimed))
        assert [event.actor for event in await bench.events("j")] == [None, None]
        assert [event.actor for event in await bench.events("k")] == [None, None, None], "a worker only works"
        assert [event.actor for event in await _actions(bench)] == [None, ANN]

    async def test_settings_and_policies_and_limits_of_keys_are_told(self, bench: Bench) -> None:
        with acting_as(ANN):
            await bench.store.configure(QUEUE, {"concurrency": 3}, ["paused"])
            await bench.store.adjust(QUEUE, TASK, {"timeout_ms": 5000})
            await bench.store.limit_key(QUEUE, "acme", 2)
        configured, adjusted, limited = await _actions(bench)
        assert (configured.cause, _said(configured)) == ("configure", {"set": {"concurrency": 3}, "clear": ["paused"]})
        assert (adjusted.cause, adjusted.task, _said(adjusted)) == ("adjust", TASK, {"set": {"timeout_ms": 5000}})
        assert (limited.cause, limited.key, _said(limited)) == ("limit_key", "acme", {"concurrency": 2})
        assert {event.actor for event in (configured, adjusted, limited)} == {ANN}
        for event in (configured, adjusted, limited):
            assert (event.queue, event.id, event.run, event.attempt, event.state) == (QUEUE, "", 0, 0, None)
            assert (event.at_ms, event.run_at_ms, event.worker) == (bench.now, None, None)
        await bench.store.limit_key(QUEUE, "acme", None)

    async def test_what_is_refused_is_not_told(self, bench: Bench) -> None:
        await bench.store.configure(QUEUE, {})
        for set in ({"no such": 1}, {"concurrency": -5}):
            with pytest.raises(Exception, match=r"no such|concurrency"):
                await bench.store.configure(QUEUE, set)
        assert len(await _actions(bench)) == 1

    async def test_a_result_that_is_kept_for_longer_is_told_of_its_job(self, bench: Bench) -> None:
        worker = await bench.session()
        claimed = await bench.take(worker, "j")
        await bench.settle(worker, complete(claimed))
        with acting_as(ANN):
            await bench.store.set_result_ttl(QUEUE, "j", 60_000)
            await bench.store.set_result_ttl(QUEUE, "no such job", 60_000)
        (event,) = await _actions(bench)
        assert (event.id, event.run, event.cause, event.actor) == ("j", claimed.lease.run, "set_result_ttl", ANN)
        assert _said(event) == {"ttl_ms": 60_000}
        page = await bench.store.events(queue=QUEUE, id="j")
        assert page.events[-1].cause == "set_result_ttl"

    async def test_a_handler_that_is_told_to_stop_is_told_of_at_once(self, bench: Bench) -> None:
        worker = await bench.session()
        claimed = await bench.take(worker, "j")
        with acting_as(ANN):
            await bench.store.cancel(QUEUE, "j")
            await bench.store.cancel(QUEUE, "j", "signal", request="r")
            await bench.store.cancel(QUEUE, "j", "signal", request="r")
        (event,) = await _actions(bench)
        assert (event.id, event.run, event.cause, event.actor) == ("j", claimed.lease.run, "cancel", ANN)
        assert _said(event) == {"running": "signal"}
        assert bench.now == event.at_ms

    async def test_schedules_are_told_of_once_but_for_their_ticks(self, bench: Bench) -> None:
        made = _change(None, "r1", scheduled("s", "add"))
        with acting_as(ANN):
            for _ in range(2):
                await bench.store.put_schedule(made)
            await bench.store.put_schedule(_change("stale", "r2", scheduled("s", "pause")))
            await bench.store.put_schedule(_change("r1", "r3"), [new("j")])
            await bench.store.put_schedule(_change("r3", "r4", scheduled("s", "remove"), body=None))
        added, removed = await _actions(bench)
        assert (added.cause, _said(added), added.actor) == ("schedule", {"schedule": "s", "change": "add"}, ANN)
        assert _said(removed) == {"schedule": "s", "change": "remove"}

    async def test_a_declaration_that_changes_an_earlier_one_is_told(self, bench: Bench) -> None:
        first = Declaration(queue=QUEUE, version=1, settings={"concurrency": 3}, tasks={TASK: Policy()})
        await bench.store.declare([first])
        await bench.store.declare([msgspec.structs.replace(first, version=2)])
        assert await _actions(bench) == []
        tasks = {TASK: Policy(retry=Retry(failures=9)), "new": Policy()}
        await bench.store.declare([Declaration(queue=QUEUE, version=3, settings={"concurrency": 3}, tasks=tasks)])
        (event,) = await _actions(bench)
        assert (event.cause, _said(event)) == ("declare", {"settings": False, "tasks": [TASK], "version": 3})

    async def test_a_long_change_is_told_in_short(self, bench: Bench) -> None:
        limits = {f"key-{number}": 5 for number in range(2000)}
        await bench.store.declare([Declaration(queue=QUEUE, version=1, settings={"key_limits": limits})])
        tasks = {f"task-{number}": Policy() for number in range(500)}
        await bench.store.declare([Declaration(queue=QUEUE, version=1, settings={"key_limits": limits}, tasks=tasks)])
        tasks = {task: Policy(retry=Retry(failures=9)) for task in tasks}
        await bench.store.declare([Declaration(queue=QUEUE, version=2, settings={}, tasks=tasks)])
        (event,) = await _actions(bench)
        assert len((event.message or "").encode()) <= 2000
        assert _said(event).keys() == {"settings", "tasks", "version"}


async def _actors(bench: Bench, id: str) -> list[tuple[str, str | None]]:
    return [(event.transition, event.actor) for event in await bench.events(id)]


async def _actions(bench: Bench) -> list[Event]:
    return [event for event in await bench.events() if event.transition == OPERATE]


def _said(event: Event) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(event.message or "")
    return found


def _change(
    expected: str | None, revision: str, action: Action | None = None, body: bytes | None = b"body"
) -> ScheduleChange:
    return ScheduleChange(queue=QUEUE, name="s", expected=expected, revision=revision, body=body, action=action)
