"""Suspects in a worker: they get the company that they may have, are not starved, and starve nobody."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from msgspec.structs import replace
from places import place
from process_case import ledger, tasks  # noqa: F401
from support import Running, eventually, ledger_lines, working

from holdfast import Holdfast
from holdfast.core.policy import Cause
from holdfast.core.state import State
from holdfast.store.contract import Released, Session

every_store = pytest.mark.parametrize("kind", ["sqlite", "postgres", "redis"])


@pytest.fixture
def app(kind: str, tmp_path: Path) -> Iterator[Holdfast]:
    with place(kind, tmp_path) as url:
        yield Holdfast(url)


class Shop:
    """An app whose handlers wait at a gate, or not at all, and tell how many ran at once."""

    def __init__(self, app: Holdfast) -> None:
        self.app = app
        self.gate = asyncio.Event()
        self.now: set[str] = set()
        self.seen: dict[str, set[str]] = {}
        """By label: everything that ran at the same time."""
        self.hold = app.task(name="hold", queue="q")(self._hold)
        self.quick = app.task(name="quick", queue="q")(self._quick)

    async def _hold(self, label: str) -> None:
        with self._noted(label):
            await self.gate.wait()

    async def _quick(self, label: str) -> None:
        with self._noted(label):
            await asyncio.sleep(0)

    def _noted(self, label: str) -> Any:
        return _Noted(self, label)

    async def suspect(self, *labels: str, company: int = 1) -> None:
        """Jobs are there that stalled in company, and may have so much the next time. They are not due yet."""
        session = Session(id="gone", name="gone", host="here", pid=1, queues=("q",), slots=99)
        await self.app.store.register(session)
        for label in labels:
            await self.quick.options(job_id=label, priority=9).enqueue(label)
            (claimed,) = (await self.app.store.settle_and_claim(session, (), ("q",), 1, held=99)).claimed
            stall = Released(claimed.lease, 3_600_000, cause=Cause.STALL, company=2 * company)
            await self.app.store.settle_and_claim(session, (stall,), (), 0)
        await self.app.store.leave(session)

    async def due(self, *labels: str) -> None:
        """They wait from now on."""
        for label in labels:
            await self.app.store.promote("q", label)

    async def is_completed(self, *labels: str) -> bool:
        states = [(await self.app.status("q", label)).state for label in labels]
        return set(states) == {State.COMPLETED}


class _Noted:
    def __init__(self, shop: Shop, label: str) -> None:
        self._shop, self._label = shop, label

    def __enter__(self) -> None:
        now, seen = self._shop.now, self._shop.seen
        now.add(self._label)
        for each in now:
            seen.setdefault(each, set()).update(now)

    def __exit__(self, *_: object) -> None:
        self._shop.now.discard(self._label)


@every_store
async def test_suspects_run_alone_one_after_the_other_beside_nothing(app: Holdfast) -> None:
    shop = Shop(app)
    async with app:
        await shop.suspect("a", "b", "c")
        await shop.due("a", "b", "c")
        await shop.quick.enqueue_many(shop.quick.args(f"other-{number}") for number in range(50))
        await app.worker(["q"], slots=10).run(burst=True)
        assert await shop.is_completed("a", "b", "c")
    assert [shop.seen[label] for label in "abc"] == [{"a"}, {"b"}, {"c"}]
    assert len(shop.seen) == 53


@every_store
async def test_suspects_have_no_more_company_than_they_may(app: Holdfast) -> None:
    shop = Shop(app)
    labels = [f"suspect-{number}" for number in range(12)]
    async with app:
        await shop.suspect(*labels, company=4)
        await shop.due(*labels)
        await shop.quick.enqueue_many(shop.quick.args(f"other-{number}") for number in range(50))
        await app.worker(["q"], slots=10).run(burst=True)
        assert await shop.is_completed(*labels)
    assert 2 <= max(len(shop.seen[label]) for label in labels) <= 4
    assert len(shop.seen) == 62


@every_store
async def test_a_worker_that_never_rests_comes_to_its_suspects(app: Holdfast) -> None:
    """Each job brings another: there is always one to claim, and the worker is never empty by itself."""
    shop = Shop(app)
    stop = False

    @app.task(queue="q")
    async def again() -> None:
        if not stop:
            await again.enqueue()

    async with app:
        await shop.suspect("j")
        await again.enqueue_many(again.args() for _ in range(40))
        running = Running(app.worker(["q"], slots=10))
        await eventually(lambda: running.worker.active)
        await shop.due("j")
        await eventually(lambda: shop.is_completed("j"))
        stop = True
        await running.end()
    assert shop.seen["j"] == {"j"}


@every_store
async def test_a_job_that_runs_for_long_keeps_the_suspect_waiting_and_nobody_else(app: Holdfast) -> None:
    shop = Shop(app)
    async with app:
        await shop.suspect("j")
        running = Running(app.worker(["q"], slots=3, poll=0.05))
        await shop.hold.enqueue("long")
        await eventually(lambda: "long" in shop.now)
        await shop.due("j")
        others = [f"other-{number}" for number in range(20)]
        for label in others:
            await shop.quick.options(job_id=label).enqueue(label)
        await eventually(lambda: shop.is_completed(*others))
        assert shop.now == {"long"}
        assert (await app.status("q", "j")).state is State.WAITING
        shop.gate.set()
        await eventually(lambda: shop.is_completed("j"))
        await running.end()
    assert shop.seen["j"] == {"j"}


@every_store
async def test_an_idle_worker_takes_the_suspect_for_which_a_busy_one_has_no_room(app: Holdfast) -> None:
    shop = Shop(app)
    async with app:
        await shop.suspect("j")
        busy = Running(app.worker(["q"], slots=2))
        await shop.hold.enqueue("long")
        await eventually(lambda: "long" in shop.now)
        idle = Running(app.worker(["q"], slots=2))
        await eventually(lambda: idle.worker.healthy)
        await shop.due("j")
        await eventually(lambda: shop.is_completed("j"))
        shop.gate.set()
        reports = [await each.end() for each in (busy, idle)]
    assert [report.completed for report in reports] == [1, 1]


@pytest.mark.parametrize("store", ["sqlite", "redis", "postgresql"])
async def test_only_the_job_that_kills_its_process_fails(
    tasks: ModuleType,  # noqa: F811
    ledger: Path,  # noqa: F811
    tmp_path: Path,
) -> None:
    flag = str(tmp_path / "flag")
    async with tasks.app:
        handles = [await tasks.shares.enqueue(flag, number == 3) for number in range(20)]
        async with working(tasks.app, "shared", pool=1):
            await eventually(lambda: _are_over(handles), patience=60)
        jobs = [await handle.job() for handle in handles]
    assert [number for number, job in enumerate(jobs) if job.state is not State.COMPLETED] == [3]
    assert (jobs[3].state, jobs[3].counters.stalls) == (State.FAILED, 3)
    assert jobs[3].error.message.startswith("it killed its process 3 times")
    assert sum(job.counters.stalls > 0 for job in jobs) >= 10, "those that shared its process stalled with it"
    assert len(ledger_lines(ledger, "start")) > 20


async def _are_over(handles: list[Any]) -> bool:
    return all([(await handle.job()).state.finished for handle in handles])


# --- a worker that is late


@every_store
async def test_a_worker_whose_lease_was_over_says_so_with_its_name_and_queues(
    app: Holdfast, caplog: pytest.LogCaptureFixture
) -> None:
    """Whichever of its calls is heard first after the lease: a heartbeat, or a turn."""
    shop = Shop(app)
    async with app:
        await _be_late(app, "extend")
        running = Running(app.worker(["q"], name="slow", lease=3.0, poll=0.05))
        await eventually(lambda: "worker_late: slow (queues q)" in caplog.text)
        await running.end()
        caplog.clear()
        await _be_late(app, "settle_and_claim")
        await shop.quick.enqueue("j")
        running = Running(app.worker(["q"], name="slow", poll=0.05))
        await eventually(lambda: "worker_late: slow (queues q)" in caplog.text)
        await running.end()


async def _be_late(app: Holdfast, name: str) -> None:
    """The first such call of a session finds its lease over, as after a freeze, and nobody has reaped it."""
    store, twin = app.store, app.store.twin

    def late(target: Any) -> Any:
        call = getattr(target, name)

        async def answer(*args: Any, **options: Any) -> Any:
            return replace(await call(*args, **options), late=True)

        setattr(target, name, answer)
        return target

    if name == "extend":
        store.twin = lambda: late(twin())  # type: ignore[method-assign]
    else:
        late(store)
