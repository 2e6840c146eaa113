"""The app whose workers are killed while they fire: `python tick_app.py URL` is one of them."""

from __future__ import annotations

import asyncio
import sys

from holdfast import Every, Holdfast, Job

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


if __name__ == "__main__":
    asyncio.run(make_app(sys.argv[1]).worker(lease=1.0, poll=0.1).run())
