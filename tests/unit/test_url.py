"""Store URLs: what is told of them."""

from __future__ import annotations

import pytest

from holdfast import Holdfast, HoldfastError
from holdfast.store import shown


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("redis://:secret@h:1/0", "redis://:***@h:1/0"),
        ("redis://me:a@secret@h:1", "redis://me:***@h:1"),
        ("postgresql://me@h/db", "postgresql://me@h/db"),
        ("redis+sentinel://h/m?sentinel_password=secret", "redis+sentinel://h/m?sentinel_password=***"),
        ("postgresql://h/db?user=me&password=secret&schema=x", "postgresql://h/db?user=me&password=***&schema=x"),
        ("sqlite:////home/a:b@c/jobs.db", "sqlite:////home/a:b@c/jobs.db"),
        ("redis://:se/cr:et@h:1/0", "redis://:***@h:1/0"),
        ("redis://h:1/0?ca=/etc/a@b.pem", "redis://h:1/0?ca=/etc/a@b.pem"),
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
