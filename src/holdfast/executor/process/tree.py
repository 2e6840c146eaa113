"""A process and all that it started, however far those went from it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

MOST_ROUNDS = 100


class Known(NamedTuple):
    """A process that was seen; its number may be another's by now, but not with the same start."""

    pid: int
    started: str


def descendants(pid: int) -> list[Known]:
    """Return every process below this one. Its orphans are there too, as it adopts them (see `bind_to_parent`)."""
    children: dict[int, list[Known]] = {}
    for name in _listed("/proc"):
        if name.isdigit() and (stat := _stat(int(name))) is not None:
            children.setdefault(stat[0], []).append(Known(int(name), stat[1]))
    found: list[Known] = []
    below = [pid]
    while below:
        for known in children.get(below.pop(), ()):
            found.append(known)
            below.append(known.pid)
    return found


def kill_all(these: Iterable[Known]) -> None:
    """Those of the processes that still are there get SIGKILL."""
    for pid, started in these:
        stat = _stat(pid)
        if stat is not None and stat[1] == started:
            signalled(pid, signal.SIGKILL)


def kill_group(pid: int, number: int) -> None:
    """Every process of the group gets the signal, if there is one."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def signalled(pid: int, number: int) -> None:
    """The process gets the signal, if it is there."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def kill_tree(pid: int) -> None:
    """The process and all that is below it get SIGKILL. It is stopped first, so that it cannot start another."""
    signalled(pid, signal.SIGSTOP)
    for _ in range(MOST_ROUNDS):  # those that it started may start others meanwhile, but fewer and fewer
        below = descendants(pid)
        kill_all(below)
        if not below:
            break
    kill_group(pid, signal.SIGKILL)
    signalled(pid, signal.SIGKILL)


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []  # no such system, or a sandbox


def _stat(pid: int) -> tuple[int, str] | None:
    """Return a process's parent and when it started, unless it is dead."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] == b"Z" else (int(fields[1]), fields[19].decode())
