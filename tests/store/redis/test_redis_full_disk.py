"""A server that cannot write its append-only file: nothing is taken in, and the error says why."""

from __future__ import annotations

import asyncio
import resource
from pathlib import Path

import pytest
from servers import RedisServer, redis_binary, valkey_binary

from holdfast.errors import StoreFull
from holdfast.store.contract import NewJob
from holdfast.store.redis import RedisStore

BINARIES = [binary for binary in (valkey_binary(), redis_binary()) if binary]


@pytest.mark.parametrize("binary", BINARIES)
async def test_a_full_disk_of_the_append_only_file_is_store_full(binary: str, tmp_path: Path) -> None:
    """The kernel lets the server write no longer file, as on a full disk; then it lets it again."""
    program = tmp_path / "server"
    program.write_text(
        f"#!/bin/sh\ntrap '' XFSZ\nexec {binary} \"$@\"\n"
    )  # a write that is too long fails, and kills nobody
    program.chmod(0o755)
    server = RedisServer(str(program), "--appendonly", "yes", "--appendfsync", "everysec", "--save", "")
    store = RedisStore(f"{server.url}?retry_for=1")
    try:
        await store.open()
        await store.enqueue("q", [NewJob(id="before", task="t", payload=b"x")])
        assert server.process is not None
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (1024, resource.RLIM_INFINITY))
        with pytest.raises(StoreFull, match="cannot write its append-only file"):
            await asyncio.wait_for(_fill(store), 30)
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        async with asyncio.timeout(30):
            while True:
                try:
                    await store.enqueue("q", [NewJob(id="after", task="t", payload=b"x")])
                    break
                except StoreFull:
                    continue
    finally:
        await store.close()
        server.close()


async def _fill(store: RedisStore) -> None:
    for number in range(10_000):
        await store.enqueue("q", [NewJob(id=f"n{number}", task="t", payload=b"x" * 1000)])
