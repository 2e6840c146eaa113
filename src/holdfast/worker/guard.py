"""Starting the guard: a process beside the worker that extends its lease when the worker itself cannot."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress

import msgspec

from ..executor.process.spawn import search_path
from ..store.contract import Session, Store


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
        """The guard is gone. It can be killed at any moment, as every step in a store is whole or not at all."""
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
