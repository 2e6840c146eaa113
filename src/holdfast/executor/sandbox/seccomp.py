"""seccomp: system calls that a sandbox does not have, as a filter of classic BPF that we assemble ourselves."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Sequence

from .syscall import AUDIT_ARCH, NEWEST, X86_64, call, number

LOAD, EQUAL, AT_LEAST, ANY_BIT, MASK, RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
ALLOW, KILL_PROCESS, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
DENY = ERRNO | errno.EPERM
ABSENT = ERRNO | errno.ENOSYS
X32 = 0x40000000
NR, ARCH, ARGS = 0, 4, 16
CLONE_THREAD, CLONE_NEW, CLONE_PARENT = 0x00010000, 0x7E020080, 0x00008000
AF_UNIX, AF_INET, AF_INET6 = 1, 2, 10
STREAM, KIND = 1, 0xF
TCP = 6
MSG_FASTOPEN = 0x20000000
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
F_SETOWN, F_SETSIG, F_SETOWN_EX, F_SETLEASE = 8, 10, 15, 1024
TCGETS, TCGETS2, TIOCGPGRP, TIOCOUTQ, TIOCGWINSZ = 0x5401, 0x802C542A, 0x540F, 0x5411, 0x5413
FIONREAD, FIONBIO, FIONCLEX, FIOCLEX, FIGETBSZ = 0x541B, 0x5421, 0x5450, 0x5451, 2
CLONE_FILE, CLONE_RANGE, EXTENTS, GET_FLAGS = 0x40049409, 0x4020940D, 0xC020660B, 0x80086601
SET_ID = 0o6000
"""A file with one of these bits lends its owner's or group's rights to whoever starts it."""
O_CREAT, O_TMPFILE = 0o100, 0o20000000
SIGNALLING = (F_SETOWN, F_SETSIG, F_SETOWN_EX, F_SETLEASE)
"""With which a descriptor signals its owner, or keeps others from a file."""
CONTROLS = (
    TCGETS, TCGETS2, TIOCGPGRP, TIOCOUTQ, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX, FIGETBSZ, CLONE_FILE,
    CLONE_RANGE, EXTENTS, GET_FLAGS,
)  # fmt: skip
"""All that is left of `ioctl`: file systems have calls of their own, with which an owner may change a file that is open
to be read, or even make others beside it."""

NEVER = (
    "acct", "add_key", "adjtimex", "bind", "bpf", "chmod", "chown", "chroot", "clock_adjtime", "clock_settime",
    "delete_module", "fanotify_init", "fchmod", "fchmodat", "fchmodat2", "fchown", "fchownat", "finit_module",
    "fremovexattr", "fsconfig", "fsetxattr", "fsmount", "fsopen", "fspick", "futimesat", "init_module",
    "inotify_add_watch", "io_uring_enter", "io_uring_register", "io_uring_setup", "ioperm", "iopl", "ioprio_set",
    "kcmp", "kexec_file_load", "kexec_load", "keyctl", "lchown", "listen", "listmount", "lookup_dcookie",
    "lremovexattr", "lsetxattr", "memfd_create", "memfd_secret", "migrate_pages", "modify_ldt", "mount",
    "mount_setattr", "move_mount", "move_pages", "mq_open", "mq_unlink", "msgctl", "msgget", "msgrcv", "msgsnd",
    "name_to_handle_at", "nfsservctl", "open_by_handle_at", "open_tree", "perf_event_open", "personality",
    "pidfd_getfd", "pidfd_open", "pidfd_send_signal", "pivot_root", "process_madvise", "process_mrelease",
    "process_vm_readv", "process_vm_writev", "ptrace", "quotactl", "quotactl_fd", "reboot", "removexattr",
    "request_key", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "sched_setattr", "sched_setparam", "sched_setscheduler",
    "semctl", "semget", "semop", "semtimedop", "setdomainname", "sethostname", "setns", "setpriority", "setrlimit",
    "settimeofday", "setxattr", "shmat", "shmctl", "shmget", "statmount", "swapoff", "swapon", "syslog", "umount2",
    "unshare", "uselib", "userfaultfd", "utime", "utimensat", "utimes", "vhangup",
)  # fmt: skip
NO_PROGRAMS = ("execve", "execveat", "fork", "tkill", "vfork")
"""Not there either, where no other program may be started."""

Step = tuple[int, int, int, int]
"""An instruction: code, how many to skip when true, how many when false, and its number."""


def install(*, connect: bool, subprocess: bool) -> None:
    """The filter holds for this thread and all that comes of it, for ever. Needs `no_new_privs`."""
    steps = assemble(connect=connect, subprocess=subprocess, pid=os.getpid())
    code = b"".join(struct.pack("HBBI", *step) for step in steps)
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("HxxxxxxP", len(steps), ctypes.addressof(buffer))
    call("seccomp", 1, 0, ctypes.create_string_buffer(program, len(program)))


def assemble(*, connect: bool, subprocess: bool, pid: int) -> list[Step]:
    """Return the filter. Each rule but the last looks at one system call, and ends there if it is that one."""
    machine = platform.machine()
    steps: list[Step] = [
        (LOAD, 0, 0, ARCH), (EQUAL, 1, 0, AUDIT_ARCH[machine]), (RETURN, 0, 0, KILL_PROCESS), (LOAD, 0, 0, NR),
    ]  # fmt: skip
    if machine == X86_64:
        steps += [(AT_LEAST, 0, 1, X32), (RETURN, 0, 0, DENY)]
    steps += [(AT_LEAST, 0, 1, NEWEST + 1), (RETURN, 0, 0, ABSENT)]
    for name in NEVER if subprocess else (*NEVER, *NO_PROGRAMS):
        steps += _rule(name, [(RETURN, 0, 0, DENY)])
    steps += _rule("clone3", [(RETURN, 0, 0, ABSENT)])  # its flags are in memory, where no filter can look
    steps += _rule("clone", _unless_bits(0, CLONE_NEW | CLONE_PARENT) if subprocess else _if_bits(0, CLONE_THREAD))
    steps += _new_files()
    steps += _sockets(connect)
    if not subprocess:
        for name in ("kill", "tgkill"):
            steps += _rule(name, _if_one_of(0, [pid]))
    steps += _rule("sched_setaffinity", _if_one_of(0, [0, pid]))
    steps += _rule("prlimit64", [*_else_deny(0, [0, pid]), *_if_null(2)])
    steps += _rule("prctl", _unless_one_of(0, [PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER]))
    steps += _rule("fcntl", _unless_one_of(1, SIGNALLING))
    steps += _rule("ioctl", _if_one_of(1, CONTROLS))
    return [*steps, (RETURN, 0, 0, ALLOW)]


def _new_files() -> list[Step]:
    """Those that are made get no bits of `SET_ID`: outside, they would be more than a file of this user."""
    steps = _rule("openat2", [(RETURN, 0, 0, ABSENT)])  # its mode is in memory; whoever finds it absent takes openat
    for name, flags, mode in (("open", 1, 2), ("openat", 2, 3)):
        steps += _rule(name, [*_or_allow(flags, O_CREAT | O_TMPFILE), *_unless_bits(mode, SET_ID)])
    for name, mode in (("creat", 1), ("mknod", 1), ("mknodat", 2)):
        steps += _rule(name, _unless_bits(mode, SET_ID))
    return steps


def _sockets(connect: bool) -> list[Step]:
    """TCP alone, and pairs; a datagram would need no connection, and so nobody's leave."""
    internet = [*_else_deny(0, [AF_INET, AF_INET6]), *_else_deny(1, [STREAM], KIND), *_if_one_of(2, [0, TCP])]
    steps = _rule("socket", internet if connect else [(RETURN, 0, 0, DENY)])
    steps += _rule("socketpair", [*_else_deny(0, [AF_UNIX]), *_if_one_of(1, [STREAM], KIND)])
    for name, argument in (("sendto", 3), ("sendmsg", 2), ("sendmmsg", 3)):  # which can connect, too
        steps += _rule(name, _unless_bits(argument, MSG_FASTOPEN))
    return steps


def _rule(name: str, body: Sequence[Step]) -> list[Step]:
    this = number(name)
    return [] if this is None else [(EQUAL, 0, len(body), this), *body]


def _low(argument: int) -> Step:
    return LOAD, 0, 0, ARGS + 8 * argument


def _else_deny(argument: int, values: Sequence[int], mask: int | None = None) -> list[Step]:
    """Go on when the argument is one of these, and refuse the call otherwise."""
    steps = [_low(argument)] + ([(MASK, 0, 0, mask)] if mask is not None else [])
    left = len(values)
    return [*steps, *((EQUAL, left - at, 0, value) for at, value in enumerate(values)), (RETURN, 0, 0, DENY)]


def _if_one_of(argument: int, values: Sequence[int], mask: int | None = None) -> list[Step]:
    return [*_else_deny(argument, values, mask), (RETURN, 0, 0, ALLOW)]


def _unless_one_of(argument: int, values: Sequence[int]) -> list[Step]:
    left = len(values)
    checks: list[Step] = [(EQUAL, left - at, 0, value) for at, value in enumerate(values)]
    return [_low(argument), *checks, (RETURN, 0, 0, ALLOW), (RETURN, 0, 0, DENY)]


def _if_bits(argument: int, bits: int) -> list[Step]:
    return [_low(argument), (ANY_BIT, 0, 1, bits), (RETURN, 0, 0, ALLOW), (RETURN, 0, 0, DENY)]


def _unless_bits(argument: int, bits: int) -> list[Step]:
    return [_low(argument), (ANY_BIT, 0, 1, bits), (RETURN, 0, 0, DENY), (RETURN, 0, 0, ALLOW)]


def _or_allow(argument: int, bits: int) -> list[Step]:
    """Go on when the argument has one of these bits, and allow the call otherwise."""
    return [_low(argument), (ANY_BIT, 1, 0, bits), (RETURN, 0, 0, ALLOW)]


def _if_null(argument: int) -> list[Step]:
    high: Step = (LOAD, 0, 0, ARGS + 8 * argument + 4)
    return [
        _low(argument), (EQUAL, 0, 3, 0), high, (EQUAL, 0, 1, 0), (RETURN, 0, 0, ALLOW), (RETURN, 0, 0, DENY),
    ]  # fmt: skip
