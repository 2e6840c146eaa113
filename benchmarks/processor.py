"""Processor time of other processes, from /proc: the steadier figure on a machine that is not quiet."""

from __future__ import annotations

import os
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")


def processor_time(pid: int) -> float:
    """Return user and system time of a process and of its children that have ended, in seconds."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / _TICK


def below(pid: int) -> list[int]:
    """Return every process below one."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(folder.name))
    found, left = [], [pid]
    while left:
        these = children.get(left.pop(), [])
        found += these
        left += these
    return found


def whole_time() -> float:
    """Return the processor time of this process and of all below it: servers, JVM and Python workers."""
    own = os.times()
    return own.user + own.system + sum(map(processor_time, below(os.getpid())))
