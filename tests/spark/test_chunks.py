"""The chunks in which jobs are written."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.spark.write.chunks import chunks, chunks_by_id
from holdfast.store.contract import NewJob


def _job(id: str, payload: bytes = b"{}") -> NewJob:
    return NewJob(id=id, task=None, payload=payload)


def test_chunks_go_by_id_and_the_first_of_two_that_are_alike_stays_the_first() -> None:
    jobs = [_job("d"), _job("b", b"1"), _job("c"), _job("b", b"2"), _job("a")]
    cut = list(chunks_by_id(jobs, 2))
    assert [[(job.id, job.payload) for job in chunk] for chunk in cut] == [
        [("a", b"{}"), ("b", b"1")],
        [("b", b"2"), ("c", b"{}")],
        [("d", b"{}")],
    ]
    assert [[job.id for job in chunk] for chunk in chunks(jobs, 2)] == [["d", "b"], ["c", "b"], ["a"]]


@pytest.mark.parametrize("cut", [chunks, chunks_by_id])
def test_a_chunk_has_no_more_bytes_than_a_call_should(cut: Any) -> None:
    jobs = [_job(str(number), b"x" * 6_000_000) for number in range(4)]
    assert [len(chunk) for chunk in cut(jobs, 1000)] == [3, 1]
