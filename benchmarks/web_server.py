"""A server for `benchmarks.web`, and the browsers that look at it, each in a process of its own."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import httpx


def processor_seconds(pid: int) -> float:
    """Return the processor time that a process has taken so far."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def server(url: str) -> Iterator[tuple[str, int]]:
    """`holdfast serve` runs; yield its address and the id of its process."""
    words = [sys.executable, "-m", "holdfast", "serve", "--url", url, "--port", "0", "--json"]
    with _ended(subprocess.Popen(words, stdout=subprocess.PIPE, text=True)) as process:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["address"].rstrip("/"), process.pid


def caught_up(address: str) -> None:
    """Return once the server has read what lies in the log already."""
    with httpx.Client(base_url=address) as client:
        while True:
            state = client.get("/api/v1/recent").json()["state"]
            if state["polls"] > 1 and not state["behind"]:
                return
            time.sleep(0.1)


@contextmanager
def browsers(address: str, path: str, count: int) -> Iterator[int]:
    """So many streams are open, and read; yield the id of the process that reads them."""
    words = [sys.executable, "-m", "benchmarks.web_server", address + path, str(count)]
    with _ended(subprocess.Popen(words, stdout=subprocess.PIPE, text=True)) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "open"
        yield process.pid


@contextmanager
def _ended(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    try:
        yield process
    finally:
        process.terminate()
        process.wait(20)


class Reading(asyncio.Protocol):
    """Reads a stream, and does nothing with it."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self.begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if not self.begun.done():
            self.begun.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        self.lost.set_result(None)


async def look(address: str, count: int) -> None:
    """Open the streams, say so, and read them until this process is ended."""
    place = urlsplit(address)
    target = place.path + (f"?{place.query}" if place.query else "")
    request = f"GET {target} HTTP/1.1\r\nHost: {place.netloc}\r\nAccept: text/event-stream\r\n\r\n".encode()
    loop, open = asyncio.get_running_loop(), list[Reading]()
    for _ in range(count):
        _, made = await loop.create_connection(lambda: Reading(request), place.hostname, place.port)
        open.append(made)
    await asyncio.gather(*(each.begun for each in open))
    print("open", flush=True)
    await asyncio.wait([each.lost for each in open], return_when=asyncio.FIRST_COMPLETED)
    print("lost: the server ended a stream", file=sys.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address")
    parser.add_argument("count", type=int)
    given = parser.parse_args()
    asyncio.run(look(given.address, given.count))
