"""Starting the system's process: a new interpreter with two descriptors of ours, and an environment."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from . import frames
from .process_tree import kill_tree

STREAMS = ("stdout", "stderr")
"""What a process prints to."""


class Kind(NamedTuple):
    """What is fixed when an interpreter starts: its environment."""

    environment: tuple[tuple[str, str], ...]


class Spawned(NamedTuple):
    """An interpreter that waits for its `Hello`, our end of its line, and where what it prints can be read."""

    child: asyncio.subprocess.Process
    line: socket.socket
    output: tuple[int, ...] = ()
    """Descriptors of its standard output and standard error."""

    def close(self) -> None:
        """Close our ends."""
        self.line.close()
        for fd in self.output:
            os.close(fd)


def search_path() -> list[str]:
    """Return where this interpreter finds modules, for one that may be somewhere else."""
    return [str(Path(each or os.curdir).resolve()) for each in sys.path]


def kind_of(hello: frames.Hello) -> Kind:
    """Return the worker's environment, or what of it a sandbox may see; and where to find this package."""
    found = os.pathsep.join(hello.path)
    if hello.sandbox is None:
        return Kind(tuple({**os.environ, "PYTHONPATH": found}.items()))
    seen = {name: os.environ[name] for name in sorted(hello.sandbox.env) if name in os.environ}
    return Kind(tuple({"LANG": "C.UTF-8", **seen, "PYTHONPATH": found}.items()))


async def spawn(kind: Kind, deadline: int) -> Spawned:
    """Return an interpreter in a session of its own."""
    with ExitStack() as ours, ExitStack() as theirs:  # a process that is out of descriptors leaves none open
        line, far = socket.socketpair()
        ours.callback(line.close)
        theirs.callback(far.close)
        pipes = [_pipe(ours, theirs) for _ in STREAMS]
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "holdfast.executor.process.child", str(far.fileno()), str(deadline), *_stores(),
            stdin=asyncio.subprocess.DEVNULL, stdout=pipes[0][1], stderr=pipes[1][1], pass_fds=(far.fileno(), deadline),
            env=dict(kind.environment), start_new_session=True,
        )  # fmt: skip
        ours.pop_all()
    return Spawned(child, line, tuple(read for read, _ in pipes))


def _pipe(ours: ExitStack, theirs: ExitStack) -> tuple[int, int]:
    read, write = os.pipe()
    ours.callback(os.close, read)
    theirs.callback(os.close, write)
    return read, write


def _stores() -> list[str]:
    """Return the stores of ours that this worker has imported: the task's module will make its app with one of them."""
    return sorted(name for name in sys.modules if name.startswith("holdfast.store.") and name.endswith(".store"))


class Spares:
    """One interpreter of each kind ahead of need, for sandboxes, which are started for each job that needs one."""

    def __init__(self) -> None:
        self._starting: dict[Kind, asyncio.Task[Spawned]] = {}
        self.wanted: set[Kind] = set()
        """Of these there shall be one, and is none."""

    def fill(self, deadline: int) -> None:
        """Start one of each kind that is wanted."""
        for kind in self.wanted:
            self._starting[kind] = asyncio.get_running_loop().create_task(spawn(kind, deadline))
        self.wanted.clear()

    async def take(self, kind: Kind, deadline: int) -> Spawned:
        """Return an interpreter of this kind: the spare one, or a new one."""
        starting = self._starting.pop(kind, None)
        self.wanted.add(kind)
        if starting is not None:
            spawned = await starting
            if spawned.child.returncode is None:
                return spawned
            spawned.close()
        return await spawn(kind, deadline)

    async def close(self) -> None:
        """End all spares."""
        starting, self._starting = list(self._starting.values()), {}
        for outcome in await asyncio.gather(*starting, return_exceptions=True):
            if isinstance(outcome, Spawned):  # or it could not even start, as the next job that needs one will hear
                outcome.close()
                kill_tree(outcome.child.pid)
                await outcome.child.wait()
