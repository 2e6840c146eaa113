"""The handlers of the sandbox tests: attacks, each of which must fail, and honest work, which must not.

What a sandbox may do is part of the task, so the places come from the environment of the test.
"""

from __future__ import annotations

import asyncio
import ctypes
import fcntl
import logging
import mmap
import os
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast import Holdfast, Job, Retry, Sandbox
from holdfast.core.job import ErrorRecord
from holdfast.executor.process import frames
from holdfast.executor.sandbox.syscall import call

ONCE = Retry(failures=1, stalls=1, timeouts=1)
FOLDER = os.environ.get("HOLDFAST_TEST_FOLDER", "/nowhere")
app = Holdfast(os.environ.get("HOLDFAST_TEST_URL", "memory://sandbox"))

CLOSED = Sandbox(memory=256 << 20, open_files=32)
OPEN = Sandbox(
    read=[f"{FOLDER}/in"], write=[f"{FOLDER}/out"], connect=[int(os.environ.get("HOLDFAST_TEST_PORT", "1"))],
    env=["HOLDFAST_TEST_COLOUR"], cpu_seconds=1,
)  # fmt: skip
PROGRAMS = Sandbox(read=["/bin", "/usr/bin"], subprocess=True, processes=20)
DAEMONS = Sandbox(read=["/bin", "/usr/bin"], write=[f"{FOLDER}/out"], subprocess=True)
CLONE_PARENT = 0x8000


def fork_bomb() -> None:
    for _ in range(1000):
        if os.fork() == 0:
            signal.pause()


def eat_memory() -> None:
    eaten = []
    while True:
        eaten.append(bytearray(16 << 20))


def eat_shared_memory() -> None:
    eaten = []
    while True:
        eaten.append(mmap.mmap(-1, 16 << 20))
        eaten[-1].write(b"x" * (16 << 20))


def datagram_by_a_pair() -> None:
    socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b"x", "/dev/log")


def more_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def open_too_many() -> None:
    kept = [open("/dev/null") for _ in range(100)]  # noqa: SIM115
    raise AssertionError(f"{len(kept)} files are open")


def look_for_descriptors() -> None:
    """Whatever was inherited must be ours: pipes, sockets of the pair, /dev/null and the deadline."""
    for fd in range(3, 100):
        try:
            os.fstat(fd)
        except OSError:
            continue
        try:
            family = socket.socket(fileno=os.dup(fd)).family
        except OSError:
            continue
        assert family == socket.AF_UNIX, f"descriptor {fd} is a socket of {family!r}"
    raise PermissionError(1, "nothing of the worker's was inherited")


def change_the_deadline() -> None:
    for fd in range(3, 20):
        try:
            os.pwrite(fd, struct.pack("d", 1e12), 0)
        except OSError:
            continue
        raise AssertionError(f"descriptor {fd} can be written at a place")
    raise PermissionError(1, "no descriptor is a file that can be written")


def signal_by_a_descriptor(worker: int) -> None:
    ours, theirs = socket.socketpair()
    fcntl.fcntl(ours, fcntl.F_SETOWN, worker)
    fcntl.fcntl(ours, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    theirs.send(b"x")


def escape_by_a_link(at: dict[str, str]) -> None:
    """The folder may be written, and what a link in it leads to may not."""
    link = Path(at["folder"], "out", "link")
    link.unlink(missing_ok=True)
    link.symlink_to(at["secret"])
    link.read_text()


def move_in(at: dict[str, str]) -> None:
    os.rename(at["secret"], os.path.join(at["folder"], "out", "moved"))


def move_out(at: dict[str, str]) -> None:
    made = Path(at["folder"], "out", "made")
    made.write_text("x")
    os.rename(made, os.path.join(at["folder"], "made"))


def change_what_it_reads() -> None:
    with open(os.__file__) as file:
        os.fchmod(file.fileno(), os.fstat(file.fileno()).st_mode)


def change_its_flags() -> None:
    with open(os.__file__) as file:
        fcntl.ioctl(file, 0x40086602, struct.pack("l", 0))


def make_a_subvolume() -> None:
    """In a folder that may be read, on a file system that has such."""
    folder = os.open(os.path.dirname(os.__file__), os.O_RDONLY)
    fcntl.ioctl(folder, 0x5000940E, bytearray(4096))


def lease_what_it_reads() -> None:
    """Whoever opens the file to write would have to wait."""
    with open(os.__file__) as file:
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)


def watch(folder: str) -> None:
    """The names of what is touched there would be told."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.inotify_add_watch(libc.inotify_init(), folder.encode(), 0xFFF) < 0:
        raise OSError(ctypes.get_errno(), "inotify_add_watch")


def by_number(number: int, path: str) -> None:
    """A call that our table has no name for, as it came later."""
    if ctypes.CDLL(None, use_errno=True).syscall(number, -100, path.encode(), 0, 0, 0, 0) < 0:
        raise OSError(ctypes.get_errno(), f"system call {number}")


def change_memory_by_file() -> None:
    with open("/proc/self/mem", "r+b", buffering=0) as memory:
        memory.read(1)


ATTACKS: dict[str, Callable[[dict[str, str]], object]] = {
    "read a secret": lambda at: Path(at["secret"]).read_text(),
    "list a folder": lambda at: os.listdir(at["folder"]),
    "write elsewhere": lambda at: Path(at["folder"], "made").write_text("x"),
    "truncate": lambda at: os.truncate(at["secret"], 0),
    "remove": lambda at: os.unlink(at["secret"]),
    "rename": lambda at: os.rename(at["secret"], at["secret"] + "2"),
    "change its mode": lambda at: os.chmod(at["secret"], 0o777),
    "change the mode of what it reads": lambda at: change_what_it_reads(),
    "change its mode, newly": lambda at: call("fchmodat2", -100, at["secret"].encode(), 0o777, 0),
    "change its owner": lambda at: os.chown(at["secret"], os.getuid(), os.getgid()),
    "change its times": lambda at: os.utime(at["secret"]),
    "change its attributes": lambda at: os.setxattr(at["secret"], "user.x", b"x"),
    "change its attributes, newly": lambda at: by_number(469, at["secret"]),
    "change its extended attributes, newly": lambda at: by_number(463, at["secret"]),
    "change the flags of what it reads": lambda at: change_its_flags(),
    "make a subvolume": lambda at: make_a_subvolume(),
    "lease what it reads": lambda at: lease_what_it_reads(),
    "watch a folder": lambda at: watch(at["folder"]),
    "watch everything": lambda at: call("fanotify_init", 0, 0),
    "link": lambda at: os.link(at["secret"], at["folder"] + "/linked"),
    "read the store's file": lambda at: Path(at["store"]).read_bytes(),
    "change its own code": lambda at: Path(__file__).write_text("x"),
    "read the worker's environment": lambda at: Path(f"/proc/{at['worker']}/environ").read_bytes(),
    "read the worker's memory": lambda at: os.open(f"/proc/{at['worker']}/mem", os.O_RDONLY),
    "reopen a descriptor of the worker": lambda at: os.open(f"/proc/{at['worker']}/fd/0", os.O_RDONLY),
    "ptrace": lambda at: call("ptrace", 16, int(at["worker"]), 0, 0),
    "process_vm_readv": lambda at: call("process_vm_readv", int(at["worker"]), 0, 0, 0, 0, 0),
    "take a descriptor": lambda at: call("pidfd_getfd", call("pidfd_open", int(at["worker"]), 0), 0, 0),
    "signal the worker": lambda at: os.kill(int(at["worker"]), signal.SIGTERM),
    "signal everybody": lambda at: os.kill(-1, 0),
    "signal the worker's thread": lambda at: call("tkill", int(at["worker"]), signal.SIGTERM),
    "queue a signal": lambda at: call("rt_sigqueueinfo", int(at["worker"]), signal.SIGTERM, 0),
    "connect": lambda at: socket.create_connection(("127.0.0.1", int(at["port"])), 1),
    "send a datagram": lambda at: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", 53)),
    "raw socket": lambda at: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1),
    "netlink": lambda at: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW),
    "unix socket": lambda at: socket.socket(socket.AF_UNIX).connect(at["unix"]),
    "take an abstract name": lambda at: socket.socketpair()[0].bind("\0holdfast-taken"),
    "abstract socket": lambda at: socket.socket(socket.AF_UNIX).connect("\0holdfast-test"),
    "datagram by a pair": lambda at: datagram_by_a_pair(),
    "fork bomb": lambda at: fork_bomb(),
    "clone3": lambda at: call("clone3", 0, 0),
    "another program": lambda at: subprocess.run(["/bin/true"], check=True),
    "exec": lambda at: os.execv(sys.executable, [sys.executable, "-c", "pass"]),
    "eat memory": lambda at: eat_memory(),
    "eat shared memory": lambda at: eat_shared_memory(),
    "file in memory": lambda at: os.memfd_create("x"),
    "more memory": lambda at: more_memory(),
    "open too many": lambda at: open_too_many(),
    "io_uring": lambda at: call("io_uring_setup", 8, ctypes.create_string_buffer(120)),
    "new namespaces": lambda at: call("unshare", 0x10000000),
    "chroot": lambda at: os.chroot("/"),
    "mount": lambda at: call("mount", b"none", b"/tmp", b"tmpfs", 0, 0),
    "keys": lambda at: call("keyctl", 0, -3, 0),
    "perf events": lambda at: call("perf_event_open", 0, 0, -1, -1, 0),
    "remove system V memory": lambda at: call("shmctl", 0, 0, 0),
    "remove system V semaphores": lambda at: call("semctl", 0, 0, 0, 0),
    "take another's message": lambda at: call("msgrcv", 0, 0, 0, 0, 0),
    "signal by a descriptor": lambda at: signal_by_a_descriptor(int(at["worker"])),
    "its own memory as a file": lambda at: change_memory_by_file(),
    "list the mounts": lambda at: call("listmount", 0, 0, 0, 0),
    "system V memory": lambda at: call("shmget", 1, 4096, 0o1666),
    "slow down the worker": lambda at: os.setpriority(os.PRIO_PROCESS, int(at["worker"]), 19),
    "bind the worker to a processor": lambda at: os.sched_setaffinity(int(at["worker"]), {0}),
    "outlive the worker": lambda at: call("prctl", 1, 0),
    "inherited descriptors": lambda at: look_for_descriptors(),
    "change the deadline": lambda at: change_the_deadline(),
}


@app.task(executor="sandbox", sandbox=CLOSED, retry=ONCE)
def attack(name: str, at: dict[str, str]) -> str:
    ATTACKS[name](at)
    return "came through"


WAYS_OUT: dict[str, Callable[[dict[str, str]], object]] = {
    "by a link": escape_by_a_link,
    "moving a secret in": move_in,
    "moving a file out": move_out,
    "linking a secret": lambda at: os.link(at["secret"], os.path.join(at["folder"], "out", "linked")),
    "a device": lambda at: os.mknod(os.path.join(at["folder"], "out", "disk"), 0o60600, os.makedev(8, 0)),
    "the folder above": lambda at: Path(at["folder"], "out", "..", "secret").read_text(),
    "replacing its folder": lambda at: os.rename(os.path.join(at["folder"], "out"), os.path.join(at["folder"], "o")),
}


O_NEW = os.O_CREAT | os.O_WRONLY
HERE = -100


def lend_by_a_nameless_file(folder: str) -> None:
    file = os.open(folder, os.O_TMPFILE | os.O_WRONLY, 0o4755)
    os.link(f"/proc/self/fd/{file}", os.path.join(folder, "nameless"), follow_symlinks=True)


def lend_later(folder: str, lend: Callable[[str, int], object]) -> None:
    path = os.path.join(folder, "later")
    os.close(os.open(path, O_NEW, 0o755))
    try:
        lend(path, 0o4755)
    finally:
        os.unlink(path)


def changed_when_open(path: str, mode: int) -> None:
    with open(path) as file:
        os.fchmod(file.fileno(), mode)


LOANS: dict[str, Callable[[str], object]] = {
    "open": lambda folder: call("open", f"{folder}/open".encode(), O_NEW, 0o4755),
    "open, for the group": lambda folder: call("open", f"{folder}/group".encode(), O_NEW, 0o2755),
    "openat": lambda folder: os.open(f"{folder}/openat", O_NEW, 0o4755),
    "openat, for the group": lambda folder: os.open(f"{folder}/openat-group", O_NEW, 0o2755),
    "openat2": lambda folder: call("openat2", HERE, f"{folder}/2".encode(), struct.pack("QQQ", O_NEW, 0o4755, 0), 24),
    "creat": lambda folder: call("creat", f"{folder}/creat".encode(), 0o4755),
    "mknod": lambda folder: call("mknod", f"{folder}/mknod".encode(), 0o104755, 0),
    "mknodat": lambda folder: os.mknod(f"{folder}/mknodat", 0o104755),
    "a pipe": lambda folder: os.mkfifo(f"{folder}/pipe", 0o4755),
    "a nameless file": lend_by_a_nameless_file,
    "chmod": lambda folder: lend_later(folder, os.chmod),
    "fchmod": lambda folder: lend_later(folder, changed_when_open),
    "fchmodat": lambda folder: lend_later(folder, lambda p, mode: call("fchmodat", HERE, p.encode(), mode)),
    "fchmodat2": lambda folder: lend_later(folder, lambda p, mode: call("fchmodat2", HERE, p.encode(), mode, 0)),
}
"""Ways to leave a file that lends its owner's rights to whoever starts it."""


@app.task(executor="sandbox", sandbox=OPEN, retry=ONCE)
def lends(name: str, folder: str) -> str:
    LOANS[name](folder)
    return "came through"


@app.task(executor="sandbox", sandbox=OPEN, retry=ONCE)
def makes_files(folder: str) -> None:
    """Whatever the third argument of `open` is, it counts only where a file is made."""
    os.close(os.open(f"{folder}/made", O_NEW, 0o750))
    os.mkfifo(f"{folder}/pipe", 0o700)
    call("openat", HERE, f"{folder}/made".encode(), os.O_RDONLY, 0o4755)


@app.task(executor="sandbox", sandbox=OPEN, retry=ONCE)
def leave(name: str, at: dict[str, str]) -> str:
    WAYS_OUT[name](at)
    return "came through"


@app.task(executor="sandbox", sandbox=CLOSED, retry=ONCE, timeout=0.5)
def takes_more_time() -> None:
    """The worker is told, again and again, that the handler only begins now: its time must not begin anew."""
    line = int(sys.argv[1])
    while select.select([], [line], [])[1]:
        os.write(line, frames.packed(frames.Began(1)))


def send(frame: bytes) -> None:
    """The worker hears what no honest process says."""
    line = socket.socket(fileno=os.dup(int(sys.argv[1])))
    line.setblocking(True)
    line.sendall(frame)
    line.detach()


@app.task(executor="sandbox", sandbox=CLOSED, retry=ONCE)
def names_loggers() -> None:
    send(frames.packed(frames.LogLine("strange." * 5000, logging.WARNING, "listen")))


@app.task(executor="sandbox", sandbox=CLOSED, retry=ONCE, max_result=1000)
def says_too_much(job: Job, what: str) -> None:
    """What no honest process says, since its own side checks it first."""
    usage, number = frames.Usage(0, 0.0), 1
    if what == "result":
        send(frames.packed(frames.Returned(number, b'"' + b"x" * 1000 + b'"', None, usage)))
    elif what == "error":
        record = ErrorRecord(type="x" * 10**5, message="x" * 10**5, traceback="x" * 10**5, fields={"x": "x" * 10**5})
        send(frames.packed(frames.Raised(number, "failure", record, None, usage)))
    elif what == "checkpoint":
        send(frames.packed(frames.ProgressReport(1, number, None, b'"' + b"x" * 100_000 + b'"')))
        app.sync(job.progress(0.5))  # which is answered after it
        return
    else:
        send(frames.LENGTH.pack(8 << 20))
    signal.pause()


@app.task(executor="sandbox", sandbox=CLOSED, retry=ONCE, max_result=1000)
def returns(size: int) -> str:
    return "x" * size


@app.task(executor="sandbox", sandbox=CLOSED, retry=ONCE)
def nests() -> None:
    """What is nested deeper than anybody can follow."""
    frame = frames.packed(frames.StartFailed(ErrorRecord(type="x", message="x", fields={"x": "here"})))[4:]
    deep = frame.replace(b"\xa4here", b"\x91" * 100_000 + b"\xc0")
    send(frames.LENGTH.pack(len(deep)) + deep)
    threading.Event().wait()


@app.task(executor="sandbox", sandbox=CLOSED, retry=ONCE)
def environment() -> dict[str, str]:
    return dict(os.environ)


@app.task(executor="sandbox", sandbox=CLOSED, retry=ONCE)
def number() -> int:
    return os.getpid()


@app.task(executor="sandbox", sandbox=OPEN, retry=ONCE)
def honest(job: Job, folder: str, port: int) -> list[str]:
    """Everything that it may do."""
    Path(folder, "out", "copy").write_text(Path(folder, "in", "data").read_text())
    with socket.create_connection(("127.0.0.1", port), 5) as connection:
        connection.sendall(b"hello")
    app.sync(job.progress(0.5))
    logging.getLogger("boxed").warning("from inside")
    return [os.environ.get("HOLDFAST_TEST_COLOUR", ""), os.environ.get("HOLDFAST_TEST_FOLDER", "unseen")]


@app.task(executor="sandbox", sandbox=CLOSED, retry=ONCE)
def goes_on(job: Job) -> Any:
    return job.continue_with(environment)


@app.task(executor="sandbox", sandbox=OPEN, retry=ONCE)
def connects_elsewhere(port: int) -> None:
    socket.create_connection(("127.0.0.1", port), 5)


@app.task(executor="sandbox", sandbox=OPEN, retry=ONCE)
def computes(heedless: bool) -> int:
    if heedless:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        ctypes.CDLL(None).signal(signal.SIGXCPU, 1)
    return sum(range(10**12))


@app.task(executor="sandbox", sandbox=OPEN, retry=ONCE)
def computes_for(seconds: float) -> int:
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass
    return os.getpid()


@app.task(executor="sandbox", sandbox=Sandbox(read=["/bin", "/usr/bin"], subprocess=True, cpu_seconds=1), retry=ONCE)
def has_it_computed() -> None:
    """Programs that end before their own second is over, one after another."""
    while True:
        subprocess.run(["/bin/sh", "-c", "i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done"], check=False)


@app.task(executor="sandbox", sandbox=CLOSED, retry=ONCE)
def starts_threads() -> None:
    threading.stack_size(32768)
    for _ in range(2000):
        threading.Thread(target=threading.Event().wait, daemon=True).start()
    threading.Event().wait()


@app.task(executor="sandbox", sandbox=CLOSED, retry=ONCE)
def returns_much(size: int) -> str:
    return "x" * size


@app.task(executor="sandbox", sandbox=Sandbox(memory=100 << 20), retry=ONCE, max_result=64 << 20)
def returns_what_it_has(size: int) -> str:
    return "x" * size


@app.task(executor="sandbox", sandbox=Sandbox(memory=1 << 30), retry=ONCE)
def returns_too_much() -> str:
    return "x" * (64 << 20)


@app.task(executor="sandbox", sandbox=CLOSED, retry=ONCE)
def asks_for_much() -> None:
    mmap.mmap(-1, 512 << 20)


@app.task(executor="sandbox", sandbox=CLOSED, retry=ONCE)
def looks_up_a_name() -> None:
    socket.getaddrinfo("localhost", 80)


@app.task(executor="sandbox", sandbox=PROGRAMS, retry=ONCE)
def starts_a_program(secret: str) -> list[str]:
    """A program is in the same sandbox."""
    answer = subprocess.run(["/bin/cat", secret], capture_output=True, text=True, check=False)
    return [subprocess.run(["/bin/echo", "hi"], capture_output=True, text=True, check=True).stdout, answer.stderr]


@app.task(executor="sandbox", sandbox=PROGRAMS, retry=ONCE)
def signals_from_a_program(pid: int) -> str:
    return subprocess.run(["/bin/sh", "-c", f"kill {pid}"], capture_output=True, text=True, check=False).stderr


@app.task(executor="sandbox", sandbox=PROGRAMS, retry=ONCE)
def explodes(doublings: int) -> None:
    for _ in range(doublings):
        os.fork()
    signal.pause()


@app.task(executor="sandbox", sandbox=PROGRAMS, retry=ONCE)
def is_born_to_the_worker() -> None:
    """A child of the worker would be nobody's to count."""
    if call("clone", CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0) == 0:
        os._exit(0)


@app.task(executor="sandbox", sandbox=DAEMONS, retry=ONCE)
def leaves_a_daemon(pidfile: str) -> None:
    """What it started goes its own way, and its process ends."""
    ours, theirs = os.pipe()
    if os.fork() == 0:
        os.setsid()
        Path(pidfile).write_text(str(os.getpid()))
        os.write(theirs, b"x")
        signal.pause()
    os.read(ours, 1)
    os._exit(3)


@app.task(executor="sandbox", sandbox=DAEMONS, retry=ONCE)
def returns_before_its_programs(pidfile: str, raises: bool) -> int:
    """One is a daemon, forked twice, and one a program that nobody waits for."""
    ours, theirs = os.pipe()
    if (child := os.fork()) == 0:
        os.setsid()
        if os.fork() == 0:
            os.write(theirs, str(os.getpid()).encode())
            signal.pause()
        os._exit(0)
    os.waitpid(child, 0)
    program = subprocess.Popen(["/bin/sleep", "1000"], start_new_session=True)
    Path(pidfile).write_text(f"{os.read(ours, 20).decode()} {program.pid}")
    if raises:
        raise ValueError
    return os.getpid()


@app.task(executor="sandbox", sandbox=DAEMONS, retry=ONCE)
def starts_and_waits(pidfile: str) -> None:
    with subprocess.Popen(["/bin/sleep", "1000"], start_new_session=True) as program:
        Path(pidfile).write_text(str(program.pid))


@app.task(executor="sandbox", sandbox=PROGRAMS, retry=ONCE)
async def explodes_afterwards(doublings: int) -> None:
    asyncio.get_running_loop().call_soon(explodes, doublings)  # when the result is on its way


@app.task(executor="sandbox", sandbox=OPEN, retry=ONCE)
def computes_afterwards() -> int:
    ctypes.CDLL(None).signal(signal.SIGXCPU, 1)
    threading.Thread(target=computes_for, args=(1000.0,), daemon=True).start()
    return os.getpid()


@app.task(executor="sandbox", sandbox=Sandbox(subprocess=True, cpu_seconds=1), retry=ONCE)
def waits_late() -> None:
    """A child has used more than half of the time, and has ended some looks of the meter ago."""
    if (pid := os.fork()) == 0:
        while time.process_time() < 0.6:
            pass
        os._exit(0)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    threading.Event().wait(0.6)
    os.waitpid(pid, 0)
    threading.Event().wait(0.6)


@app.task(executor="sandbox", sandbox=CLOSED, retry=ONCE)
async def floods(job: Job) -> int:
    """Report much more than the worker takes at a time."""
    await asyncio.gather(*(job.progress(number / 2000) for number in range(2000)))
    return 2000


@app.task(executor="sandbox", sandbox=Sandbox(open_files=1 << 40), retry=ONCE)
def wants_more_than_its_worker() -> None: ...


@app.task(executor="sandbox", sandbox=Sandbox(write=["/nowhere/at/all"]), retry=ONCE)
def lacks_its_folder() -> None: ...


@app.task(executor="sandbox", sandbox=CLOSED, retry=ONCE, timeout=0.3)
def hangs_in_the_box() -> None:
    threading.Event().wait()


@app.task(executor="sandbox", sandbox=OPEN, retry=ONCE)
def holds_the_lock(job: Job, gate: str) -> int:
    """Waits in native code that does not let go of the interpreter lock."""
    fifo = os.open(gate, os.O_RDONLY)
    ctypes.PyDLL(None).read(fifo, ctypes.create_string_buffer(1), 1)
    return job.attempt
