"""Plain records are read by a short way of their own, as the long way reads them."""

from __future__ import annotations

import struct
from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.envelope import Envelope
from holdfast.store.redis.keys import long, short
from holdfast.store.redis.record.job import HEAD, REST, UNREADABLE
from holdfast.store.redis.record.plain import plain_claimed
from holdfast.store.redis.record.view import claimed

ids = st.one_of(
    st.text(min_size=1, max_size=40),
    st.text("0123456789abcdefABCDEF ", min_size=32, max_size=32),
    st.binary(min_size=16, max_size=16).map(bytes.hex),
)


def record(
    id: str, task: str, payload: bytes, letter: bytes = b"w", flags: int = 0, rest: dict[str, object] | None = None
) -> bytes:
    stored, name = short(id), task.encode()
    more = b"" if rest is None else msgspec.msgpack.encode(rest)
    head = HEAD.pack(letter, flags, len(stored), len(name), (10**12).to_bytes(6, "big"), len(payload))
    return head + (len(more).to_bytes(4, "big") + more if more else b"") + stored + name + payload


@given(id=ids, task=st.text(max_size=20), payload=st.binary(max_size=50), timeout=st.integers(-1, 10**6))
def test_a_plain_job_is_read_as_by_the_long_way(id: str, task: str, payload: bytes, timeout: int) -> None:
    raw = record(id, task, payload)
    found = plain_claimed("q", 7, raw, timeout, 10**12 + 5)
    assert (found is None) == (not task)
    assert found is None or found == claimed("q", 7, raw, timeout, 10**12 + 5)
    assert found is None or found.lease.id == id


@given(headers=st.dictionaries(st.text(max_size=9), st.text(max_size=9)), tags=st.lists(st.text(max_size=5)))
def test_a_job_with_an_envelope_is_read_as_by_the_long_way(headers: dict[str, str], tags: list[str]) -> None:
    envelope = Envelope(headers=headers, tags=tuple(tags)).encoded()
    raw = record("id", "task", b"payload", flags=REST, rest={"envelope": (envelope or b"{}").decode()})
    found = plain_claimed("q", 7, raw, 5, 10**12 + 5)
    assert found is not None
    assert found == claimed("q", 7, raw, 5, 10**12 + 5)
    assert (found.envelope.headers, found.envelope.tags) == (headers, tuple(tags))


@given(key=st.text(max_size=40), envelope=st.sampled_from([None, '{"headers":{"a":"b"}}']))
def test_a_job_with_a_key_is_read_as_by_the_long_way(key: str, envelope: str | None) -> None:
    rest = {"key": key} if envelope is None else {"key": key, "envelope": envelope}
    raw = record("id", "task", b"payload", flags=REST, rest=rest)
    found = plain_claimed("q", 7, raw, 5, 10**12 + 5)
    assert found is not None
    assert found == claimed("q", 7, raw, 5, 10**12 + 5)
    assert found.key == key


@pytest.mark.parametrize("rest", [{"key": "ann", "stalls": 1}, {"failures": 1}, {"envelope": "no JSON"}, {"key": 5}])
def test_a_job_with_more_is_left_to_the_long_way(rest: dict[str, object]) -> None:
    assert plain_claimed("q", 7, record("id", "task", b"payload", flags=REST, rest=rest), 5, 10**12 + 5) is None


@given(raw=st.binary(max_size=80), flags=st.integers(0, 127), letter=st.sampled_from([b"w", b"a", b"?", b"s"]))
def test_whatever_else_it_reads_the_long_way_reads_the_same(raw: bytes, flags: int, letter: bytes) -> None:
    whole = record("id", "task", b"payload", letter, flags)
    for each in (raw, whole, whole[:-1], whole + b"x", letter + raw):
        with suppress(*UNREADABLE):
            found = plain_claimed("q", 1, each, -1, 5)
            assert found is None or found == claimed("q", 1, each, -1, 5)


@pytest.mark.parametrize("raw", [b"", b"w", struct.pack(">cB", b"w", 0)])
def test_a_record_that_was_cut_off_in_its_head_is_unreadable(raw: bytes) -> None:
    with pytest.raises(UNREADABLE):
        plain_claimed("q", 1, raw, -1, 5)


@given(id=ids)
def test_an_id_comes_back_as_it_was(id: str) -> None:
    assert long(short(id)) == id
