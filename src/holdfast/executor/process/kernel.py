"""What a process asks of the kernel for itself. On systems without it, nothing happens."""

from __future__ import annotations

import ctypes
import math
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


def prctl(option: int, value: int) -> None:
    """The option is set; OSError when the kernel refuses."""
    libc = ctypes.CDLL(None, use_errno=True)
    arguments = [ctypes.c_ulong(each) for each in (value, 0, 0, 0)]
    if libc.prctl(ctypes.c_int(option), *arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def bind_to_parent() -> None:
    """This process dies with its worker, and orphans of its own children stay below it, where they are found."""
    if sys.platform == "linux":
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        prctl(PR_SET_CHILD_SUBREAPER, 1)


def cpu_of(pid: int) -> float:
    """Return the processor time that a process has used, in seconds."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        user, system = file.read().rpartition(b")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def limit_cpu(pid: int, seconds: float) -> int:
    """A process gets SIGXCPU when it has used so much more processor time; return how much that is in all.

    The hard limit stays as it is, for only the mighty can raise it again for the next job.
    """
    import resource

    most = math.ceil(cpu_of(pid) + seconds)
    _, hard = resource.prlimit(pid, resource.RLIMIT_CPU)
    resource.prlimit(pid, resource.RLIMIT_CPU, (most, hard))
    return most


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
