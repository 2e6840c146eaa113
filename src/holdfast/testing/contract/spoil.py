"""Spoilt rows: one that cannot be read is set aside and told of once, and never stops or hides another."""

from __future__ import annotations

import pytest

from ...core.chain import BlockerRef
from ...core.event import Event
from ...core.policy import Policy
from ...core.state import State
from ...core.transition import Reply
from ...store.contract import Claimed, Corrupt, Declaration, Filter, NewJob, ScheduleChange, Session
from .bench import LEASE_MS, TASK, UPDATE, Bench, carrying, complete, new
from .case import Case
from .harness import SPOILABLE

OTHERS = ("o1", "o2", "o3")
VICTIM = "bad"
PARTS = 6
"""Some kinds of records can be spoilt in so many ways that one test would take minutes."""


class SpoilCases(Case):
    """Every other job is served, with any garbage in one row."""

    @pytest.mark.parametrize("part", range(PARTS))
    @pytest.mark.parametrize("kind", SPOILABLE)
    async def test_a_spoilt_row_harms_nobody_else(self, bench: Bench, kind: str, part: int) -> None:
        """Each way in a queue of its own, on one store: what is left of the ways before must do no harm either."""
        for number, way in enumerate(bench.harness.ways(kind)[part::PARTS]):
            try:
                await Scene(bench, f"q{number}").play(kind, way)
            except Exception as error:
                error.add_note(f"spoilt: {kind}, {way}")
                raise


class Scene:
    """One queue with a little of everything, before and after something in it was spoilt."""

    def __init__(self, bench: Bench, queue: str) -> None:
        self.bench, self.store, self.queue = bench, bench.store, queue
        self.told: list[Corrupt] = []
        self.payloads: dict[str, bytes] = {}
        self.vanishing: Session
        self.held: Claimed
        self.run = 0
        self.began: str | None = None

    async def play(self, kind: str, way: str) -> None:
        """The queue is filled, spoilt and worked off, and nothing is missing but what was spoilt."""
        await self.fill()
        await self.bench.harness.spoil(self.store, kind, way, self.queue, VICTIM)
        worker = await self.bench.session(self.queue)
        await self.reap()
        await self.work(worker, kind)
        await self.look(worker)
        await self.recover()
        await self.upkeep(worker)
        if kind == "job":
            await self.account()
        await self.clear()

    async def fill(self) -> None:
        store, queue = self.store, self.queue
        self.began = (await store.events("end")).position
        await store.declare([Declaration(queue=queue, settings={"priority": 3}, tasks={TASK: Policy()})])
        await store.configure(queue, {"key_concurrency": 5})
        await store.limit_key(queue, "k", 3)
        change = ScheduleChange(
            queue=queue, name="s", expected=None, revision=f"{queue}-1", next_at_ms=self.bench.now + 1000, body=b"{}"
        )
        assert (await store.put_schedule(change)).reply is Reply.OK
        self.vanishing = await self.bench.session(queue)
        await self.bench.add("held", queue=queue, key="k")
        (self.held,) = await self.bench.claim(self.vanishing)
        await self.bench.add("held", UPDATE, queue=queue, key="k", payload=b"again")
        self.run = (await self.bench.add(VICTIM, queue=queue, key="k", envelope=carrying(headers={"a": "b"}))).run
        for id, key in zip(OTHERS, (None, "k", "other"), strict=True):
            await self.bench.add(id, queue=queue, key=key)
        await self.bench.add("later", queue=queue, run_at_ms=self.bench.now + 3_600_000)
        (answer,) = await store.enqueue(queue, [_behind(queue)], request=f"request-{queue}")
        assert answer.state is State.BLOCKED

    async def reap(self) -> None:
        self.told += (await self.store.reap(self.queue, 1000)).corrupt

    async def work(self, worker: Session, kind: str) -> None:
        """Every other job is claimed and completed; the one that waits for one of them comes next."""
        for _ in range(8):
            claimed = await self.bench.claim(worker, 10)
            if not claimed:
                break
            turn = await self.bench.turn(worker, *(complete(job) for job in claimed))
            for job, settled in zip(claimed, turn.settled, strict=True):
                assert settled.reply is Reply.OK or job.lease.id == VICTIM
                if settled.reply is Reply.OK:
                    self.payloads[job.lease.id] = job.payload
            await self.reap()
        if kind == "blocker" and any(each.kind == "job" and each.id == "behind" for each in self.told):
            self.payloads["behind"] = b"behind"  # what it waits for is a part of it
        assert {*OTHERS, "behind"} <= {*self.payloads}, f"only {[*self.payloads]} were served"
        assert all(payload == id.encode() for id, payload in self.payloads.items() if id not in ("held", VICTIM))

    async def look(self, worker: Session) -> None:
        """Nothing that is shown lacks another job."""
        store, queue = self.store, self.queue
        for which in (Filter(queue=queue), Filter(), Filter(queue=queue, states=(State.COMPLETED, State.SCHEDULED))):
            found = {job.id for job in (await store.jobs(which, limit=1000)).jobs if job.queue == queue}
            assert {*OTHERS, "later"} <= found, f"{which} shows {found}"
        for id in (*OTHERS, "later"):
            assert await self.bench.state(id, queue=queue) in (State.COMPLETED, State.SCHEDULED)
        await store.get(queue, VICTIM)
        (info,) = [info for info in await store.queues() if info.name == queue]
        assert info.counts["completed"] >= len(OTHERS)
        assert worker.id in {info.session.id for info in await store.sessions()}
        assert (await store.policies(queue)).keys() <= {TASK}
        done = {event.id for event in await self.events() if event.transition == "complete" and event.queue == queue}
        assert {*OTHERS} <= done
        assert await store.chains(Filter(queue=queue)) is not None
        assert [found.verdict for found in await store.doctor()]
        assert await store.schedules(queue) is not None
        assert await store.due([queue]) is not None

    async def events(self) -> list[Event]:
        """Return what the log says of this scene."""
        found, position = [], self.began
        while page := await self.store.events(position, limit=500):
            found += page.events
            position = page.position
            if not page.events:
                break
        return found

    async def recover(self) -> None:
        """The job of the worker that vanished comes back, or has come back already."""
        await self.bench.tick(LEASE_MS / 1000 + 1)
        await self.reap()
        second = await self.bench.session(self.queue)
        await self.bench.tick(1)
        job = await self.store.get(self.queue, "held")
        assert job is None or job.state is not State.ACTIVE, "its worker is gone"
        await self.work_off(second)

    async def work_off(self, worker: Session) -> None:
        while claimed := await self.bench.claim(worker, 10):
            await self.bench.turn(worker, *(complete(job) for job in claimed))

    async def upkeep(self, worker: Session) -> None:
        """What others do to the queue still works."""
        store, queue = self.store, self.queue
        assert await store.promote(queue, "later") is Reply.OK
        assert (await self.bench.add("new", queue=queue)).status == "queued"
        assert (await store.cancel(queue, "new")).reply is Reply.OK
        await store.expire(queue, 1000)
        await self.reap()

    async def account(self) -> None:
        """The spoilt job was set aside and told of once, by event and by report; or it was served as it was."""
        told = [each for each in self.told if each.kind == "job"]
        failed = [event for event in await self.events() if (event.transition, event.cause) == ("fail", "corrupt")]
        if VICTIM in self.payloads:
            assert (told, failed) == ([], [])
            return
        assert [each.run for each in told] == [self.run]
        assert [(event.run, event.queue, event.id) for event in failed] == [(self.run, told[0].queue, told[0].id)]
        shown = " ".join(found.detail for found in await self.store.doctor() if found.verdict != "ok")
        assert f"{told[0].queue}/{told[0].id}" in shown

    async def clear(self) -> None:
        """Delete every job that is listed, so that the next scene begins without it."""
        for job in (await self.store.jobs(Filter(queue=self.queue), limit=1000)).jobs:
            await self.store.delete(self.queue, job.id)


def _behind(queue: str) -> NewJob:
    return new("behind", blockers=(BlockerRef(queue, "o1"),))
