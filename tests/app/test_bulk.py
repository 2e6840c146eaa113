"""Chunks: so many jobs of one queue, or so many bytes."""

from __future__ import annotations

from holdfast import Holdfast
from holdfast.app import bulk
from holdfast.core.bound import MOST_CALL_BYTES


def test_a_chunk_ends_when_it_has_too_many_bytes() -> None:
    app = Holdfast("memory://", max_payload=2 * MOST_CALL_BYTES)
    size = MOST_CALL_BYTES // 4
    calls = [app.queue("q").args("x" * size) for _ in range(10)]
    chunks = [len(jobs) for _, jobs in bulk.Chunker(500).each(calls)]
    assert chunks == [4, 4, 2]


def test_one_that_is_too_large_by_itself_is_a_chunk_of_its_own() -> None:
    app = Holdfast("memory://", max_payload=2 * MOST_CALL_BYTES)
    sizes = [10, MOST_CALL_BYTES + 10, 10]
    chunks = [len(jobs) for _, jobs in bulk.Chunker(500).each(app.queue("q").args("x" * size) for size in sizes)]
    assert chunks == [2, 1]
