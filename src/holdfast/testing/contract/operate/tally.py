"""Counts: what `queues` tells of a queue is what is there, even after its records were changed from outside."""

from __future__ import annotations

import asyncio

from ....core.state import State
from ..bench import QUEUE, Bench, complete
from ..case import Case

ROUNDS = 10


class TallyCases(Case):
    """How many jobs a queue has in each state. After every test of the suite they are compared with what is listed."""

    async def test_lost_records_do_not_count_once_the_doctor_was_there(self, bench: Bench) -> None:
        for number in range(4):
            await bench.add(f"j{number}")
        await bench.harness.lose(bench.store, QUEUE, "j1")
        await bench.store.doctor()
        worker = await bench.session()
        while claimed := await bench.claim(worker, 10):
            await bench.turn(worker, *(complete(job) for job in claimed))
        assert await _counts(bench) == {State.COMPLETED: 3}
        assert (await bench.add("j1")).status == "queued"

    async def test_the_doctor_harms_no_count_while_others_work(self, bench: Bench) -> None:
        worker = await bench.session()
        stores = [bench.store, await bench.another()]

        async def enqueue(number: int) -> None:
            await bench.add(f"j{number}")
            for job in await bench.claim(worker, 2):
                await bench.turn(worker, complete(job))

        for start in range(ROUNDS):
            numbers = range(start * 4, start * 4 + 4)
            await asyncio.gather(*(store.doctor() for store in stores), *(enqueue(number) for number in numbers))
            found = await bench.store.doctor()
            assert [each.detail for each in found if each.name == "counts" and each.verdict != "ok"] == []

    async def test_what_was_lost_is_taken_off_once_however_many_look(self, bench: Bench) -> None:
        for number in range(3):
            await bench.add(f"j{number}")
        await bench.harness.lose(bench.store, QUEUE, "j1")
        stores = [bench.store, await bench.another(), await bench.another()]
        await asyncio.gather(*(store.doctor() for store in stores for _ in range(3)))
        worker = await bench.session()
        assert [job.lease.id for job in await bench.claim(worker, 10)] == ["j0", "j2"]
        assert await _counts(bench) == {State.ACTIVE: 2}
        assert (await bench.add("j1")).status == "queued"


async def _counts(bench: Bench) -> dict[str, int]:
    (info,) = await bench.store.queues()
    return {state: count for state, count in info.counts.items() if count}
