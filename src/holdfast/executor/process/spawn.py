"""Starting the system's process: a new interpreter with two descriptors of ours, and an environment."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from pathlib import Path
from typing import NamedTuple

from . import wire


class Kind(NamedTuple):
    """What is fixed when an interpreter starts: its environment, and whether what it prints is seen."""

    environment: tuple[tuple[str, str], ...]
    silent: bool


class Spawned(NamedTuple):
    """An interpreter that waits for its `Hello`, and our end of its line."""

    child: asyncio.subprocess.Process
    line: socket.socket


def search_path() -> list[str]:
    """Return where this interpreter finds modules, for one that may be somewhere else."""
    return [str(Path(each or os.curdir).resolve()) for each in sys.path]


def kind_of(hello: wire.Hello) -> Kind:
    """Return the worker's environment, or what of it a sandbox may see; and where to find this package."""
    found = os.pathsep.join(hello.path)
    if hello.sandbox is None:
        return Kind(tuple({**os.environ, "PYTHONPATH": found}.items()), silent=False)
    seen = {name: os.environ[name] for name in sorted(hello.sandbox.env) if name in os.environ}
    return Kind(tuple({"LANG": "C.UTF-8", **seen, "PYTHONPATH": found}.items()), silent=True)


async def spawn(kind: Kind, deadline: int) -> Spawned:
    """Return an interpreter in a session of its own."""
    ours, theirs = socket.socketpair()
    output = asyncio.subprocess.DEVNULL if kind.silent else None
    try:
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "holdfast.executor.process.child", str(theirs.fileno()), str(deadline), *_stores(),
            stdin=asyncio.subprocess.DEVNULL, stdout=output, stderr=output, pass_fds=(theirs.fileno(), deadline),
            env=dict(kind.environment), start_new_session=True,
        )  # fmt: skip
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
    return Spawned(child, ours)


def _stores() -> list[str]:
    """Return the stores of ours that this worker has imported: the task's module will make its app with one of them."""
    return sorted(name for name in sys.modules if name.startswith("holdfast.store.") and name.endswith(".store"))
