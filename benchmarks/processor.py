"""Processor time that processes have taken, by the kernel's books: it does not depend on what else the machine does.

Standard library only: every system's own environment imports this module.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
PROCESSES = Path("/proc")


@dataclass(frozen=True)
class Process:
    """One process: who started it, its session, and the seconds that it and its ended children took."""

    pid: int
    parent: int
    session: int
    own: float
    ended: float

    @property
    def seconds(self) -> float:
        return self.own + self.ended


def parse(pid: int, stat: str) -> Process:
    """The kernel's line about a process; its name, in brackets, may hold anything."""
    fields = stat.rpartition(")")[2].split()
    user, system, ended_user, ended_system = (int(field) / TICKS for field in fields[11:15])
    return Process(pid, int(fields[1]), int(fields[3]), user + system, ended_user + ended_system)


def processes() -> Iterator[Process]:
    """All that run now."""
    for folder in PROCESSES.iterdir():
        if folder.name.isdigit():
            with suppress(OSError):  # it has just ended
                yield parse(int(folder.name), (folder / "stat").read_text())


def processor_time(pid: int) -> float:
    """Seconds of a process and of its children that have ended; 0 where there is no such process."""
    try:
        return parse(pid, (PROCESSES / str(pid) / "stat").read_text()).seconds
    except OSError:
        return 0.0


def children(pid: int) -> list[int]:
    """The processes that this one has started and that still run."""
    listed = PROCESSES / str(pid) / "task" / str(pid) / "children"
    if listed.exists():  # most kernels know; it saves a look at every process
        return [int(word) for word in listed.read_text().split()]
    return [each.pid for each in processes() if each.parent == pid]


def of_session(session: int) -> float:
    """Seconds of all processes of a session, those included that have ended and were waited for."""
    return sum(each.seconds for each in processes() if each.session == session)


def signal_session(session: int, signal: int) -> None:
    """Send a signal to every process of a session, also to those in groups of their own, as worker processes are."""
    for each in processes():
        if each.session == session:
            with suppress(ProcessLookupError):
                os.kill(each.pid, signal)


def of_tree(pid: int) -> float:
    """Seconds of a process and of its children, as those of a PostgreSQL server; 0 where there is no such process."""
    return sum(each.seconds for each in processes() if pid and pid in (each.pid, each.parent))


def below(pid: int) -> list[int]:
    """Return every process below one."""
    running, found, left = list(processes()), list[int](), [pid]
    while left:
        parent = left.pop()
        these = [each.pid for each in running if each.parent == parent]
        found += these
        left += these
    return found


def whole_time() -> float:
    """Return the processor time of this process and of all below it: servers, JVM and Python workers."""
    own, inside = os.times(), set(below(os.getpid()))
    return own.user + own.system + sum(each.seconds for each in processes() if each.pid in inside)
