"""What processes cost: dispatch and back, CPU-bound jobs on one and two, and how long a first start takes.

python -m benchmarks.executor
"""

from __future__ import annotations

import asyncio
import multiprocessing
import statistics
import threading
import time
from multiprocessing.connection import Connection
from queue import SimpleQueue

from holdfast import Holdfast, Sandbox
from holdfast.core.policy import Counters
from holdfast.core.transition import Reply
from holdfast.executor import PoolOptions, ProcessPool
from holdfast.executor.import_path import handler_path
from holdfast.executor.process.job import ProcessJob
from holdfast.executor.process.units import UnitNeed
from holdfast.store.contract import Claimed, Lease

app = Holdfast("memory://")
BOX = Sandbox()


@app.task(executor="process")
async def nothing(number: int) -> int:
    return number


@app.task(executor="process")
def nothing_in_thread(number: int) -> int:
    return number


@app.task(executor="sandbox", sandbox=BOX)
async def nothing_in_sandbox(number: int) -> int:
    return number


@app.task(executor="process")
def compute(milliseconds: int) -> int:
    """Use so much processor time."""
    until, count = time.thread_time() + milliseconds / 1000, 0
    while time.thread_time() < until:
        count += 1
    return count


async def no_report(*_: object) -> Reply:
    """Nobody asks."""
    return Reply.OK


async def nobody(*_: object) -> list[object]:
    """No job waited for another."""
    return []


def order(task, argument: int) -> ProcessJob:
    """Return a job for a process, with no store."""
    claimed = Claimed(
        lease=Lease("q", "a", 1, 1), task=task.name, payload=task.signature.encode((argument,), {}, task.codec),
        priority=0, key=None, run_at_ms=0, enqueued_at_ms=0, claimed_at_ms=0, counters=Counters(), headers={},
    )  # fmt: skip
    path = handler_path(task)
    return ProcessJob(handler=path, claimed=claimed, report=no_report, blockers=nobody, began=lambda: None)


async def run(pool: ProcessPool, task, argument: int) -> None:
    """One job has been there and back."""
    seat = pool.reserve(UnitNeed(task.size, task.setting("sandbox")))
    assert seat is not None
    await pool.run(seat, order(task, argument))
    pool.vacate(seat)


async def dispatch(task, count: int = 1000, *, expected: bool = False) -> tuple[float, float, float]:
    """Return the first start in ms, and the median and 95th percentile of the others in µs."""
    pool = ProcessPool(PoolOptions(count=1), (), lambda: None)
    times = []
    if expected:  # as a worker does, when it starts
        pool.expect([task.setting("sandbox")])
        await asyncio.sleep(1)
    for _ in range(count):
        began = time.perf_counter()
        await run(pool, task, 1)
        times.append(time.perf_counter() - began)
    await pool.close()
    first, *others = times
    return first * 1000, statistics.median(others) * 1e6, statistics.quantiles(others, n=20)[-1] * 1e6


async def computing(processes: int, jobs: int = 40) -> float:
    """Return CPU-bound jobs of 50 ms per second, by so many processes."""
    pool = ProcessPool(PoolOptions(count=processes), (), lambda: None)
    await asyncio.gather(*(run(pool, compute, 1) for _ in range(processes)))  # started and warm
    waiting = iter(range(jobs))

    async def lane() -> None:
        for _ in waiting:
            await run(pool, compute, 50)

    began = time.perf_counter()
    await asyncio.gather(*(lane() for _ in range(processes)))
    taken = time.perf_counter() - began
    await pool.close()
    return jobs / taken


def bare(in_thread: bool, count: int = 1000) -> float:
    """Return what 200 bytes there and back cost in µs, by a pipe to a process, and perhaps a thread of it."""
    spawning = multiprocessing.get_context("spawn")
    here, there = spawning.Pipe()
    process = spawning.Process(target=_echo, args=(there, in_thread), daemon=True)
    process.start()
    times = []
    for _ in range(count):
        began = time.perf_counter()
        here.send_bytes(bytes(200))
        here.recv_bytes()
        times.append(time.perf_counter() - began)
    process.kill()
    process.join()
    return statistics.median(times) * 1e6


def _echo(line: Connection, in_thread: bool) -> None:
    given: SimpleQueue[bytes] = SimpleQueue()
    done: SimpleQueue[bytes] = SimpleQueue()

    def pass_on() -> None:
        while True:
            done.put(given.get())

    if in_thread:
        threading.Thread(target=pass_on, daemon=True).start()
    while True:
        data = line.recv_bytes()
        if in_thread:
            given.put(data)
            data = done.get()
        line.send_bytes(data)


async def main() -> None:
    """Print the figures."""
    print(f"floor: a bare pipe to a process and back {bare(False):.0f} µs, with a thread there {bare(True):.0f} µs")
    for task in (nothing, nothing_in_thread, nothing_in_sandbox):
        first, median, high = await dispatch(task)
        print(f"{task.name:20} first start {first:6.0f} ms   there and back {median:5.0f} µs, 95 % {high:5.0f} µs")
    first, *_ = await dispatch(nothing_in_sandbox, 10, expected=True)
    print(f"{nothing_in_sandbox.name:20} first start {first:6.0f} ms   from the spare of a worker that runs")
    one, two = await computing(1), await computing(2)
    print(f"jobs of 50 ms: {one:.1f} a second by one process, {two:.1f} by two: {two / one:.2f} times")


if __name__ == "__main__":
    from benchmarks import executor  # by its own name, as processes import it

    asyncio.run(executor.main())
