"""A flow survives kill -9 of whoever starts it and of every worker, at one step after another."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
sys.path[:0] = [str(FOLDER), str(FOLDER.parent)]
import flow_app  # noqa: E402
import places  # noqa: E402

STEPS = (1, 2, 4, 7, 12, 20, 35, 1000)
KILLED = -signal.SIGKILL


def run(what: str, url: str, number: int, when: str) -> int:
    """Return how the process ended that is killed at its nth step."""
    command = [sys.executable, str(FOLDER / "flow_app.py"), what, url, str(number), when]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode in (0, KILLED), done.stderr
    return done.returncode


@pytest.mark.parametrize("store", ["sqlite", "redis", "postgres"])
def test_a_flow_survives_the_death_of_every_participant_at_every_step(store: str, tmp_path: Path) -> None:
    with places.place(store, tmp_path) as url:
        kills = 0
        for number in range(1, 50):
            code = run("start", url, number, "before" if number % 2 else "after")
            kills += code == KILLED
            if code == 0:
                break
        for index, number in enumerate(STEPS):
            code = run("work", url, number, "after" if index % 2 else "before")
            kills += code == KILLED
            if asyncio.run(is_over(url)):
                break
        asyncio.run(check(url))
        assert kills >= 5


async def is_over(url: str) -> bool:
    app = flow_app.make_app(url)
    async with app:
        return (await flow_app.build(app).progress()).over


async def check(url: str) -> None:
    """Every job completed once, and the results add up."""
    app = flow_app.make_app(url)
    async with app:
        flow = flow_app.build(app)
        while not (await flow.progress()).over:
            await app.worker(["a", "b", "c"], slots=3, lease=0.5, poll=0.1).run(burst=True)
        assert (await flow.progress()).completed == flow_app.ITEMS + 3
        assert await flow.result("last") == flow_app.EXPECTED
        ended: Counter[str] = Counter()
        async for event in app.events():
            ended[event.id] += event.transition in ("complete", "fail", "cancel")
        assert set(ended.values()) == {1}
        assert len(ended) == 2 * flow_app.ITEMS + 3
