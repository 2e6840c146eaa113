"""Workers are killed with SIGKILL, over and over, while jobs run; and the ledger still adds up.

CHAOS_SECONDS (default 8) says for how long. `make chaos` runs it for a minute.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from support import eventually

from holdfast import Holdfast
from holdfast.core.state import UNFINISHED, State
from holdfast.testing.replay import replay

FOLDER = Path(__file__).parent
SECONDS = float(os.environ.get("CHAOS_SECONDS", "8"))
WORKERS = 3
RUN = "import asyncio, chaos_app; asyncio.run(chaos_app.app.worker(slots=10, lease=1.0, poll=0.2).run(signals=True))"


def start(environment: dict[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", RUN], env=environment, cwd=FOLDER, stderr=subprocess.DEVNULL)


async def attack(app: Holdfast, environment: dict[str, str], rng: random.Random) -> tuple[int, int]:
    """Enqueue while workers are killed and started again; return how many jobs there were, and how many kills."""
    work = app.registry.tasks["work"]
    workers = [start(environment) for _ in range(WORKERS)]
    number = kills = 0
    deadline = time.monotonic() + SECONDS
    try:
        while time.monotonic() < deadline:
            batch = [work.options(job_id=f"job-{number + i}").args(number + i) for i in range(rng.randint(1, 40))]
            await work.enqueue_many(batch)
            number += len(batch)
            begun = number - rng.randint(0, 40)
            await eventually(lambda begun=begun: started(environment) >= begun, "handlers have started")
            if rng.random() < 0.15 or not kills:
                victim = rng.randrange(WORKERS)
                workers[victim].send_signal(signal.SIGKILL)
                workers[victim].wait()
                workers[victim] = start(environment)
                kills += 1
    finally:
        for worker in workers:
            worker.send_signal(signal.SIGTERM)
        for worker in workers:
            worker.wait(60)
    return number, kills


def started(environment: dict[str, str]) -> int:
    """Return how many times a handler has begun so far, by the ledger."""
    ledger = Path(environment["CHAOS_LEDGER"])
    return ledger.read_bytes().count(b"\nran ") + 1 if ledger.exists() else 0


async def unfinished(app: Holdfast) -> int:
    return sum(queue.counts[state] for queue in await app.queues() for state in UNFINISHED)


def test_kill_dash_nine_loses_nothing(tmp_path: Path) -> None:
    url, ledger = f"sqlite:///{tmp_path}/chaos.db", tmp_path / "ledger"
    environment = {**os.environ, "CHAOS_URL": url, "CHAOS_LEDGER": str(ledger)}
    os.environ.update(CHAOS_URL=url, CHAOS_LEDGER=str(ledger))
    sys.path.insert(0, str(FOLDER))
    from chaos_app import app

    async def scenario() -> None:
        async with app:
            number, kills = await attack(app, environment, random.Random(7))
            while await unfinished(app):
                await app.worker(slots=20, lease=1.0, poll=0.2).run(burst=True)
            await check(app, ledger.read_text(), number, kills)
            await replay(app.store)

    asyncio.run(scenario())


async def check(app: Holdfast, ledger: str, number: int, kills: int) -> None:
    """Every job ended once; what the handlers wrote down, the store's records and its events say the same."""
    ran, rescued = Counter[str](), Counter[str]()
    for line in ledger.splitlines():
        word, id, _, _ = line.split()
        (ran if word == "ran" else rescued)[id] += 1
    ended, claims, states = Counter[str](), Counter[str](), {}
    async for event in app.events():
        if event.queue == "work":
            claims[event.id] += event.transition == "claim"
            ended[event.id] += event.transition in ("complete", "fail")
            states[event.id] = event.state
    ids = {f"job-{i}" for i in range(number)}
    assert kills > 0
    assert set(ended) == ids
    assert set(ended.values()) == {1}
    assert set(ran) == ids
    assert all(ran[id] <= claims[id] for id in ids)
    for i in range(number):
        id = f"job-{i}"
        record = await app.status("work", id)
        wanted = State.FAILED if i % 50 == 49 else State.COMPLETED
        assert record.state is wanted is states[id]
        assert record.counters.attempts == claims[id]
    failed = {f"job-{i}" for i in range(number) if i % 50 == 49}
    assert {id.partition("/")[0] for id in rescued} == failed
