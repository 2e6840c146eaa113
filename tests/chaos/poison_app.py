"""An app with one job that kills its worker, among others that do no harm."""

from __future__ import annotations

import asyncio
import os
import signal

from holdfast import Holdfast, Retry


async def _work(poison: bool) -> str:
    """Whatever was claimed with the poison has started when it kills their worker, and none of it has ended."""
    await asyncio.sleep(0)
    if poison:
        os.kill(os.getpid(), signal.SIGKILL)
    return "done"


def make_app(url: str) -> Holdfast:
    """Return the app: the same in the test and in its workers."""
    made = Holdfast(url)
    made.task(name="work", queue="work")(_work)  # as a task is by default: three stalls are its last
    made.task(name="once", queue="once", retry=Retry(stalls=1))(_work)
    return made


app = make_app(os.environ.get("CHAOS_URL", "memory://"))
