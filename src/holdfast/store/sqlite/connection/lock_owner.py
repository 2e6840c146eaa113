"""The processes that have a lock on a database file, as far as the kernel tells."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import msgspec

LOCKS = Path("/proc/locks")
_SHARED_MEMORY_LOCKS = 120
"""The first of the bytes of the `-shm` file that SQLite locks: writer, checkpoint, recovery, then five for readers."""
_WRITER = range(_SHARED_MEMORY_LOCKS, _SHARED_MEMORY_LOCKS + 1)
_READERS = range(_SHARED_MEMORY_LOCKS + 4, _SHARED_MEMORY_LOCKS + 8)
"""Readers of a state that is in the write-ahead log; those of the file alone keep nothing from being written."""
_BYTES = {"writer": _WRITER, "reader": _READERS}


class LockedBytes(msgspec.Struct, frozen=True):
    """A line of `/proc/locks`: the process that has locked some bytes of a file."""

    pid: int
    inode: int
    bytes: range


def lock_owners(path: str, role: Literal["writer", "reader"]) -> list[str]:
    """Return the processes that write to the file this moment, or read an old state of it, by number and name.

    Nothing where the kernel does not say: on other systems than Linux, and of processes in another container.
    """
    try:
        inode = os.stat(f"{path}-shm").st_ino
        found = [lock for line in LOCKS.read_text().splitlines() if (lock := _parse(line)) and lock.inode == inode]
    except OSError:
        return []
    wanted = _BYTES[role]
    pids = {lock.pid for lock in found if lock.bytes.start < wanted.stop and wanted.start < lock.bytes.stop}
    return [_name(pid) for pid in sorted(pids)]


def _parse(line: str) -> LockedBytes | None:
    """Return a lock: `1: POSIX  ADVISORY  WRITE 4711 fe:00:12345 120 120`; `None` for one of another kind."""
    words = line.split()
    if len(words) != 8 or words[1] != "POSIX" or not (words[4].isdigit() and words[6].isdigit() and words[7].isdigit()):
        return None
    return LockedBytes(int(words[4]), int(words[5].rpartition(":")[2]), range(int(words[6]), int(words[7]) + 1))


def _name(pid: int) -> str:
    if pid == os.getpid():
        return f"this process ({pid})"
    try:
        name = Path(f"/proc/{pid}/comm").read_text().strip()
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return f"process {pid}"
    return f"process {pid} ({name}, stopped)" if state in "Tt" else f"process {pid} ({name})"
