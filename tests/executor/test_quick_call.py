"""The quick way to call a handler gives what the slow way gives, or leaves the call to it."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Holdfast, Job
from holdfast.app.task import AnyTask
from holdfast.core.policy import Counters
from holdfast.executor.call import arguments
from holdfast.executor.quick_call import QuickCall, quick_call
from holdfast.store.contract import Claimed, Lease

app = Holdfast("memory://")


@dataclass
class Address:
    city: str


@app.task()
async def plain(number: int, words: list[str]) -> dict[str, int] | None: ...


@app.task(codec="msgpack", result_codec="msgpack")
async def rich(at: datetime.datetime, address: Address) -> Any: ...


@app.task()
async def nothing() -> None: ...


@app.task()
async def with_default(number: int = 1) -> None: ...


@app.task()
async def by_keyword(*, number: int) -> None: ...


@app.task()
async def with_job(job: Job, number: int) -> None: ...


@app.task()
async def never_none(number: int) -> int:
    return number


@app.task(max_result=10)
async def small(number: int) -> str | None: ...


def quick(task: AnyTask) -> QuickCall:
    found = quick_call(task)
    assert found is not None
    return found


def slow_values(task: AnyTask, payload: bytes) -> tuple[object, ...]:
    claimed = Claimed(
        lease=Lease("q", "id", 1, 1), task=task.name, payload=payload, priority=0, key=None, run_at_ms=0,
        enqueued_at_ms=0, claimed_at_ms=0, counters=Counters(attempts=1),
    )  # fmt: skip
    args, kwargs = arguments(task, claimed, None)  # type: ignore[arg-type]
    assert not args
    return tuple(kwargs.values())


@given(number=st.integers(-(2**53), 2**53), words=st.lists(st.text(max_size=5), max_size=3))
def test_arguments_are_those_of_the_slow_way(number: int, words: list[str]) -> None:
    payload = plain.encode((number, words), {})
    assert quick(plain).values(payload) == slow_values(plain, payload) == (number, words)
    payload = plain.encode((), {"words": words, "number": number})
    assert quick(plain).values(payload) == (number, words)


def test_rich_arguments_come_back_as_what_they_were() -> None:
    sent = (datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC), Address("Ulm"))
    assert quick(rich).values(rich.encode(sent, {})) == sent
    assert quick(nothing).values(nothing.encode((), {})) == ()


@pytest.mark.parametrize("payload", [b"{}", b'{"number": 1}', b'{"number": 1, "words": [], "more": 1}', b"[]", b"x"])
def test_a_payload_that_does_not_fit_is_refused_by_both(payload: bytes) -> None:
    with pytest.raises(Exception):  # noqa: B017 - the words are those of the slow way
        quick(plain).values(payload)
    with pytest.raises(Exception):  # noqa: B017
        slow_values(plain, payload)


@pytest.mark.parametrize("result", [None, {}, {"a": 1}, {"a": 2**53}])
def test_results_are_those_of_the_slow_way(result: object) -> None:
    assert quick(plain).encoded(result) == plain.signature.encode_result(result, plain.result_codec)


@pytest.mark.parametrize("result", ["text", {"a": "text"}, object(), {"a": 2**70}])
def test_a_result_that_the_slow_way_refuses_is_left_to_it(result: object) -> None:
    assert quick(plain).encoded(result) is None


def test_a_result_that_is_too_large_is_left_to_the_slow_way() -> None:
    assert quick(small).encoded("12345678") == b'"12345678"'
    assert quick(small).encoded("123456789") is None


def test_a_result_that_must_not_be_none_is_left_to_the_slow_way_when_it_is() -> None:
    assert quick(never_none).encoded(3) == b"3"
    assert quick(never_none).encoded(None) is None


@pytest.mark.parametrize("task", [with_default, by_keyword, with_job])
def test_an_unusual_task_has_no_quick_way(task: AnyTask) -> None:
    assert quick_call(task) is None
