"""What a process asks of the kernel for itself. On systems without it, nothing happens."""

from __future__ import annotations

import ctypes
import math
import os
import signal
import sys
import time
from typing import NamedTuple

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


def prctl(option: int, value: int) -> None:
    """Set a process option; raise OSError when the kernel refuses."""
    libc = ctypes.CDLL(None, use_errno=True)
    arguments = [ctypes.c_ulong(each) for each in (value, 0, 0, 0)]
    if libc.prctl(ctypes.c_int(option), *arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def bind_to_parent() -> None:
    """Have this process die with its worker, and adopt the orphans of its children, so that they can be found."""
    if sys.platform == "linux":
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        prctl(PR_SET_CHILD_SUBREAPER, 1)


class Consumed(NamedTuple):
    """What a process has used so far."""

    cpu: float
    """Seconds of processor time, with that of its children that have ended."""
    threads: int
    alive: bool
    """False for one that has ended and was not waited for."""


def consumed(pid: int) -> Consumed:
    """Return what a process has taken; OSError when it is gone."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    cpu = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return Consumed(cpu, int(fields[17]), fields[0] not in (b"Z", b"X"))


def limit_cpu(pid: int, seconds: float) -> None:
    """Send a process SIGXCPU one to two seconds after it has used so much more processor time; OSError if it is gone.

    The hard limit stays as it is, for only the mighty can raise it again for the next job.
    """
    import resource

    try:
        used = time.clock_gettime(~pid << 3)  # the clock of this limit, which counts whole ticks: others differ
    except OSError as error:
        raise ProcessLookupError(*error.args) from error
    _, hard = resource.prlimit(pid, resource.RLIMIT_CPU)
    soft = math.ceil(used + seconds) + 1
    resource.prlimit(pid, resource.RLIMIT_CPU, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


def resident() -> int:
    """Return a file descriptor from which the resident memory can be read, or -1."""
    try:
        return os.open("/proc/self/statm", os.O_RDONLY)
    except OSError:
        return -1


def resident_bytes(fd: int) -> int:
    """Return how many bytes of memory this process holds."""
    if fd < 0:
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
    return int(os.pread(fd, 200, 0).split()[1]) * os.sysconf("SC_PAGE_SIZE")


def resident_of(pid: int) -> int:
    """Return how many bytes of memory a process holds; 0 when it is gone, or the system does not tell."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
