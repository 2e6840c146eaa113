"""Following the log of a real store, with a real worker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import places
import pytest
from support import Flaky, burst, eventually

from holdfast import ConfigError, Holdfast, Retry, StoreError
from holdfast.store.contract import EventPage
from holdfast.telemetry.recent import Recent, RecentOptions, Thresholds

QUICK = RecentOptions(interval=0.01, idle_interval=0.02, look_every=0.02, count_every=0.02)


@pytest.fixture(params=places.STORES)
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Holdfast]:
    """An app on an empty store of each kind."""
    with places.place(request.param, tmp_path) as url:
        yield Holdfast(url)


def shop(app: Holdfast) -> Any:
    @app.task(queue="mail", retry=Retry(attempts=1))
    async def send(number: int) -> int:
        if number % 10 == 0:
            raise ValueError(f"no address {number}")
        return number

    return send


async def test_a_worker_is_followed(app: Holdfast) -> None:
    send = shop(app)
    async with app, Recent(app.store, QUICK) as recent:
        for number in range(30):
            await send.enqueue(number)
        await burst(app)
        await eventually(lambda: recent.traffic("mail").ended == 30)
        mail = recent.traffic("mail")
        assert (mail.enqueued, mail.started, mail.completed, mail.failed) == (30, 30, 27, 3)
        assert (mail.wait.count, mail.run.count) == (30, 30)
        assert recent.traffic() == recent.traffic("mail")
        assert recent.traffic("nowhere").ended == 0
        (task,) = recent.tasks("mail")
        assert (task.queue, task.task, task.traffic.failed) == ("mail", "send", 3)
        assert sum(recent.chart("mail").completed) == 27
        assert sum(recent.task_chart("mail", "send").failed) == 3


async def test_failures_have_a_message_and_the_dead_letters_are_counted(app: Holdfast) -> None:
    send = shop(app)
    async with app:
        for number in range(0, 200, 10):
            await send.enqueue(number)
        await burst(app)
        async with Recent(app.store, QUICK) as recent:
            await eventually(lambda: [group.dead for group in recent.failures()] == [20])
            (group,) = recent.failures()
            assert (group.type, group.failed, group.queues, group.tasks) == ("ValueError", 20, ["mail"], ["send"])
            assert (group.message or "").startswith("no address ")
            record = await app.store.get(group.sample.queue, group.sample.id, group.sample.run)
            assert record is not None
            assert record.error is not None
            assert record.error.signature == group.signature
            await app.requeue(queue="mail")
            await eventually(lambda: recent.failures()[0].dead == 0, "they were requeued, and counted again")


async def test_it_begins_some_events_before_the_end(app: Holdfast) -> None:
    send = shop(app)
    async with app:
        for number in range(1, 8):
            await send.enqueue(number)
        async with Recent(app.store, RecentOptions(interval=0.01, back=5, page=2)) as recent:
            await eventually(lambda: recent.traffic("mail").enqueued == 5 and not recent.state().behind)
            await send.enqueue(9)
            await eventually(lambda: recent.traffic("mail").enqueued == 6)
            assert recent.state().breaks == []


async def test_the_depth_of_a_queue_is_looked_at_and_what_needs_attention_told(app: Holdfast) -> None:
    send = shop(app)
    async with app, Recent(app.store, QUICK) as recent:
        for number in range(3):
            await send.enqueue(number)
        await app.queue("mail").pause()
        await eventually(lambda: [each.kind for each in recent.attention()] == ["paused"])
        (concern,) = recent.attention()
        assert (concern.kind, concern.words) == ("paused", "mail is paused, and 3 jobs wait in it")
        await eventually(lambda: recent.waiting("mail", 0) == 3, "also when a new minute has just begun")
        assert recent.waiting("mail", 30) is None
        await eventually(lambda: recent.view().all.enqueued == 3)
        assert recent.view().queues["mail"].enqueued == 3


async def test_a_store_that_goes_away_is_told_of_and_followed_again(app: Holdfast) -> None:
    send = shop(app)
    async with app:
        flaky: Any = Flaky(app.store)
        async with Recent(flaky, QUICK) as recent:
            await eventually(lambda: recent.state().polls > 0)
            flaky.refuse("events", StoreError("gone\x1b[2J"))
            await eventually(lambda: recent.state().trouble)
            assert recent.state().trouble == "StoreError: gone\\x1b[2J"
            assert recent.attention()[0].kind == "store"
            await send.enqueue(1)
            await eventually(lambda: recent.traffic("mail").enqueued == 1 and recent.state().trouble is None)


async def test_a_gap_is_told(tmp_path: Path) -> None:
    app = Holdfast(f"sqlite:///{tmp_path}/small.db?history=10")
    send = shop(app)
    async with app:
        recent = Recent(app.store, RecentOptions(back=0))
        await recent.poll()
        for number in range(1, 40):
            await send.enqueue(number)
        await app.store.expire("mail")
        await recent.poll()
        (found,) = recent.state().breaks
        assert (found.kind, (found.missed or 0) > 0) == ("gap", True)


async def test_what_cannot_be_kept_up_with_is_left_out_and_told(app: Holdfast) -> None:
    send = shop(app)
    async with app:
        for number in range(1, 20):
            await send.enqueue(number)
        recent = Recent(app.store, RecentOptions(back=4, page=2, patience=0.0))
        while await recent.poll():
            assert not recent.state().breaks, "the first catching up is allowed"
        for number in range(20, 40):
            await send.enqueue(number)
        await recent.poll()
        assert [each.kind for each in recent.state().breaks] == ["skipped"]
        await send.enqueue(41)
        await recent.poll()
        assert recent.traffic("mail").enqueued == 4 + 2 + 1


async def test_a_store_that_cannot_count_back_is_followed_from_its_end(app: Holdfast) -> None:
    send = shop(app)
    async with app:
        await send.enqueue(1)
        flaky: Any = Flaky(app.store)
        flaky.refuse("events", ConfigError("position 'end-50000' is not one"))
        recent = Recent(flaky)
        await recent.poll()
        await send.enqueue(2)
        await recent.poll()
        assert recent.traffic("mail").enqueued == 1


class Heard:
    """A listener that keeps what it hears."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.told: list[str] = []
        self.is_eager = True

    def hear(self, page: EventPage) -> None:
        self.ids += [event.id for event in page.events]

    def skipped(self, page: EventPage) -> None:
        self.told.append("skipped")

    def lost(self, why: str) -> None:
        self.told.append(why)


async def test_a_listener_hears_what_is_read_and_the_log_is_read_once(app: Holdfast) -> None:
    flaky = Flaky(app.store)
    async with app:
        recent, heard = Recent(flaky, QUICK), Heard()  # type: ignore[arg-type]
        recent.listener = heard
        async with recent:
            await eventually(lambda: recent.end_turn)
            await app.queue("q").enqueue(1, job_id="one")
            recent.wake()
            await eventually(lambda: heard.ids == ["one"])
            flaky.refuse("events", StoreError("away"))
            await eventually(lambda: heard.told == ["away"])
            await app.queue("q").enqueue(1, job_id="two")
            await eventually(lambda: heard.ids == ["one", "two"])
        assert flaky.calls.count("events") <= recent.turn


async def test_many_dead_letters_are_counted_without_waiting_for_the_next_look(app: Holdfast) -> None:
    send = shop(app)
    async with app:
        await send.enqueue_many(send.args(0) for _ in range(500))
        await burst(app)
        seldom = RecentOptions(interval=60, idle_interval=60, unread_interval=60, back=0)
        async with Recent(app.store, seldom) as recent:
            await eventually(lambda: [group.dead for group in recent.failures()] == [500])


async def test_a_lake_that_is_behind_needs_attention(app: Holdfast) -> None:
    send = shop(app)
    options = msgspec.structs.replace(QUICK, lag_every=0.02)
    async with app, Recent(app.store, options) as recent:
        await eventually(lambda: recent.queues == [] and recent.state().polls)
        assert recent.attention(queues=[]) == []
        await send.enqueue(1)
        await app.store.hold("lake-1", (await app.store.events(limit=1)).position)
        await send.enqueue(2)
        late = Thresholds(lake_lag_ms=50)
        await eventually(lambda: [each.kind for each in recent.attention(queues=[], thresholds=late)] == ["lake"])
        (concern,) = recent.attention(queues=[], thresholds=late)
        assert concern.words == "the lake is 0 seconds behind the log"
        await app.store.hold("lake-1", (await app.store.events("end")).position)
        await eventually(lambda: recent.attention(queues=[], thresholds=late) == [], "the lake has read all")
