"""Store URLs: what is told of them."""

from __future__ import annotations

import pytest

from holdfast import Holdfast, HoldfastError
from holdfast.store import open_store, same_jobs, shown


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
