"""Faults of processes: each does its harm, and undoes it where it can be undone."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .field import Field

SPARE_MEMORY = 4 << 20


async def kill_worker(field: Field) -> None:
    """A worker is killed, and its handlers with it."""
    if worker := field.one("worker"):
        worker.signal(signal.SIGKILL)


async def stop_worker(field: Field) -> None:
    """A worker is told to end, as in a deploy; at times twice."""
    if worker := field.one("worker"):
        worker.signal(signal.SIGTERM)
        if field.rng.random() < 0.3:
            await field.wait(0.1, 0.5)
            worker.signal(signal.SIGTERM)


async def freeze_worker(field: Field) -> None:
    """A worker stands still for longer than its lease, and goes on as if nothing had been."""
    if worker := field.one("worker"):
        worker.signal(signal.SIGSTOP)
        try:
            await field.wait(1.2, 3.0)
        finally:
            worker.signal(signal.SIGCONT)


async def kill_child(field: Field) -> None:
    """A process of a worker's pool is killed."""
    worker = field.one("worker")
    if worker and (children := worker.children()):
        with suppress(ProcessLookupError):
            os.kill(field.rng.choice(children), signal.SIGKILL)


async def kill_producer(field: Field) -> None:
    """A producer is killed, perhaps between an enqueue and its answer."""
    if producer := field.one("producer"):
        producer.signal(signal.SIGKILL)


async def descriptors(field: Field) -> None:
    """A worker can open nothing more: no connection, no process, no file."""
    if worker := field.one("worker"):
        with suppress(OSError):
            opened = len(os.listdir(f"/proc/{worker.pid}/fd"))
            with _limited(worker.pid, resource.RLIMIT_NOFILE, opened):
                await field.wait(1.0, 3.0)


async def memory(field: Field) -> None:
    """A worker, or a process of its pool, gets no more memory."""
    worker = field.one("worker")
    if worker is None:
        return
    pid = field.rng.choice([worker.pid, *worker.children()])
    with suppress(OSError, ValueError), _limited(pid, resource.RLIMIT_AS, _size(pid) + SPARE_MEMORY):
        await field.wait(0.5, 1.5)


def _size(pid: int) -> int:
    """Return the bytes of address space that a process has."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * resource.getpagesize()


def _born(pid: int) -> str:
    """Return when a process was started, which no other with its number was."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]


@contextmanager
def _limited(pid: int, which: int, soft: int) -> Iterator[None]:
    """The process has a limit meanwhile; afterwards its own again, if it is still there."""
    born, before = _born(pid), resource.prlimit(pid, which)
    resource.prlimit(pid, which, (soft, before[1]))
    try:
        yield
    finally:
        with suppress(OSError):
            if _born(pid) == born:  # else its number is somebody else's by now
                resource.prlimit(pid, which, before)


FAULTS = (kill_worker, stop_worker, freeze_worker, kill_child, kill_producer, descriptors, memory)
