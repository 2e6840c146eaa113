"""`map` beside `mapInPandas`: `python -m benchmarks.map [--rows 20000] [--store redis|sqlite|postgres] [--slots 25]`.

Both send each row of one DataFrame to the same HTTP API, on this machine, with the same client and as many calls at
once, in turn, in one run; the ratio is the median over the rounds. On a busy machine compare the processor time, that
of Spark, its Python, the store's server and the API together. Then once more each, while the API refuses each
hundredth row the first time: `mapInPandas` ends with its first failure, and `map` with a result for every row.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import multiprocessing
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.processor import below, children, processes, processor_time
from benchmarks.sink import addresses

APP = """
import httpx
from holdfast import Holdfast, Retry
app = Holdfast({url!r})
client = None

@app.task(queue="api", retry=Retry(failures=5, initial=0.05))
async def ask(number: int) -> int:
    global client
    client = client or httpx.AsyncClient(base_url={api!r}, timeout=60, limits=httpx.Limits(max_connections={slots}))
    answer = await client.get(f"/{{number}}")
    answer.raise_for_status()
    return int(answer.text)
"""
EVERY = 100
"""While the API fails, each hundredth number is refused once."""


class Api:
    """An HTTP API in a process of its own that answers a number with its double, after a while."""

    def __init__(self, seconds: float) -> None:
        here = multiprocessing.get_context("spawn")
        self.calls, self.failing, ports = here.Value("q", 0), here.Value("b", 0), here.Queue()
        here.Process(target=serve, args=(seconds, self.calls, self.failing, ports), daemon=True).start()
        self.url = f"http://127.0.0.1:{ports.get()}"


def serve(seconds: float, calls: Any, failing: Any, ports: Any) -> None:
    """Serve for good. Each hundredth number is refused once, while it is failing."""
    refused: set[int] = set()

    def answer(number: int) -> bytes:
        calls.value += 1
        if not failing.value:
            refused.clear()
        elif number % EVERY == 7 and number not in refused:
            refused.add(number)
            return b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"
        body = str(number * 2).encode()
        return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                request = await reader.readuntil(b"\r\n\r\n")
                await asyncio.sleep(seconds)
                writer.write(answer(int(request.split(b" ", 2)[1][1:])))
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(connected, "127.0.0.1", 0, backlog=1000)
        ports.put(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(main())


def asking(api: str, slots: int) -> Any:
    """Return the function that `mapInPandas` calls in each partition."""

    def ask(frames: Iterator[Any]) -> Iterator[Any]:
        import httpx

        async def answers(numbers: list[int]) -> list[int]:
            limits = httpx.Limits(max_connections=slots)
            async with httpx.AsyncClient(base_url=api, timeout=60, limits=limits) as client:
                free = asyncio.Semaphore(slots)

                async def one(number: int) -> int:
                    async with free:
                        answer = await client.get(f"/{number}")
                        answer.raise_for_status()
                        return int(answer.text)

                return await asyncio.gather(*[one(number) for number in numbers])

        for frame in frames:
            yield frame.assign(result=asyncio.run(answers(frame["number"].tolist())))

    return ask


class Watch(threading.Thread):
    """The processor time of this process and of all below it, by what they are.

    Spark's daemon waits for none of its Python processes, so that the kernel forgets those that have ended: they are
    looked at often.
    """

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._daemons = set[int]()
        self._executors: dict[int, float] = {}
        self.start()

    def run(self) -> None:
        for number in itertools.count():
            if number % 10 == 0:
                self._find()
            self._look()
            time.sleep(0.1)

    def _find(self) -> None:
        """Find Spark's daemons, the Python processes that the JVM has started."""
        running = list(processes())
        jvms = {each.pid for each in running if each.parent == os.getpid() and name_of(each.pid) == "java"}
        self._daemons = {each.pid for each in running if each.parent in jvms}

    def _look(self) -> None:
        """Note what the daemons and their processes took so far."""
        workers = [pid for daemon in self._daemons for pid in children(daemon)]
        self._executors.update({pid: processor_time(pid) for pid in (*self._daemons, *workers)})

    def seconds(self) -> dict[str, float]:
        """Return the time of each part until now."""
        self._find()
        self._look()
        own = os.times()
        found = {"driver": own.user + own.system, "executors": sum(self._executors.values())}
        for pid in set(below(os.getpid())) - self._executors.keys():
            name = name_of(pid)
            part = "JVM" if name == "java" else "API" if name.startswith("python") else "store"
            found[part] = found.get(part, 0.0) + processor_time(pid)
        return found


def name_of(pid: int) -> str:
    """Return the name of a process; nothing where it has ended."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


@dataclass
class Taken:
    """The seconds that one way took, of the clock and of processors."""

    wall: float = 0.0
    processor: dict[str, float] = field(default_factory=dict)

    def told(self, rows: int) -> str:
        """Return rows a second, and the processor time of a row, in all and where it went."""
        each = {name: 1000 * seconds / rows for name, seconds in self.processor.items()}
        where = ", ".join(f"{name} {ms:.2f}" for name, ms in each.items() if ms >= 0.005)
        return f"{rows / self.wall:,.0f} rows/s, {sum(each.values()):.2f} ms of processor a row ({where})"


@cache
def _watch() -> Watch:
    return Watch()


@contextlib.contextmanager
def taken() -> Iterator[Taken]:
    """Yield what is filled in when the block has ended."""
    found, watch = Taken(), _watch()
    began, used = time.perf_counter(), watch.seconds()
    yield found
    found.wall = time.perf_counter() - began
    found.processor = {name: seconds - used.get(name, 0.0) for name, seconds in watch.seconds().items()}


def plain(frame: Any, api: Api, slots: int) -> Taken:
    """Return what `mapInPandas` takes."""
    with taken() as took:
        found = frame.mapInPandas(asking(api.url, slots), "number long, result long")
        assert found.where("result = number * 2").count() == frame.count()
    return took


def queued(frame: Any, api: Api, slots: int, url: str, file: Path) -> Taken:
    """Return what `map` takes, with two workers on the same Spark, until all results are read."""
    import importlib.util

    from holdfast.spark import map

    file.write_text(APP.format(url=url, api=api.url, slots=slots))
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[file.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with taken() as took:
        found = map(frame, module.ask, name="bench", app=f"{file}:app", workers=2, slots=slots)
        assert found.where("result = number * 2").count() == frame.count()
    return took


def failing(frame: Any, api: Api, slots: int, url: str, file: Path) -> None:
    """Show what becomes of both when one call in a hundred fails."""
    api.failing.value, api.calls.value = 1, 0
    try:
        plain(frame, api, slots)
        print("mapInPandas, 1 % fails: finished")
    except Exception as error:
        told = next((line for line in str(error).splitlines() if "HTTPStatusError" in line), type(error).__name__)
        print(f"mapInPandas, 1 % fails: ended after {api.calls.value:,} calls, with no result: {told.strip()[:80]}")
    api.calls.value = 0
    seconds = queued(frame, api, slots, url, file).wall
    print(f"map, 1 % fails: every row has its result after {api.calls.value:,} calls, {seconds:.1f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--slots", type=int, default=25, help="calls at once of each of the two workers or partitions")
    parser.add_argument("--latency", type=float, default=0.02, help="seconds that the API takes for an answer")
    parser.add_argument("--store", choices=["sqlite", "redis", "postgres"], default="redis")
    given = parser.parse_args()
    from holdfast.spark import session

    spark = session("local[2]")
    api, ratios = Api(given.latency), []
    with tempfile.TemporaryDirectory(prefix="holdfast-map-") as name:
        folder, urls = Path(name), addresses(given.store, Path(name))
        few = spark.range(200, numPartitions=2).withColumnRenamed("id", "number")
        rows = spark.range(given.rows, numPartitions=2).withColumnRenamed("id", "number")
        plain(few, api, given.slots)
        queued(few, api, given.slots, next(urls), folder / "map_app_0.py")
        for number in range(1, given.rounds + 1):
            before = plain(rows, api, given.slots)
            ours = queued(rows, api, given.slots, next(urls), folder / f"map_app_{number}.py")
            ratios.append(before.wall / ours.wall)
            print(f"{given.store}: mapInPandas {before.told(given.rows)}", flush=True)
            print(f"{given.store}: map {ours.told(given.rows)}; ratio {ratios[-1]:.2f}", flush=True)
        print(f"{given.store}: map has {statistics.median(ratios):.2f} of mapInPandas' speed (target: 0.9)", flush=True)
        failing(rows, api, given.slots, next(urls), folder / "map_app_failing.py")
    spark.stop()


if __name__ == "__main__":
    main()
