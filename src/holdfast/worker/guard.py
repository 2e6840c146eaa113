"""Starting the guard: a process beside the worker that extends its lease when the worker itself cannot."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from contextlib import suppress

import msgspec

from ..executor import ProcessPool
from ..executor.process.spawn import search_path
from ..store.contract import Session, Store

log = logging.getLogger("holdfast")


class Guard:
    """The guard of one session (see `holdfast.guard`)."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, store: Store, session: Session, wedged_after: float, page: int) -> Guard:
        """Return the guard, which watches. What it must know may hold a password, and goes through a pipe."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "holdfast.guard", str(page), str(session.lease_ms / 1000), str(wedged_after),
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL, pass_fds=(page,),
            env={**os.environ, "PYTHONPATH": os.pathsep.join(search_path())}, start_new_session=True,
        )  # fmt: skip
        assert process.stdin is not None
        process.stdin.write(msgspec.json.encode((store.url, session)) + b"\n")
        return cls(process)

    async def stop(self) -> None:
        """Kill the guard, which may be done at any moment, as every step in a store is atomic."""
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()


async def guard_of(store: Store, session: Session, wedged_after: float, pool: ProcessPool) -> Guard | None:
    """Return the guard of a session, if one can be started."""
    try:
        return await Guard.start(store, session, wedged_after, pool.deadline().guard_fd)
    except OSError as error:
        log.warning("guard_failed: no guard could be started, so native code may cost this worker its lease: %s", error)
        return None
