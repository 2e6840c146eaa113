"""The maintainer: what has to be done in queues of which no worker is alive, on every store."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
from cli_shop import Process, Shop, in_shop
from places import place
from support import PATIENCE, WorkerProcess, burst, eventually, ledger_lines, processes, working
from worker_process import make_app

from holdfast import ConfigError, Counters, Every, Handle, Holdfast, JobFailed, Maintained, State
from holdfast.worker.upkeep.maintainer import SILENT

KINDS = ["sqlite", "postgres", "redis"]
LEASE = 1.0


@pytest.fixture(params=KINDS)
def anywhere(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty store of each kind that processes share."""
    with place(request.param, tmp_path) as url:
        yield url


@asynccontextmanager
async def killed(app: Holdfast, folder: Path, task: str = "hang") -> AsyncIterator[Handle[Any]]:
    """A job is active, and the only worker of its queue was killed long enough ago to be missed."""
    ledger = folder / "ledger"
    victim = WorkerProcess(app.store.url, ledger, slots=1, lease=LEASE)
    with processes(victim):
        async with app:
            handle = await app.registry.tasks[task].enqueue(str(folder / "release"))
            await eventually(lambda: ledger_lines(ledger))
            victim.signal(signal.SIGKILL)
            victim.process.wait()
            await eventually(lambda: is_missed(app))
            yield handle


async def is_missed(app: Holdfast) -> bool:
    """True once nobody was heard for more than a lease: the store may as well have been away."""
    (info,) = await app.workers()
    return await app.store.now_ms() - info.heard_at_ms > LEASE * 1000 * 1.5


async def test_jobs_of_a_queue_whose_only_worker_was_killed_are_put_back(anywhere: str, tmp_path: Path) -> None:
    app = make_app(anywhere, tmp_path / "ledger")
    async with killed(app, tmp_path) as handle:
        assert (await handle.job()).state is State.ACTIVE
        async with app.maintainer(interval=0.1) as maintainer:
            await eventually(lambda: is_waiting(handle))
            assert maintainer.running
        assert not maintainer.running
        assert (await handle.job()).counters == Counters(attempts=1, stalls=1)
        assert await app.workers() == []
        assert (await maintainer.stopped()).returned == 1


async def is_waiting(handle: Handle[Any]) -> bool:
    return (await handle.job()).state is State.WAITING


async def test_one_round_waits_for_the_lease_of_who_has_vanished(anywhere: str, tmp_path: Path) -> None:
    """Also when it is the first to be heard for a long time, as with cron: then leases move by that time first."""
    app = make_app(anywhere, tmp_path / "ledger")
    async with killed(app, tmp_path) as handle:
        assert await app.maintainer().once() == Maintained(queues=["default"], returned=1)
        assert await is_waiting(handle)
        assert await app.maintainer().once() == Maintained(queues=["default"])
        assert await app.maintainer(["other"]).once() == Maintained(queues=["other"])


async def test_who_waits_for_a_job_that_stalled_for_the_last_time_hears_of_it(anywhere: str, tmp_path: Path) -> None:
    app = make_app(anywhere, tmp_path / "ledger")
    async with killed(app, tmp_path, "fragile") as handle:
        waiting = asyncio.ensure_future(handle.result(PATIENCE))
        assert await app.maintainer().once() == Maintained(queues=["default"], failed=1)
        with pytest.raises(JobFailed, match="its worker vanished while it ran"):
            await waiting
        assert [job.task for job in (await app.jobs(state="waiting")).jobs] == ["alarm"], "its fail handler is due"


async def test_a_worker_that_is_heard_keeps_its_jobs_and_nobody_waits_for_it(anywhere: str, tmp_path: Path) -> None:
    app = Holdfast(anywhere)
    go = asyncio.Event()

    @app.task()
    async def work() -> str:
        await go.wait()
        return "done"

    async with working(app, lease=600) as running:
        handle = await work.enqueue()
        await eventually(lambda: running.worker.active)
        assert await asyncio.wait_for(app.maintainer().once(), PATIENCE) == Maintained(queues=["default"])
        go.set()
        assert await handle.result() == "done"
        assert (await handle.job()).counters == Counters(attempts=1)


async def test_finished_runs_expire_and_schedules_fire_where_no_worker_is(anywhere: str) -> None:
    app = Holdfast(anywhere)
    app.queue("mail", result_ttl=0.001)

    @app.task(queue="mail")
    async def send() -> None: ...

    async with app:
        await send.enqueue_many(send.args() for _ in range(3))
        await burst(app)
        await app.schedules.add("beat", Every(0.1), send.args())
        assert (await eventually(lambda: fired(app))).queues == ["mail"]
        assert (await app.jobs(queue="mail", state="waiting")).jobs
        assert (await app.queue("mail").info()).counts["completed"] == 0


async def fired(app: Holdfast) -> Maintained | None:
    done = await app.maintainer().once()
    return done if done.fired else None


async def test_queues_that_are_new_are_looked_after(app: Holdfast) -> None:
    async with app, app.maintainer(interval=0.01) as maintainer:
        await app.queue("late").enqueue({})
        await eventually(lambda: "late" in maintainer.queues)


async def test_a_maintainer_starts_and_stops_as_often_as_one_likes(app: Holdfast) -> None:
    maintainer = app.maintainer()
    assert await maintainer.stop() == Maintained()
    for _ in range(2):
        await maintainer.start()
        await maintainer.start()
        assert maintainer.running
        assert await asyncio.gather(maintainer.stop(), maintainer.stop()) == [Maintained()] * 2
        assert not maintainer.running
    assert app.loop is None


def test_an_interval_that_cannot_be_is_refused(app: Holdfast) -> None:
    with pytest.raises(ConfigError, match=r"interval=0: at least 0\.01 s"):
        app.maintainer(interval=0)
    with pytest.raises(ConfigError, match=r"queues='mail': give a list of names"):
        app.maintainer("mail")
    assert 1 / 3 < SILENT < 2 / 3, "longer than between two heartbeats, shorter than an outage"


# --- the command


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    """A shop in the current folder, named by HOLDFAST_APP."""
    with in_shop(tmp_path, monkeypatch) as shop:
        yield shop


def test_the_command_puts_back_what_a_killed_worker_held(shop: Shop) -> None:
    shop.ok("enqueue", "until_told", "--id", "a")
    with closing(Process(shop.folder, "worker", "--queues", "slow", "--lease", "0.5", "--no-guard")) as worker:
        worker.line("running")
        worker.signal(signal.SIGKILL)
        worker.end()
    with closing(Process(shop.folder, "upkeep", "--interval", "0.1", "--json")) as process:

        async def back() -> None:
            async with shop.app as app:
                await eventually(lambda: is_back(app))

        asyncio.run(back())
        process.signal(signal.SIGTERM)
        code, out, _ = process.end()
    done = json.loads(out)
    assert (code, done["returned"], done["queues"]) == (0, 1, ["slow"])


async def is_back(app: Holdfast) -> bool:
    return (await app.status("slow", "a")).state is State.WAITING


def test_one_round_by_command_says_what_it_did(shop: Shop) -> None:
    shop.ok("enqueue", "send", "to=ann")
    url = f"sqlite:///{shop.folder}/jobs.db"
    assert shop.ok("upkeep", "--once") == "upkeep of mail: nothing was to be done\n"
    assert shop.json("upkeep", "--once", "--queues", "mail,other")["queues"] == ["mail", "other"]
    assert "there is no store" in shop.error("upkeep", "--once", "--url", url.replace("jobs", "none"))
