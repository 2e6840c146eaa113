"""Sets of run numbers, and the types of results: the parts of the map that need no Spark session."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime
from types import SimpleNamespace
from typing import Any, TypedDict

import msgspec
import pandas
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from py4j.protocol import Py4JError

from holdfast.errors import HoldfastError, PayloadError
from holdfast.spark.errors import own_errors, plain_spark_errors
from holdfast.spark.map.follow import RunFollower
from holdfast.spark.map.progress_bar import progress_bar
from holdfast.spark.map.result_type import spark_type
from holdfast.spark.records import NEVER_MS
from holdfast.spark.write.report import WriteReport
from holdfast.spark.write.run_ranges import OpenRuns, merge_ranges, run_ranges, without_ranges


@given(st.sets(st.integers(1, 60)), st.sets(st.integers(1, 60)), st.sets(st.integers(1, 60)))
def test_outstanding_is_a_set(first: set[int], second: set[int], over: set[int]) -> None:
    left = OpenRuns(merge_ranges([run_ranges(first), run_ranges(second)]))
    model = first | second
    assert len(left) == len(model)
    for run in over:
        assert left.discard(run) == (run in model)
        model.discard(run)
    assert [run for run in range(62) if run in left] == sorted(model)
    with left.recounted() as is_left:
        for run in [*second, *second]:
            is_left(run)
    assert [run for run in range(62) if run in left] == sorted(model & second)
    assert len(left) == len(model & second)
    assert [run for run in range(62) if left.had(run)] == sorted(first | second)
    assert left.total == len(first | second)


@given(st.sets(st.integers(1, 60)), st.sets(st.integers(1, 60)))
def test_ranges_without_others(ours: set[int], others: set[int]) -> None:
    found = without_ranges(run_ranges(ours), run_ranges(others))
    assert found == run_ranges(ours - others)


@given(st.sets(st.integers(1, 60)), st.lists(st.tuples(st.sets(st.integers(1, 60)), st.sets(st.integers(1, 60)))))
def test_each_finished_run_is_taken_once(runs: set[int], steps: list[tuple[set[int], set[int]]]) -> None:
    left, finished, taken = OpenRuns(run_ranges(runs)), set[int](), set[int]()
    for over, held in steps:
        for run in over:
            left.discard(run)
        finished |= over & runs
        assert left.take_finished(held) == run_ranges(finished - taken - held)
        taken |= finished - held
    assert left.take_finished() == run_ranges(finished - taken)
    assert left.take_finished() == []


def test_the_bar_shows_the_rate_and_the_failures(capsys: pytest.CaptureFixture[str]) -> None:
    report = WriteReport(name="m", rows=5000, open=[(1, 4000)])
    with progress_bar("m\x1b[2J[red]", report, True) as show:
        show(2500, 0)
        show(1500, 1200)
    said = " ".join(capsys.readouterr().err.split())
    assert "m\\x1b[2J[red]" in said, "a name steers no terminal"
    assert "3500/5000" in said
    assert "/s 1,200 failed" in said


def test_a_million_runs_in_a_row_are_one_span_and_a_bit_each() -> None:
    left = OpenRuns(merge_ranges([[(1, 500_000)], [(500_001, 1_000_000)]]))
    assert len(left._finished) == 125_000
    assert len(left) == 1_000_000


@dataclass
class Place:
    lat: float
    names: list[str]


class Row(TypedDict):
    at: datetime
    other: Any


class Model(pydantic.BaseModel):
    place: Place | None = None


@dataclass
class Tree:
    name: str
    branches: list[Tree]


class Renamed(msgspec.Struct, rename="camel"):
    first_name: str


class Listed(msgspec.Struct, array_like=True):
    lat: float


class Plain(msgspec.Struct):
    counts: dict[str, int]


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (int, "bigint"), (str | None, "string"), (bool, "boolean"), (datetime, "timestamp"),
        (list[int], "array<bigint>"), (Place, "struct<lat:double,names:array<string>>"),
        (Row, "struct<at:timestamp,other:string>"), (Plain, "struct<counts:map<string,bigint>>"),
        (Model, "struct<place:struct<lat:double,names:array<string>>>"),
        (Tree, "struct<name:string,branches:array<string>>"), (Renamed, "struct<firstName:string>"),
        (Any, None), (dict, None), (int | str, None), (None, None), (Listed, None),
    ],
)  # fmt: skip
def test_the_type_of_a_result_is_that_of_the_annotation(annotation: Any, expected: str | None) -> None:
    found = spark_type(annotation)
    assert (found.simpleString() if found else None) == expected


def test_events_that_were_trimmed_unread_are_made_up_for_by_the_jobs() -> None:
    class Trimmed:
        """A log that lost everything, and a store in which run 2 is not over."""

        turns = 0

        async def events(self, position: str, **_: Any) -> Any:
            self.turns += 1
            news = [SimpleNamespace(state=None, run=2)] if self.turns == 3 else []
            return SimpleNamespace(events=news, position="p", gap=3 if self.turns == 2 else 0, reset=False)

        async def jobs(self, *_: Any, **__: Any) -> Any:
            return SimpleNamespace(jobs=[SimpleNamespace(run=2), SimpleNamespace(run=77)], cursor=None)

        async def chains(self, *_: Any, **__: Any) -> Any:
            return SimpleNamespace(chains=[], cursor=None)

    class LoopThread:
        store = Trimmed()

        def run(self, coroutine: Any) -> Any:
            return asyncio.run(coroutine)

    follower = RunFollower(LoopThread(), "queue")  # type: ignore[arg-type]
    assert list(follower.follow(OpenRuns([(1, 4)]), lambda: None)) == [1, 0]


def test_an_error_of_ours_comes_out_of_spark_as_itself() -> None:
    text = (
        "Job aborted due to stage failure\nTraceback (most recent call last):\nholdfast.errors.ConfigError: no date\n\n"
        "The above exception was the direct cause:\n\nholdfast.errors.PayloadError: the row does not fit\n\n\tat Java"
    )
    with pytest.raises(PayloadError, match=r"^the row does not fit$"), own_errors():
        raise RuntimeError(text)
    with pytest.raises(RuntimeError, match="Java alone"), own_errors():
        raise RuntimeError("Java alone, not holdfast.errors.Nothing: x")
    with (
        pytest.raises(HoldfastError, match=r"^Spark could not go on: An error occurred; run it again"),
        plain_spark_errors(),
    ):
        raise Py4JError("An error occurred\n\tat Java")


def test_records_lie_where_every_clock_can_show_them() -> None:
    assert pandas.Timestamp(NEVER_MS, unit="ms").year == 2200, "its clock ends in 2262"
