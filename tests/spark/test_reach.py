"""How far a micro-batch reaches: its limit counts the events that were asked for, on every store, and loses none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from spark_places import KINDS, Shop, fresh

from holdfast.store.contract import NewJob
from holdfast.store.redis.scan import reaching
from holdfast.store.scan import Condition, Scan, ScanPlan, open_scan

LIMIT = 8
URGENT = (Condition("priority", ">", 0),)


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return fresh(request.param, tmp_path)


async def fill(url: str, **urgent: Sequence[int]) -> None:
    """Each queue has 100 jobs, of which those with these numbers are urgent."""
    app = Shop(url).app
    async with app:
        for queue, numbers in urgent.items():
            jobs = [
                NewJob(id=f"{queue}-{n}", task="bill", payload=b"[1]", priority=int(n in numbers)) for n in range(100)
            ]
            await app.store.enqueue(queue, jobs)


def batches(scan: Scan, which: Sequence[Condition], upto: str | None = None) -> Iterator[list[str]]:
    """Yield the ids of each batch, until one reaches no further."""
    at = scan.reach(None, 0, which)
    while (further := scan.reach(at, LIMIT, which, upto)) != at:
        yield ids(scan, which, at, further)
        at = further


def ids(scan: Scan, which: Sequence[Condition], after: str | None, upto: str | None) -> list[str]:
    plan = ScanPlan(table="events", columns=("id",), which=tuple(which), after=after, upto=upto)
    return [str(id) for part in scan.plan(plan) for page in scan.read(plan, part) for id in listed(page["id"])]


def listed(values: Any) -> list[Any]:
    return values.to_pylist() if hasattr(values, "to_pylist") else list(values)


async def test_batches_are_full_of_what_was_asked_for(url: str) -> None:
    await fill(url, bills=range(3, 100, 10), mail=(99,), quiet=())
    with closing(open_scan(url)) as scan:
        found = list(batches(scan, URGENT))
        assert [len(batch) for batch in found] == [8, 3]
        every = [id for batch in found for id in batch]
        assert sorted(every) == sorted([*(f"bills-{n}" for n in range(3, 100, 10)), "mail-99"])
        of_one = list(batches(scan, (*URGENT, Condition("queue", "=", "bills"))))
        assert [len(batch) for batch in of_one] == [8, 2]


async def test_what_comes_while_batches_are_read_comes_later(url: str) -> None:
    await fill(url, bills=range(20))
    with closing(open_scan(url)) as scan:
        end = scan.end()
        await fill(url, mail=range(20))
        assert [len(batch) for batch in batches(scan, URGENT, end)] == [8, 8, 4]
        assert sorted(ids(scan, URGENT, end, None)) == sorted(f"mail-{n}" for n in range(20))
        assert sum(len(batch) for batch in batches(scan, URGENT)) == 40


async def test_redis_looks_at_a_bounded_number_of_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reaching, "LOOKED_AT_MOST", 50)
    url = fresh("redis", tmp_path)
    await fill(url, bills=range(90, 100), mail=())
    with closing(open_scan(url)) as scan:
        found = list(batches(scan, URGENT))
        assert [len(batch) for batch in found] == [0, 0, 0, 8, 2], "50 events of both queues together, or a full batch"
        assert [id for batch in found for id in batch] == [f"bills-{n}" for n in range(90, 100)]
