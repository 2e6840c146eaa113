"""The ACL users of the docs: a run user that only calls functions, and a deploy user that loads them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import redis as redis_py
from servers import RedisServer, redis_binary, valkey_binary
from support import burst

from holdfast import Holdfast
from holdfast.errors import StoreError
from holdfast.store.redis import RedisStore

BINARIES = [binary for binary in (valkey_binary(), redis_binary()) if binary]
DOCS = Path(__file__).parents[3] / "docs" / "reference" / "redis.md"


def rights(user: str) -> list[str]:
    """Return what the docs give a user, for the namespace `shop`."""
    found = re.search(rf"^ACL SETUSER {user} (.+)$", DOCS.read_text(), re.MULTILINE)
    assert found is not None
    return ["on", ">secret", *found[1].replace("NAMESPACE", "shop").split()[2:]]


@pytest.mark.parametrize("binary", BINARIES)
async def test_the_users_of_the_docs_can_do_all_of_holdfast_and_nothing_else(binary: str) -> None:
    server = RedisServer(binary)
    try:
        admin = server.client()
        for user in ("holdfast-run", "holdfast-deploy"):
            admin.execute_command("ACL", "SETUSER", user, *rights(user))
        run, deploy = (
            server.url.replace("://", f"://{user}:secret@") + "?namespace=shop"
            for user in ("holdfast-run", "holdfast-deploy")
        )
        with pytest.raises(StoreError, match=r"its functions are not there.*holdfast migrate"):
            await RedisStore(run).open()
        store = RedisStore(deploy)
        await store.open()
        await store.close()
        await _everything(run)
        _nothing_else(server)
    finally:
        server.close()


async def _everything(url: str) -> None:
    app = Holdfast(url)

    @app.task(queue="mail")
    async def send(n: int) -> int:
        return n + 1

    async with app:
        handles = [await send.options(delay=0 if n else 3600).enqueue(n) for n in range(3)]
        await burst(app)
        assert [await handle.result(timeout=10) for handle in handles[1:]] == [2, 3]
        await app.queue("mail").pause()
        assert [info.name for info in await app.queues()] == ["mail"]
        assert await app.workers() is not None
        assert {found.name for found in await app.store.doctor()} >= {"server", "records"}
        assert (await app.store.events(queue="mail")).events


def _nothing_else(server: RedisServer) -> None:
    client = redis_py.Redis(port=server.port, username="holdfast-run", password="secret")
    admin = server.client()
    admin.execute_command("SET", "{shop2:mail}:queue", "x")
    refused: list[tuple[Any, ...]] = [
        ("GET", "{shop2:mail}:queue"), ("DEL", "{shop2}:queues"), ("SET", "other", "1"),
        ("PUBLISH", "shop2:listener:1", "x"),
        ("FCALL", "holdfast_1_get", 1, "{shop2:mail}:queue", "", "a", ""), ("FUNCTION", "FLUSH"),
        ("FUNCTION", "DELETE", "holdfast_1"), ("FUNCTION", "LOAD", "x"), ("KEYS", "*"), ("FLUSHALL",), ("FLUSHDB",),
        ("CONFIG", "GET", "*"), ("SHUTDOWN",), ("EVAL", "return 1", 0), ("SCAN", 0),
    ]  # fmt: skip
    for command in refused:
        with pytest.raises(redis_py.exceptions.NoPermissionError):
            client.execute_command(*command)
    client.close()
