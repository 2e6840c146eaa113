"""Store URLs: what is told of them."""

from __future__ import annotations

import pytest

from holdfast import Holdfast, HoldfastError
from holdfast.store import open_store, register_store, same_jobs, shown
from holdfast.store.postgres.url import parse
from holdfast.store.sqlite import SqliteStore


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("redis://:secret@h:1/0", "redis://:***@h:1/0"),
        ("redis://me:secret@h:1", "redis://***:***@h:1"),
        ("redis://secret@h:1", "redis://***@h:1"),
        ("redis://me:a@secret@h:1", "redis://***"),
        ("postgresql://me:secret@h/db", "postgresql://me:***@h/db"),
        ("postgresql://me@h/db", "postgresql://me@h/db"),
        ("redis+sentinel://h/m?sentinel_password=secret", "redis+sentinel://h/m?sentinel_password=***"),
        ("postgresql://h/db?user=me&password=secret&schema=x", "postgresql://h/db?user=me&password=***&schema=x"),
        ("sqlite:////home/a:b@c/jobs.db", "sqlite:////home/a:b@c/jobs.db"),
        ("redis://:se/cr:et@h:1/0", "redis://***"),
        ("redis://h:1/0?ca=/etc/a@b.pem", "redis://***"),
        ("redis://h:1/0?ca=/etc/a.pem&timeout=3", "redis://h:1/0?ca=***&timeout=3"),
        ("redis://h?password=a&b=c&history=5", "redis://h?password=***&***&history=5"),
        ("jobs.db", "jobs.db"),
        ("secret", "***"),
        ("memory://", "memory://"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, told: str) -> None:
    assert shown(url) == told


@pytest.mark.parametrize(
    "url",
    [
        "redis://:secret@h/none", "redis://:secret/or@h/0", "postgresql://me:secret@h/db?history=x", "nats://me:secret@h",
    ],
)  # fmt: skip
def test_no_error_tells_a_password(url: str) -> None:
    with pytest.raises(HoldfastError) as caught:
        Holdfast(url)
    assert "***" in str(caught.value)
    assert "secret" not in str(caught.value)
    assert "secret" not in repr(Holdfast("redis://:secret@localhost"))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("sqlite:///jobs.db", "sqlite:///./jobs.db?history=5", True),
        ("sqlite:///jobs.db", "sqlite:///other.db", False),
        ("sqlite:///jobs.db", "sqlite:///jobs.db?namespace=b", False),
        ("memory://shop", "memory://shop", True),
        ("memory://", "memory://", False),
        ("memory://", "redis://", False),
        ("redis://", "rediss://me:secret@localhost:6379/0?timeout=3", True),
        ("redis://h", "redis://h/1", False),
        ("redis://h", "postgresql://h", False),
        ("redis://h:6379", "redis://h:6380", False),
        ("postgresql://web:a@db/shop", "postgres://worker:b@db:5432/shop?pool=2", True),
        ("postgresql://db/shop?schema=a", "postgresql://db/shop?namespace=a", True),
        ("postgresql://db/shop", "postgresql://db/shop?schema=a", False),
    ],
)
def test_stores_hold_the_same_jobs_where_their_urls_name_one_place(one: str, other: str, same: bool) -> None:
    assert same_jobs(open_store(one), open_store(other)) == same
    assert same_jobs(open_store(other), open_store(one)) == same


def test_a_store_holds_its_own_jobs() -> None:
    store = open_store("memory://")
    assert same_jobs(store, store)


# --- as other tools write them


@pytest.mark.parametrize(
    ("url", "ours"),
    [
        ("postgres://me@h/db", "postgresql://me@h/db?schema=holdfast"),
        ("postgresql+psycopg://me@h/db", "postgresql://me@h/db?schema=holdfast"),
        ("postgresql+psycopg2://me@h/db", "postgresql://me@h/db?schema=holdfast"),
        ("postgresql+asyncpg://me@h/db?ssl=require", "postgresql://me@h/db?schema=holdfast"),
        ("postgis://me@h/db", "postgresql://me@h/db?schema=holdfast"),
        ("rediss://h:1/2?ssl_cert_reqs=CERT_NONE", "rediss://h:1/2?verify=0"),
        ("rediss://h:1/2?ssl_cert_reqs=required&ssl_ca_certs=/ca.pem", "rediss://h:1/2?ca=%2Fca.pem"),
        ("redis://h:1/3?socket_timeout=4", "redis://h:1/3?timeout=4"),
        ("sqlite+aiosqlite:///jobs.db", "sqlite:///jobs.db"),
        ("sqlite+pysqlite:////var/lib/jobs.db", "sqlite:////var/lib/jobs.db"),
        ("sqlite:////var/lib/jobs.db", "sqlite:////var/lib/jobs.db"),
    ],
)
def test_a_url_of_another_tool_opens_the_same_store(url: str, ours: str) -> None:
    assert same_jobs(open_store(url), open_store(ours))


def test_options_of_redis_py_are_taken_by_their_own_names() -> None:
    store = open_store("rediss://h?ssl_cert_reqs=CERT_NONE&ssl_ca_certs=/ca.pem&socket_timeout=4")
    address = store.address  # type: ignore[attr-defined]
    assert (address.verify, address.ca, address.timeout) == (False, "/ca.pem", 4.0)
    assert open_store("rediss://h?ssl_cert_reqs=required").address.verify is True  # type: ignore[attr-defined]


def test_the_tls_of_asyncpg_is_that_of_libpq() -> None:
    store = open_store("postgresql+asyncpg://me@h/db?ssl=verify-full")
    assert store.url == "postgresql://me@h/db?ssl=verify-full"
    assert parse(store.url).conninfo == "postgresql://me@h/db?sslmode=verify-full"


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("sentinel://h:26379", "there is no store for sentinel://; write redis+sentinel://host:26379,other:26379/mymaster"),
        ("redis+socket:///run/redis.sock", "for a Unix socket give a client in place of a URL"),
        ("unix:///run/redis.sock", "for a Unix socket give a client in place of a URL"),
        ("db+postgresql://me@h/db", "db+ is Celery's; write postgresql://"),
        ("sqla+sqlite:///jobs.db", "sqla+ is Celery's; write sqlite://"),
        ("file:///jobs.db", "for a SQLite file write sqlite:///relative/path.db"),
        ("sqlite:///:memory:", "that is SQLite's own way to write it; write memory://"),
        ("sqlite:///file:jobs.db", "that is SQLite's own way to write it; write sqlite:///path/to/jobs.db"),
        ("redis://h?ssl_cert_reqs=none", "ssl_cert_reqs is for TLS, and this URL has none: write rediss://"),
        ("rediss://h?ssl_cert_reqs=maybe", "ssl_cert_reqs is none, optional or required"),
        ("rediss://h?ssl_certfile=/a.pem", "ssl_certfile is no option here: give a client that has it"),
        ("redis://h?max_connections=5", "max_connections is decided by Holdfast itself: leave it out"),
        ("redis://h/1?db=2", "db is no option here: write the number of the database behind the host"),
        ("redis://:a@h?password=b", "password is no option here: write it before the host"),
        ("redis://h?busy_poll=yes", "'redis://h?busy_poll=yes': busy_poll='yes' is not busy_poll=0|1"),
        ("redis://h?retry_for=-1", "retry_for='-1' is not retry_for=SECONDS"),
        ("redis://h?wait_aof=2", "wait_aof='2' is not wait_aof=0|1"),
        ("redis+sentinel://h/m?sentinel_password=", "sentinel_password=*** is not sentinel_password=SECRET"),
        ("redis://h?bussy_poll=0", "bussy_poll=*** is not an option here; known are namespace=NAME, history=EVENTS"),
        ("postgresql+asyncpg://h/db?ssl=true", "ssl=*** is not an option here"),
        ("mysql://h/db", "there is no store for mysql://; known are"),
    ],
)  # fmt: skip
def test_a_url_that_is_right_elsewhere_is_refused_with_the_right_form(url: str, told: str) -> None:
    with pytest.raises(HoldfastError) as caught:
        open_store(url)
    assert told in str(caught.value)


def test_a_registered_scheme_is_its_own_even_where_it_looks_like_another() -> None:
    register_store("sqlite+mine", lambda url: SqliteStore("memory://mine"))
    assert open_store("sqlite+mine://x").url == "memory://mine"
