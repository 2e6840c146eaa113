"""Positions in the log of a Redis store, as text."""

from __future__ import annotations

import pytest

from holdfast.store.redis.scan.position import mark_of, parse_position, position_at, text_at, text_of, text_round


@pytest.mark.parametrize("queue", ["a", 'b "quoted"', "ü:{}", "last"])
def test_the_text_round_one_queue_makes_the_text_of_the_whole(queue: str) -> None:
    position = {"a": "1-2-00000000", 'b "quoted"': "7-", "ü:{}": "1-99-0a0b0c0d", "last": "0-"}
    head, tail = text_round(position, queue)
    assert f"{head}{position[queue]}{tail}" == text_of(position)
    assert set(parse_position(f"{head}5-6-0a0b0c0d{tail}")) == set(position)


def test_the_text_of_an_entry_is_that_of_its_position() -> None:
    entry = (b"17-4", [b"i", b"one", b"e", b"what happened"])
    assert text_at(*entry) == str(position_at(*entry))


@pytest.mark.parametrize("fields", [[], [b"i"], [b"i", b"one"], [b"i", b"one", b"e"]])
def test_an_entry_that_is_not_ours_has_a_mark_too(fields: list[bytes]) -> None:
    assert len(mark_of(fields)) == 8
    assert mark_of(fields) != mark_of([b"i", b"one", b"e", b"what happened"])
