"""The guard extends a lease where a heartbeat is missing, if the worker is neither stuck for long nor stopped."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from support import eventually

from holdfast.executor.process.deadline import Deadline
from holdfast.guard.__main__ import is_due, is_running
from holdfast.guard.page import Page


@pytest.fixture
def deadline() -> Iterator[Deadline]:
    with contextlib.closing(Deadline()) as deadline:
        yield deadline


@pytest.mark.parametrize(
    ("ends", "moved", "due"),
    [
        (float("inf"), 100.0, False),  # no session yet
        (115.0, 100.0, False),
        (108.0, 100.0, False),  # the last heartbeat was half a lease ago
        (107.0, 100.0, True),
        (90.0, 100.0, True),  # expired is not dead: until it is reaped, a late one counts
        (107.0, 41.0, True),
        (107.0, 40.0, False),  # stuck for too long: whoever can finish the jobs shall have them
    ],
)
def test_when_it_is_due(deadline: Deadline, ends: float, moved: float, due: bool) -> None:
    deadline.page.ends, deadline.page.moved = ends, moved
    seen = Page(deadline.fd)
    assert is_due(seen, 100.0, lease=15.0, wedged_after=60.0) is due
    seen.close()


def test_processes_cannot_move_the_end(deadline: Deadline) -> None:
    seen = Page(deadline.fd)
    with pytest.raises(TypeError):
        seen.ends = 1.0
    seen.close()


async def test_a_stopped_process_does_not_run() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])  # noqa: ASYNC220
    try:
        assert is_running(child.pid)
        child.send_signal(signal.SIGSTOP)
        await eventually(lambda: not is_running(child.pid))
        child.send_signal(signal.SIGCONT)
        await eventually(lambda: is_running(child.pid))
    finally:
        child.kill()
        child.wait()
    assert not is_running(child.pid)
    assert is_running(os.getpid())
