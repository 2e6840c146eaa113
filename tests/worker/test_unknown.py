"""What a worker does with jobs of tasks that it does not know, by a clock of the test's own."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast import Counters
from holdfast.app.hooks import Hooks
from holdfast.store.contract import Claimed, Lease, Released, Session, SessionInfo
from holdfast.worker.turns.skipped_queues import (
    FIRST_DELAY_MS,
    FIRST_PAUSE,
    LONGEST_DELAY_MS,
    LONGEST_PAUSE,
    UnknownTasks,
)

QUEUES = ("q", "other")


class World:
    """A clock, the sessions of a store, and what was to happen later."""

    def __init__(self, *others: Session) -> None:
        self.now = 100.0
        self.others = others
        self.asked = 0
        self.bells: list[float] = []
        self.unknown = UnknownTasks(self, Hooks(), self.bells.append, lambda: self.now)  # type: ignore[arg-type]

    async def sessions(self) -> list[SessionInfo]:
        self.asked += 1
        return [
            SessionInfo(session=each, started_at_ms=0, heard_at_ms=0, expires_at_ms=0, active=0) for each in self.others
        ]

    async def meet(self, task: str | None = "new", attempts: int = 1, **counts: int) -> Released:
        """Return the word for such a job, once everybody else was asked about it."""
        claimed = Claimed(
            lease=Lease("q", "j", 1, attempts), task=task, payload=b"", priority=0, key=None, run_at_ms=0,
            enqueued_at_ms=0, claimed_at_ms=0, counters=Counters(attempts=attempts, **counts),
        )  # fmt: skip
        word = self.unknown.release(claimed, f"no task named {task!r}", worker("own"))
        for _ in range(3):
            await asyncio.sleep(0)
        return word


def worker(id: str, *tasks: str, **fields: Any) -> Session:
    return Session(**{"id": id, "name": id, "host": "h", "pid": 1, "queues": ("q",), "tasks": tasks, **fields})


async def test_a_job_that_others_know_is_theirs_at_once_and_its_queue_is_left_to_them() -> None:
    world = World(worker("other", "new"))
    word = await world.meet()
    assert (word.delay_ms, word.cause) == (0, "worker")
    assert world.unknown.resting
    assert world.unknown.served(QUEUES) == ["other"]
    assert world.bells[0] == FIRST_PAUSE
    world.now += FIRST_PAUSE
    assert not world.unknown.resting
    assert tuple(world.unknown.served(QUEUES)) == QUEUES


async def test_a_queue_is_left_alone_for_longer_each_time_that_it_brings_nothing_known() -> None:
    world = World(worker("other", "new"))
    pauses = []
    for _ in range(7):
        await world.meet()
        await world.meet()  # of the same batch
        pauses.append(world.unknown._until["q"] - world.now)
        world.now = world.unknown._until["q"]
    assert [round(pause, 2) for pause in pauses] == [0.05, 0.1, 0.2, 0.4, 0.8, LONGEST_PAUSE, LONGEST_PAUSE]
    world.unknown.works("q")
    await world.meet()
    assert round(world.unknown._until["q"] - world.now, 2) == FIRST_PAUSE


async def test_a_job_that_nobody_alive_knows_makes_room_for_those_behind_it() -> None:
    world = World(worker("other", "old"))
    assert (await world.meet()).delay_ms == 0, "nobody has been asked yet"
    assert tuple(world.unknown.served(QUEUES)) == QUEUES, "there is nobody to leave it to"
    assert (await world.meet(attempts=2, failures=1)).delay_ms == FIRST_DELAY_MS
    assert (await world.meet(attempts=3, failures=1)).delay_ms == FIRST_DELAY_MS * 2
    assert (await world.meet(attempts=30)).delay_ms == LONGEST_DELAY_MS
    assert not world.unknown.resting


async def test_others_are_asked_now_and_then_and_not_for_each_job() -> None:
    world = World(worker("other", "old"))
    for _ in range(5):
        await world.meet()
    assert world.asked == 1
    world.others, world.now = (worker("other", "new"),), world.now + 3
    await world.meet()
    assert (world.asked, (await world.meet()).delay_ms) == (2, 0)


async def test_what_was_known_of_the_others_a_while_ago_puts_no_job_off() -> None:
    world = World(worker("other", "old"))
    await world.meet()
    assert (await world.meet(attempts=2)).delay_ms > 0, "nobody knows it"
    world.others, world.now = (worker("other", "new"),), world.now + FIRST_DELAY_MS / 1000
    assert [(await world.meet(attempts=3)).delay_ms for _ in range(3)] == [0, 0, 0], "it is asked again first"
    assert world.unknown.resting
    world.others, world.now = (), world.now + FIRST_DELAY_MS / 1000
    assert (await world.meet(attempts=4)).delay_ms == 0
    assert not world.unknown.resting, "the others have gone"
    assert (await world.meet(attempts=5)).delay_ms > 0


@pytest.mark.parametrize(
    "other",
    [worker("own", "new"), worker("o", "new", queues=("other",)), worker("o", tasks=None)],
    ids=["this very worker", "one of another queue", "one that does not say"],
)
async def test_who_does_not_count(other: Session) -> None:
    world = World(other)
    await world.meet()
    assert (await world.meet()).delay_ms == FIRST_DELAY_MS


async def test_plain_jobs_are_known_to_whoever_has_a_handler_for_their_queue() -> None:
    world = World(worker("other", "new", "q:"))
    await world.meet(None)
    assert (await world.meet(None)).delay_ms == 0
