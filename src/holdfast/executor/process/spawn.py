"""Starting the system's process: a new interpreter with two descriptors of ours, and an environment."""

from __future__ import annotations

import asyncio
import os
import sys

from ...core.sandbox import Sandbox
from . import wire


async def spawn(hello: wire.Hello, line: int, deadline: int) -> asyncio.subprocess.Process:
    """Return a process that waits for its `Hello` on the line, in a session of its own."""
    output = None if hello.sandbox is None else asyncio.subprocess.DEVNULL
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "holdfast.executor.process.child", str(line), str(deadline),
        stdin=asyncio.subprocess.DEVNULL, stdout=output, stderr=output, pass_fds=(line, deadline),
        env=_environment(hello.path, hello.sandbox), start_new_session=True,
    )  # fmt: skip


def _environment(path: list[str], sandbox: Sandbox | None) -> dict[str, str]:
    """Return the worker's environment, or what of it a sandbox may see; and where to find this package."""
    found = os.pathsep.join(path)
    if sandbox is None:
        return {**os.environ, "PYTHONPATH": found}
    seen = {name: os.environ[name] for name in sandbox.env if name in os.environ}
    return {"LANG": "C.UTF-8", **seen, "PYTHONPATH": found}
