"""No part of a URL that might be a secret is ever printed, logged or raised."""

from __future__ import annotations

import asyncio
import io
import logging
import traceback
from typing import Any
from urllib.parse import quote

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from holdfast import Holdfast
from holdfast.cli import cli
from holdfast.store import shown

TOKENS = ("hunter2", "sesame", "HUNTER")
SCHEMES = ("redis", "rediss", "valkey", "redis+cluster", "redis+sentinel", "postgresql", "postgres")
EVERY_SCHEME = (*SCHEMES, "sqlite", "memory", "nats", "redis+nothing")
SECRET_OPTIONS = (
    "password",
    "sslpassword",
    "sentinel_password",
    "passwrd",
    "pass",
    "auth",
    "token",
    "apikey",
    "PASSWORD",
)

odd = st.text("ab12:/?#@%&=[],; \\'\"é~", max_size=6)
tokens = st.sampled_from(TOKENS)
secrets = st.builds(lambda before, token, after: f"{before}{token}{after}", odd, tokens, odd)
hosts = st.sampled_from(["127.0.0.1:1", "localhost:1", "[::1]:1", "h,i", "", "[::1", "h:x"])
paths = st.sampled_from(["", "/", "/0", "/db", "/m/0", "//"])
tails = st.sampled_from(["", "?retry_for=0", "?patience=0&pool=1", "?timeout=x", "#x", "?", "?a=b", "?namespace=a.b"])


def _login(scheme: str, user: str, secret: str, host: str, path: str, tail: str) -> str:
    return f"{scheme}://{user}:{secret}@{host}{path}{tail}"


def _option(scheme: str, name: str, secret: str, host: str, path: str, tail: str) -> str:
    return f"{scheme}://{host}{path}{tail or '?'}{'&' if tail else ''}{name}={secret}"


users = st.sampled_from(["", "me", "a@b", "%zz"])
quoted = secrets.map(lambda text: quote(text, ""))
urls = st.one_of(
    st.builds(_login, st.sampled_from(EVERY_SCHEME), users, secrets, hosts, paths, tails),
    st.builds(_login, st.sampled_from(SCHEMES), st.sampled_from(["", "me"]), quoted, hosts, paths, tails),
    st.builds(_option, st.sampled_from(EVERY_SCHEME), st.sampled_from(SECRET_OPTIONS), secrets, hosts, paths, tails),
    st.builds(lambda scheme, secret: f"{scheme}://{secret}@h", st.sampled_from(["redis", "rediss", "valkey"]), secrets),
    st.builds(lambda text, secret: text.format(secret), st.sampled_from([
        "{}", "host=h password={}", "redis:{}@h", "redis:/{}", "//me:{}@h", "me:{}@h", "redis//:{}@h",
        "postgresql:me:{}@h/db", "sqlite:password={}",
    ]), secrets.filter(lambda text: "/" not in text)),
)  # fmt: skip


def leaked(text: str) -> bool:
    return any(token in text for token in TOKENS)


def told(error: BaseException) -> str:
    """Return everything that a traceback of it says, but for the lines of this file."""
    return "".join(traceback.format_exception(error)) + str(error) + repr(error)


@settings(max_examples=1500, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@example("sqlite://:?sesame=@127.0.0.1:1")
@example("sqlite://?sesame=@127.0.0.1:1")
@given(urls)
def test_no_error_and_no_description_tells_a_secret(url: str) -> None:
    assert not leaked(shown(url))
    assert not leaked(_made(url))


def _made(url: str) -> str:
    """Return what is told of an app on this URL, or by the error that there is none."""
    try:
        app = Holdfast(url)
    except Exception as error:
        return told(error)
    place: Any = getattr(app.store, "address", "")
    return f"{app!r} {place} {place!r} {app.store!r}"


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(["redis", "postgresql", "rediss", "redis+sentinel"]), secrets, st.booleans())
def test_nothing_tells_a_secret_while_a_store_is_out_of_reach(scheme: str, secret: str, as_option: bool) -> None:
    patience = "patience=0" if scheme == "postgresql" else "retry_for=0"
    name = "sentinel_password" if "sentinel" in scheme else "password"
    login = "" if as_option else f"me:{quote(secret, '')}@"
    options = f"&{name}={quote(secret, '')}" if as_option else ""
    url = f"{scheme}://{login}127.0.0.1:1/{'m' if 'sentinel' in scheme else '0'}?{patience}{options}"
    log = io.StringIO()
    handler = logging.StreamHandler(log)
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        said = asyncio.run(_opened(url))
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
    assert said
    assert not leaked(said + log.getvalue())


async def _opened(url: str) -> str:
    try:
        async with Holdfast(url) as app:
            await app.queues()
    except Exception as error:
        return told(error)
    return ""


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    urls,
    st.sampled_from(
        [["doctor"], ["queues"], ["jobs", "--json"], ["migrate", "--sql"], ["enqueue", "--queue", "q", "1"]]
    ),
)
def test_the_command_line_tells_no_secret(url: str, words: list[str]) -> None:
    if url.startswith(("memory", "sqlite")) or "retry_for=0" not in url:
        url = f"nats{url}"  # what would wait for a server, or make a file, is for the tests above
    result = CliRunner().invoke(cli, [*words, "--url", url])
    assert result.exit_code != 0
    assert not leaked(result.output)
    assert not leaked(told(result.exception) if result.exception else "")


@pytest.mark.parametrize(
    ("url", "message"),
    [
        (
            "redis://h?password=S3",
            "'redis://h?password=***': password is no option here: write it before the host",
        ),
        ("redis://h?passwrd=S3&x=S3", "'redis://h?passwrd=***&***': passwrd=*** is not an option here"),
        ("postgresql://me:a#S3@h/db", "'postgresql://***': host and port, then /database and ?options, were expected"),
        ("postgresql://me:S3%zz@h/db", "'postgresql://***': host and port"),
        ("postgresql://me:a@S3@h/db", "in a login / ? # @ % & are written %2F %3F %23 %40 %25 %26"),
        (
            "postgresql://h/db?passwrd=S3",
            "'postgresql://h/db?passwrd=***': passwrd=*** is not an option here; besides libpq",
        ),
        ("sqlite:///x.db?key=S3", "'sqlite:///x.db?key=***': key=*** is not an option here"),
        ("redis://S3@h:x", "'redis://***': host and port"),
        ("password=S3 host=h", "'***' is not a store URL; try sqlite:///jobs.db or memory://"),
        ("", "'' is not a store URL; try sqlite:///jobs.db or memory://"),
    ],
)
def test_what_is_wrong_is_told_all_the_same(url: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        Holdfast(url)
    assert message in str(caught.value)
    assert "S3" not in str(caught.value)
