"""Entering: from here on, this process can do no more than its task may. Done before its code is imported."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import resource
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress

from ...core.sandbox import Sandbox
from ...errors import ConfigError
from ..process.kernel import prctl
from ..process.process_tree import mark_self
from . import landlock, seccomp
from .reach import WRITABLE, listable, readable
from .syscall import MACHINES, call

PR_GET_SECCOMP, PR_SET_NO_NEW_PRIVS = 21, 38
CAPABILITY_VERSION = 0x20080522
OWN_MEMORY = 64 * 1024 * 1024
"""Address space for our own threads and buffers, beside what the task has."""
STACK = 1024 * 1024
M_ARENA_MAX = -8


def missing(sandbox: Sandbox) -> list[str]:
    """Return what this system lacks to keep these permissions."""
    if sys.platform != "linux":
        return [f"Linux (this is {sys.platform})"]
    if platform.machine() not in MACHINES:
        return [f"a table of system calls for {platform.machine()} (there is one for {', '.join(MACHINES)})"]
    lacking, version = [], landlock.version()
    for needed, since, what in (
        (True, landlock.FILES, "Landlock for files (Linux 6.2)"),
        (bool(sandbox.connect), landlock.PORTS, "Landlock for TCP ports (Linux 6.7), which connect= needs"),
        (sandbox.subprocess, landlock.SIGNALS, "Landlock for signals (Linux 6.12), which subprocess=True needs"),
    ):
        if needed and version < since:
            lacking.append(f"{what}; it has version {version} of {since}" if version else what)
    try:
        prctl(PR_GET_SECCOMP, 0)
    except OSError:
        lacking.append("seccomp")
    return lacking


def enter(sandbox: Sandbox, mark: int) -> Callable[[BaseException], str]:
    """The permissions hold. Return a function that says what they have to do with an error.

    There must be one thread only: the kernel restricts the caller and what comes of it, not those beside it.
    """
    if (threads := len(os.listdir("/proc/self/task"))) > 1:
        raise RuntimeError(f"this interpreter started with {threads} threads, of which a sandbox could hold but one")
    rules, programs = landlock.LandlockRules(), landlock.EXECUTE if sandbox.subprocess else 0
    rules.allow(listable(), landlock.READ_DIR)
    rules.allow([*readable(), *sandbox.read], landlock.READ | programs)
    rules.allow(WRITABLE, landlock.READ_FILE | landlock.WRITE_FILE)
    rules.allow(sandbox.write, (rules.everything & ~landlock.IOCTL_DEV & ~landlock.EXECUTE) | programs)
    rules.allow_ports(sandbox.connect)
    _limit(sandbox)
    if mark:
        mark_self(mark)
    _drop_capabilities()
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    rules.enforce()
    seccomp.install(connect=bool(sandbox.connect), subprocess=sandbox.subprocess)
    return lambda error: explanation(sandbox, error)


def _limit(sandbox: Sandbox) -> None:
    """Memory, open files and core dumps are limited; processor time is, for each job, by the worker."""
    threading.stack_size(STACK)
    ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)  # or each thread would set aside 64 MB of addresses
    with open("/proc/self/statm", "rb") as file:
        pages = int(file.read().split()[0])
    most = pages * os.sysconf("SC_PAGE_SIZE") + OWN_MEMORY + sandbox.memory
    _bound("memory", sandbox.memory, resource.RLIMIT_AS, most)
    _bound("open_files", sandbox.open_files, resource.RLIMIT_NOFILE, sandbox.open_files)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _bound(name: str, wanted: int, limit: int, most: int) -> None:
    try:
        resource.setrlimit(limit, (most, most))
    except ValueError:
        hard = resource.getrlimit(limit)[1]
        raise ConfigError(f"Sandbox({name}={wanted}): its worker itself may have no more than {hard}") from None


def _drop_capabilities() -> None:
    """Root is nobody special here."""
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
    call("capset", ctypes.byref(header), ctypes.byref((ctypes.c_uint32 * 6)()))


def kill_others() -> None:
    """Every other process of this sandbox gets SIGKILL. Landlock keeps signals inside, which is made sure of first."""
    if landlock.version() < landlock.SIGNALS:
        return
    try:
        os.kill(os.getppid(), 0)
    except PermissionError:  # the worker is out of reach, and so is everybody else outside
        with suppress(ProcessLookupError, PermissionError):
            os.kill(-1, signal.SIGKILL)


def end_programs() -> None:
    """Whatever a job has started and left is ended with it, and those that have ended are waited for.

    A program that left its parent is a child of this process, which adopts it, and would stay in the table for ever.
    """
    with suppress(ChildProcessError):
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)  # which raises when there is nobody
        kill_others()
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def explanation(sandbox: Sandbox, error: BaseException | None) -> str:
    """Return what the sandbox allows, when an error looks as if that were too little; else nothing."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
            return f"its sandbox allows {sandbox.memory >> 20} MB"
        if isinstance(error, OSError) and error.errno in (errno.EPERM, errno.EACCES, socket.EAI_AGAIN):
            return f"its sandbox allows only {_allowed(sandbox)}"
        if isinstance(error, OSError) and error.errno == errno.EMFILE:
            return f"its sandbox allows {sandbox.open_files} open files"
        error = error.__cause__ if error.__cause__ is not None else error.__context__
    return ""


def _allowed(sandbox: Sandbox) -> str:
    given = {name: list(getattr(sandbox, name)) for name in ("read", "write", "connect")}
    words = [f"{name}={value}" for name, value in given.items() if value]
    words += ["subprocess=True"] if sandbox.subprocess else []
    return " and ".join([", ".join(words)] * bool(words) + ["what Python itself needs"])
