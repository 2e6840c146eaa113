"""A process and all that it started, however far those went from it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

MOST_ROUNDS = 100
QUICK_LOOKS, NEAR = 20, 8
"""How often to look for the newest processes before a look at all, and how many of them."""
QUIET = 3
"""After so many looks in a row that find no process, none is left."""
RLIMIT_LOCKS = 10
"""A limit that no kernel heeds any more. Its number goes to whatever a process starts, and a sandbox cannot change it:
so it is a mark by which even orphans are known."""


class SeenProcess(NamedTuple):
    """A process that was seen; its number may be another's by now, but not with the same start."""

    pid: int
    started: str


def descendants(pid: int) -> list[SeenProcess]:
    """Return every process below this one. Its orphans are there too, as it adopts them (see `bind_to_parent`)."""
    children: dict[int, list[SeenProcess]] = {}
    for each in _pids():
        if (stat := _stat(each)) is not None and not stat.dead:
            children.setdefault(stat.parent, []).append(SeenProcess(each, stat.started))
    found: list[SeenProcess] = []
    below = [pid]
    while below:
        for known in children.get(below.pop(), ()):
            found.append(known)
            below.append(known.pid)
    return found


def mark_self(mark: int) -> None:
    """Mark this process and all that it will start."""
    import resource

    resource.setrlimit(RLIMIT_LOCKS, (mark, mark))


def marked(mark: int, *, dead: bool = False) -> list[SeenProcess]:
    """Return every process that has the mark; with `dead`, also those that ended and were not waited for."""
    import resource

    found = []
    for pid in _pids():
        with suppress(ProcessLookupError, PermissionError):
            if resource.prlimit(pid, RLIMIT_LOCKS)[0] == mark:
                stat = _stat(pid)
                if stat is not None and (dead or not stat.dead):
                    found.append(SeenProcess(pid, stat.started))
    return found


def is_there(known: SeenProcess) -> bool:
    """Return whether a process is the one that was seen, though it may have ended without being waited for."""
    stat = _stat(known.pid)
    return stat is not None and stat.started == known.started


def kill_all(these: Iterable[SeenProcess]) -> None:
    """Send SIGKILL to those of the processes that still exist."""
    for pid, started in these:
        stat = _stat(pid)
        if stat is not None and not stat.dead and stat.started == started:
            signalled(pid, signal.SIGKILL)


def kill_group(pid: int, number: int) -> None:
    """Send the signal to every process of the group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def signalled(pid: int, number: int) -> None:
    """Send the signal to the process, if it exists."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def kill_tree(pid: int, mark: int = 0) -> None:
    """Send SIGKILL to the process and all below it; stop it first, so that it cannot start another."""
    signalled(pid, signal.SIGSTOP)
    for _ in range(MOST_ROUNDS):  # those that it started may start others meanwhile, but fewer and fewer
        below = descendants(pid)
        kill_all(below)
        if not below:
            break
    kill_group(pid, signal.SIGKILL)
    signalled(pid, signal.SIGKILL)
    if mark:
        kill_marked(mark)


def kill_marked(mark: int) -> None:
    """Send SIGKILL to every process that has the mark, until several looks find none.

    Each at once when it is found, and the newest first: one that starts another and ends, over and over, is seldom
    there any more when a list is complete.
    """
    quiet = 0
    for _ in range(MOST_ROUNDS):
        found = sum(_killed(pid, mark) for _ in range(QUICK_LOOKS) for pid in _newest())
        found += sum(_killed(pid, mark) for pid in _pids())
        quiet = 0 if found else quiet + 1
        if quiet == QUIET:
            break


def _killed(pid: int, mark: int) -> bool:
    """Return whether there was such a process with the mark; it has got SIGKILL."""
    import resource

    with suppress(ProcessLookupError, PermissionError):
        if resource.prlimit(pid, RLIMIT_LOCKS)[0] == mark:
            os.kill(pid, signal.SIGKILL)
            return (stat := _stat(pid)) is not None and not stat.dead
    return False


def _newest() -> range:
    """Return the numbers round that of the process that was started last."""
    try:
        with open("/proc/loadavg", "rb") as file:
            last = int(file.read().split()[-1])
    except OSError:
        return range(0)
    return range(last + NEAR, max(1, last - NEAR), -1)


class _Stat(NamedTuple):
    parent: int
    started: str
    dead: bool


def _pids() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []  # no such system, or a sandbox


def _stat(pid: int) -> _Stat | None:
    """Return a process's parent, when it started and whether it has ended; `None` when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return _Stat(int(fields[1]), fields[19].decode(), fields[0] in (b"Z", b"X"))
