"""The envelope: what a job carries reaches its handler, its events and lists by tag, and no store reads it."""

from __future__ import annotations

from ....core.envelope import EMPTY
from ....core.state import State
from ....store.contract import Filter
from ..bench import QUEUE, UPDATE, Bench, carrying, complete, fail
from ..case import Case

ODD = ("vip", "ünï/…", 'a "quoted", {braced} one', "50%", "it's", "back\\slash")


class EnvelopeCases(Case):
    """Headers and tags, through every transition that copies or sets them."""

    async def test_events_that_set_an_envelope_carry_it(self, bench: Bench) -> None:
        worker = await bench.session()
        await bench.add("j", envelope=carrying(headers={"a": "b"}, tags=["red"]))
        await bench.add("j", UPDATE, envelope=carrying(tags=["blue"]))
        await bench.add("plain")
        for each in await bench.claim(worker, 2):
            await bench.settle(worker, fail(each))
        await bench.store.requeue(Filter(queue=QUEUE, ids=("j",), states=(State.FAILED,)))
        events = (await bench.store.events(queue=QUEUE, limit=100)).events
        told = [
            (event.id, event.transition, event.tags) for event in events if event.envelope is not EMPTY and event.tags
        ]
        assert told == [("j", "enqueue", ("red",)), ("j", "update", ("blue",)), ("j", "requeue", ("blue",))]
        first = next(event for event in events if event.transition == "enqueue")
        assert first.envelope.headers == {"a": "b"}

    async def test_a_successor_and_what_runs_anew_have_their_own(self, bench: Bench) -> None:
        worker = await bench.session()
        claimed = await bench.take(worker, "j", envelope=carrying(tags=["red"]))
        await bench.add("j", UPDATE, envelope=carrying(tags=["blue"]))
        assert (await bench.get("j")).tags == ("red",)
        await bench.settle(worker, complete(claimed))
        (claimed,) = await bench.claim(worker)
        assert claimed.envelope.tags == ("blue",)
        events = (await bench.store.events(queue=QUEUE, limit=100)).events
        assert [event.tags for event in events if event.transition == "update"] == [("blue",)]

    async def test_lists_filter_by_tag(self, bench: Bench) -> None:
        worker = await bench.session()
        await bench.settle(worker, complete(await bench.take(worker, "done", envelope=carrying(tags=ODD))))
        for number, tag in enumerate(ODD):
            await bench.add(f"{number}", envelope=carrying(headers={"vip": tag}, tags=[tag, "common"]))
            await bench.add(f"{number}-later", envelope=carrying(tags=["common"]), delay_ms=60_000, queue="other")
        await bench.add("plain")
        await bench.add("header", envelope=carrying(headers={"tags": "common", "a": '"common"'}))
        for number, tag in enumerate(ODD):
            page = await bench.store.jobs(Filter(tag=tag))
            assert sorted(job.id for job in page.jobs) == sorted([f"{number}", "done"])
        both = Filter(queue="other", tag="common", states=(State.SCHEDULED,))
        assert len((await bench.store.jobs(both)).jobs) == len(ODD)
        assert (await bench.store.jobs(Filter(tag="no such"))).jobs == []

    async def test_pages_of_a_list_by_tag_leave_nothing_out(self, bench: Bench) -> None:
        ids = [f"j{number:03}" for number in range(60)]
        for number, id in enumerate(ids):
            await bench.add(id, envelope=carrying(tags=["third"]) if number % 3 == 0 else None)
        found, cursor = [], None
        while True:
            page = await bench.store.jobs(Filter(queue=QUEUE, tag="third"), limit=7, cursor=cursor)
            assert len(page.jobs) <= 7
            found += [job.id for job in page.jobs]
            cursor = page.cursor
            if cursor is None:
                break
        assert sorted(found) == ids[::3]
