"""The event log: everything, once, in order, from wherever a reader left off."""

from __future__ import annotations

import pytest

from ....core.bound import MOST_BEHIND, READER_FORGOTTEN_MS
from ....core.state import State
from ....errors import ConfigError
from ....store.contract import Filter
from ..bench import QUEUE, UPDATE, Bench, complete, fail, new, release, retry
from ..case import Case


class LogCases(Case):
    """Positions, pages, gaps and epochs."""

    async def test_a_life_is_told_in_order(self, bench: Bench) -> None:
        worker = await bench.session()
        await bench.add("j", delay_ms=1000)
        bench.clock.advance(1)
        (claimed,) = await bench.claim(worker)
        await bench.settle(worker, release(claimed))
        (claimed,) = await bench.claim(worker)
        await bench.add("j", UPDATE)
        await bench.settle(worker, retry(claimed))
        (claimed,) = await bench.claim(worker)
        await bench.settle(worker, fail(claimed))
        await bench.store.requeue(Filter(queue=QUEUE))
        await bench.store.cancel(QUEUE, "j")
        assert await bench.told("j") == [
            "enqueue", "promote", "claim", "release", "claim", "update", "retry", "update", "claim", "fail",
            "requeue", "cancel",
        ]  # fmt: skip

    async def test_reading_on_from_a_position_gives_what_came_after(self, bench: Bench) -> None:
        await bench.store.enqueue(QUEUE, [new(f"j{number}") for number in range(10)])
        seen = []
        position = None
        while True:
            page = await bench.store.events(position, limit=3)
            if not page.events:
                break
            seen += [event.id for event in page.events]
            position = page.position
            assert page.position == page.events[-1].position
        assert seen == [f"j{number}" for number in range(10)]
        await bench.add("new")
        page = await bench.store.events(position)
        assert [event.id for event in page.events] == ["new"]
        assert (page.gap, page.reset) == (0, False)

    async def test_a_reader_may_start_at_the_end(self, bench: Bench) -> None:
        await bench.add("old")
        page = await bench.store.events("end")
        assert page.events == []
        await bench.add("new")
        assert [event.id for event in (await bench.store.events(page.position)).events] == ["new"]

    async def test_a_reader_may_start_some_events_before_the_end(self, bench: Bench) -> None:
        await bench.store.enqueue(QUEUE, [new(f"j{number}") for number in range(10)])
        page = await bench.store.events("end-3")
        assert [event.id for event in page.events] == ["j7", "j8", "j9"]
        assert (page.gap, page.reset) == (0, False)
        await bench.add("new")
        assert [event.id for event in (await bench.store.events(page.position)).events] == ["new"]
        assert len((await bench.store.events("end-1000", limit=4)).events) == 4
        assert len((await bench.store.events("end-1000")).events) == 11
        with pytest.raises(ConfigError):
            await bench.store.events("end-x")

    async def test_one_queue_alone(self, bench: Bench) -> None:
        for queue in ("one", "two", "one"):
            await bench.store.enqueue(queue, [new(f"{queue}-{len(await bench.events())}")])
        page = await bench.store.events(queue="one")
        assert [event.queue for event in page.events] == ["one", "one"]

    async def test_a_trimmed_log_reports_its_gap(self, bench: Bench) -> None:
        start = (await bench.store.events("end")).position
        small = bench.harness.keeping(5, bench.clock)
        await small.open()
        try:
            for number in range(12):
                await bench.add(f"j{number}")
            await small.expire(QUEUE)
            page = await bench.store.events(start)
            assert (len(page.events), page.gap, page.reset) == (5, 7, False)
            assert (await bench.store.events(page.position)).gap == 0
        finally:
            await small.close()

    async def test_a_sweep_that_has_not_trimmed_all_says_so(self, bench: Bench) -> None:
        small = bench.harness.keeping(5, bench.clock)
        await small.open()
        try:
            await bench.store.enqueue(QUEUE, [new(f"j{number}") for number in range(90)])
            sweeps = 1
            while (await small.expire(QUEUE, 1)).more:
                sweeps += 1
            assert len((await bench.store.events()).events) == 5
            assert sweeps > 1, "each of them was bounded"
            await bench.store.hold("lake", (await bench.store.events("end")).position)
            await bench.store.enqueue(QUEUE, [new(f"k{number}") for number in range(30)])
            assert not (await small.expire(QUEUE, 100)).more, "what is kept for a reader is nothing to remove"
        finally:
            await small.close()

    async def test_producers_alone_keep_the_log_near_its_length(self, bench: Bench) -> None:
        small = bench.harness.keeping(50, bench.clock)
        await small.open()
        try:
            for part in range(5):
                await small.enqueue(QUEUE, [new(f"j{part}-{number}") for number in range(500)])
            assert len((await bench.store.events(limit=10_000)).events) <= 2_000
        finally:
            await small.close()

    async def test_answers_to_requests_go_at_any_rate(self, bench: Bench) -> None:
        for number in range(10):
            await bench.store.enqueue(QUEUE, [new(f"j{number}")], request=f"r{number}")
        bench.clock.advance(11 * 60)
        assert [(await bench.store.expire(QUEUE, 3)).more for _ in range(4)] == [True, True, True, False]

    async def test_trimming_what_was_read_is_no_gap(self, bench: Bench) -> None:
        small = bench.harness.keeping(2, bench.clock)
        await small.open()
        try:
            await bench.store.enqueue(QUEUE, [new(f"j{number}") for number in range(8)])
            position = (await bench.store.events(limit=100)).position
            await small.expire(QUEUE)
            assert (await bench.store.events(position)).gap == 0
        finally:
            await small.close()

    async def test_what_a_named_reader_lacks_is_kept_for_it(self, bench: Bench) -> None:
        small = bench.harness.keeping(5, bench.clock)
        await small.open()
        try:
            await bench.store.enqueue(QUEUE, [new(f"j{number}") for number in range(8)])
            await bench.store.hold("lake", (await bench.store.events(limit=3)).position)
            await small.expire(QUEUE)
            kept = (await bench.store.events()).events
            assert [event.id for event in kept] == [f"j{number}" for number in range(3, 8)]
            await bench.store.enqueue(QUEUE, [new(f"k{number}") for number in range(4)])
            await small.expire(QUEUE)
            assert len((await bench.store.events()).events) == 9, "the reader has not moved"
            await bench.store.hold("lake", (await bench.store.events("end")).position)
            await small.expire(QUEUE)
            assert len((await bench.store.events()).events) == 5
        finally:
            await small.close()

    async def test_the_slowest_reader_counts_until_it_lets_go(self, bench: Bench) -> None:
        small = bench.harness.keeping(2, bench.clock)
        await small.open()
        try:
            await bench.add("first")
            start = (await bench.store.events("end")).position
            await bench.store.enqueue(QUEUE, [new(f"j{number}") for number in range(6)])
            await bench.store.hold("slow", start)
            await bench.store.hold("quick", (await bench.store.events("end")).position)
            await small.expire(QUEUE)
            assert len((await bench.store.events()).events) == 6
            await bench.store.hold("slow", None)
            await small.expire(QUEUE)
            assert len((await bench.store.events()).events) == 2
        finally:
            await small.close()

    async def test_a_reader_holds_the_log_no_further_than_the_cap_and_is_told_of_the_gap(self, bench: Bench) -> None:
        small = bench.harness.keeping(2, bench.clock)
        await small.open()
        try:
            await bench.add("first")
            start = (await bench.store.events("end")).position
            await bench.store.hold("lake", start)
            await bench.store.enqueue(QUEUE, [new(f"j{number}") for number in range(MOST_BEHIND * 2 + 3)])
            await small.expire(QUEUE)
            page = await bench.store.events(start)
            assert (len(page.events), page.gap) == (MOST_BEHIND * 2, 3)
        finally:
            await small.close()

    async def test_a_reader_that_is_never_heard_of_again_holds_nothing(self, bench: Bench) -> None:
        small = bench.harness.keeping(2, bench.clock)
        await small.open()
        try:
            await bench.add("first")
            await bench.store.hold("gone", (await bench.store.events("end")).position)
            await bench.store.enqueue(QUEUE, [new(f"j{number}") for number in range(6)])
            bench.clock.advance(READER_FORGOTTEN_MS / 1000 + 1)
            await small.expire(QUEUE)
            events = [event for event in (await bench.store.events()).events if event.transition == "enqueue"]
            assert len(events) == 2
        finally:
            await small.close()

    async def test_the_reader_of_a_quiet_queue_misses_nothing_when_a_busy_one_is_trimmed(self, bench: Bench) -> None:
        small = bench.harness.keeping(2, bench.clock)
        await small.open()
        try:
            await bench.add("quiet", queue="quiet")
            position = (await bench.store.events(queue="quiet")).position
            await bench.store.enqueue("busy", [new(f"j{number}") for number in range(8)])
            position = (await bench.store.events(position, queue="quiet")).position
            await small.expire("busy")
            page = await bench.store.events(position, queue="quiet")
            assert (page.events, page.gap) == ([], 0)
            await bench.add("loud", queue="quiet")
            page = await bench.store.events(page.position, queue="quiet")
            assert [event.id for event in page.events] == ["loud"]
        finally:
            await small.close()

    async def test_a_log_that_was_reset_says_so(self, bench: Bench) -> None:
        await bench.store.enqueue(QUEUE, [new(f"j{number}") for number in range(3)])
        position = (await bench.store.events()).position
        await bench.harness.reset_log(bench.store)
        await bench.add("after")
        page = await bench.store.events(position)
        assert page.reset
        assert [event.id for event in page.events] == ["after"]
        assert not (await bench.store.events(page.position)).reset

    async def test_a_position_that_is_none_is_refused(self, bench: Bench) -> None:
        with pytest.raises(ConfigError, match="position"):
            await bench.store.events("nonsense")

    async def test_payloads_are_in_the_log_only_when_the_queue_keeps_them(self, bench: Bench) -> None:
        await bench.add("bare")
        await bench.store.configure(QUEUE, {"history": "payloads"})
        worker = await bench.session()
        (claimed,) = await bench.claim(worker)
        await bench.add("full", payload=b"all of it")
        await bench.add("full", UPDATE, payload=b"new")
        await bench.add("bare", UPDATE, payload=b"successor")
        await bench.settle(worker, complete(claimed))
        found = [(event.transition, event.payload) for event in await bench.events() if event.payload is not None]
        assert found == [("enqueue", b"all of it"), ("update", b"new"), ("enqueue", b"successor")]

    async def test_replayed_from_the_beginning_the_log_gives_every_runs_state(self, bench: Bench) -> None:
        worker = await bench.session()
        await bench.store.enqueue(QUEUE, [new(f"j{number}") for number in range(6)])
        held = await bench.claim(worker, 5)
        await bench.turn(worker, complete(held[0]), fail(held[1]), retry(held[2]), release(held[3]))
        await bench.store.cancel(QUEUE, "j5")
        states: dict[int, State | None] = {}
        for event in await bench.events():
            states[event.run] = event.state
        jobs = (await bench.store.jobs(Filter(queue=QUEUE))).jobs
        assert {job.run: job.state for job in jobs} == states
