"""Landlock: which files may be read and written, and which TCP ports connected to."""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Iterable

from .syscall import call

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = (1 << bit for bit in range(4))
TRUNCATE, IOCTL_DEV = 1 << 14, 1 << 15
CONNECT_TCP = 1 << 1
BOTH_TCP = 0b11
SCOPES = 0b11
"""Abstract sockets, and signals."""
READ = READ_FILE | READ_DIR
_SINCE_FIRST = (1 << 13) - 1
_OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
_VERSION = 1
_PATH, _PORT = 1, 2

FILES, PORTS, SIGNALS = 3, 4, 6
"""The versions of Landlock (Linux 6.2, 6.7, 6.12) since which all of this can be ruled."""


class _Ruleset(ctypes.Structure):
    _fields_ = (("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _Beneath(ctypes.Structure):
    """Packed in the kernel's header; its fields lie the same without `_pack_`, of which Python 3.14 warns."""

    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


class _Port(ctypes.Structure):
    _fields_ = (("allowed", ctypes.c_uint64), ("port", ctypes.c_uint64))


def version() -> int:
    """Return the version of Landlock that the kernel has, 0 for none."""
    try:
        return call("landlock_create_ruleset", None, 0, _VERSION)
    except OSError:
        return 0


class LandlockRules:
    """What will be allowed; everything else of its kind is refused once `enforce` was called."""

    def __init__(self) -> None:
        self._version = version()
        self._files = _SINCE_FIRST
        for since, right in ((2, 1 << 13), (3, TRUNCATE), (5, IOCTL_DEV)):
            self._files |= right if self._version >= since else 0
        ruleset = _Ruleset(self._files, BOTH_TCP if self._version >= PORTS else 0)
        ruleset.scoped = SCOPES if self._version >= SIGNALS else 0
        size = 24 if self._version >= SIGNALS else 16 if self._version >= PORTS else 8
        self._fd = call("landlock_create_ruleset", ctypes.byref(ruleset), size, 0)

    @property
    def everything(self) -> int:
        """All rights to files that this kernel knows."""
        return self._files

    def allow(self, paths: Iterable[str], rights: int) -> None:
        """These files, and all beneath these folders, can be used so. A path that is not there raises."""
        for path in paths:
            fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
            try:
                given = rights if stat.S_ISDIR(os.fstat(fd).st_mode) else rights & _OF_FILES
                rule = _Beneath(given & self._files, fd)
                call("landlock_add_rule", self._fd, _PATH, ctypes.byref(rule), 0)
            finally:
                os.close(fd)

    def allow_ports(self, ports: Iterable[int]) -> None:
        """These TCP ports can be connected to."""
        for port in ports:
            call("landlock_add_rule", self._fd, _PORT, ctypes.byref(_Port(CONNECT_TCP, port)), 0)

    def enforce(self) -> None:
        """The rules hold for this thread and all that comes of it, for ever. Needs `no_new_privs`."""
        call("landlock_restrict_self", self._fd, 0)
        os.close(self._fd)
