"""The program of a process: `python -m holdfast.executor.process.child LINE DEADLINE [MODULE ...]`, two
inherited descriptors, and what to import while there is nothing to do.

It runs the jobs that its worker sends, `async def` handlers in its event loop and `def` ones in threads, until
it is told to leave, its worker is gone, or the worker's lease is over.
"""

from __future__ import annotations

import asyncio
import logging
import os
import select
import signal
import socket
import sys
from contextlib import AsyncExitStack
from importlib import import_module
from typing import NoReturn

from ....app.plain import load
from ....handler.job import _current
from ....telemetry.context import records_with_jobs
from ...failure import describe
from ...shortage import is_shortage
from .. import frames
from ..exit import LEASE_OVER, WORKER_GONE
from ..kernel import bind_to_parent, resident
from ..link import FrameLink
from ..log_relay import LogForwarder
from ..process_tree import descendants, kill_all
from .jobs import ChildJobs, Explain
from .outbox import Outbox
from .watchdogs import watch, watch_loop


async def serve(line: socket.socket, deadline: int, hello: frames.Hello, explain: Explain | None, memory: int) -> None:
    """Run jobs until the worker says that no more follow."""
    loop = asyncio.get_running_loop()

    say = Outbox(line).send
    programs = hello.sandbox is not None and hello.sandbox.subprocess
    shift = ChildJobs(say, explain, memory, _end_programs if programs else lambda: None)
    link = FrameLink(frames.to_process, shift.heard, lambda error: _end(WORKER_GONE, programs=programs))
    watch(deadline, lambda: shift.is_at_work, lambda: _end(LEASE_OVER, programs=programs))
    logging.basicConfig(level=hello.level, handlers=[LogForwarder(say, shift.current)], force=True)
    async with AsyncExitStack() as resources:
        resources.enter_context(records_with_jobs(_current.get))
        try:
            for place in hello.resources:
                resource = load(place)
                await resource.open()
                resources.push_async_callback(resource.close)
        except Exception as error:
            say(frames.StartFailed(describe(error), trouble=True))
            return
        line.setblocking(False)
        await loop.create_connection(lambda: link, sock=line)
        say(frames.Ready())
        watch_loop(loop, lambda: shift.is_at_work, shift.blocker, say)
        await shift.left.wait()
    say(frames.Left())
    await asyncio.Event().wait()  # the worker ends what is left of this process, and then the process


def _end_programs() -> None:
    from ...sandbox.enter import end_programs

    end_programs()


def _end(code: int, *, programs: bool) -> NoReturn:
    """End this process and all that it started, even a sandbox's programs, which it cannot list."""
    kill_all(descendants(os.getpid()))
    if programs:
        from ...sandbox.enter import kill_others

        kill_others()
    os._exit(code)


def _receive(line: socket.socket) -> frames.Hello:
    """Return the first frame, with no event loop yet: a sandbox must be closed before there is a second thread."""
    (length,) = frames.LENGTH.unpack(_exactly(line, frames.LENGTH.size))
    hello = frames.to_process(_exactly(line, length))
    assert isinstance(hello, frames.Hello)
    return hello


def _exactly(line: socket.socket, count: int) -> bytes:
    parts = b""
    while len(parts) < count:
        part = line.recv(count - len(parts))
        if not part:
            raise SystemExit(WORKER_GONE)
        parts += part
    return parts


def _import_ahead(line: socket.socket) -> None:
    """Import what nearly every task's module imports, none of it the user's, while there is nothing to do."""
    if not select.select([line], [], [], 0)[0]:
        for name in ("holdfast.app.app", "holdfast.executor.sandbox.enter", *sys.argv[3:]):
            import_module(name)


def main() -> None:
    """Run as the program of a process."""
    line, deadline = socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2])
    for fd in (line.fileno(), deadline):
        os.set_inheritable(fd, False)  # a program that a handler starts has no business with them
    bind_to_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is the worker's to handle
    memory = resident()
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr]
    _import_ahead(line)
    hello = _receive(line)
    sys.path[:] = hello.path
    os.environ.pop("PYTHONPATH", None)
    if hello.pythonpath is not None:
        os.environ["PYTHONPATH"] = hello.pythonpath
    explain: Explain | None = None
    if hello.sandbox is not None:
        from ...sandbox.enter import enter

        try:
            explain = enter(hello.sandbox, hello.mark)
        except Exception as error:
            line.sendall(frames.packed(frames.StartFailed(describe(error), trouble=is_shortage(error))))
            return
    asyncio.run(serve(line, deadline, hello, explain, memory))
