"""A flow survives kill -9 of every participant at every step, on every store."""

from __future__ import annotations

import asyncio
import json
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

from holdfast import Holdfast  # noqa: E402
from holdfast.testing.replay import replay  # noqa: E402


def sweep(url: str) -> list[tuple[str, int, str, int]]:
    """Return who was killed at which step, and who came through."""
    command = [sys.executable, str(FOLDER / "flow_app.py"), url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    ends = [tuple(end) for end in json.loads(done.stdout)]
    assert {code for *_, code in ends} == {0, -signal.SIGKILL}, done.stderr
    return ends


@pytest.mark.parametrize("store", ["sqlite", "redis", "postgres"])
def test_a_flow_survives_the_death_of_every_participant_at_every_step(store: str, tmp_path: Path) -> None:
    with places.place(store, tmp_path) as url:
        ends = sweep(url)
        assert {what for what, *_, code in ends if code} == set(flow_app.PARTICIPANTS), "each was killed"
        asyncio.run(check(url, sorted({number for _, number, *_ in ends})))


async def check(url: str, flows: list[int]) -> None:
    """Every job of every flow completed once, and the results add up."""
    app = flow_app.make_app(url)
    async with app:
        for number in flows:
            await finish(app, number)
        ended: Counter[str] = Counter()
        async for event in app.events():
            ended[event.id] += event.transition in ("complete", "fail", "cancel")
        assert set(ended.values()) == {1}
        assert 0 <= len(ended) - (2 * flow_app.ITEMS + 4) * len(flows) <= len(flows), "an early answer saves a job"
        await replay(app.store)


async def finish(app: Holdfast, number: int) -> None:
    """Somebody who survives does what the dead had not done; whatever they had is not done again."""
    flow = flow_app.build(app, number)
    await flow.start()
    while (progress := await flow.progress()).completed < progress.total:
        await app.worker(flow_app.QUEUES, slots=3, lease=0.5, poll=0.1).run(burst=True)
        await app.complete_chain("a", flow["ask"].id, flow_app.APPROVED)
    assert await flow.result("last") == flow_app.EXPECTED
