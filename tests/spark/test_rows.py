"""The jobs of rows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from holdfast import Holdfast
from holdfast.errors import PayloadError
from holdfast.spark.write.options import WriteOptions
from holdfast.spark.write.rows import RowEncoder
from holdfast.store.contract import NewJob

app = Holdfast("memory://")


@app.task(queue="bench")
async def order(number: int, item: str, share: float | None = None, vip: bool = False) -> None: ...


@app.task(queue="bench", codec="msgpack")
async def packed(number: int, item: str, share: float | None = None, vip: bool = False) -> None: ...


@app.task(queue="bench")
async def gathered(number: int, **more: object) -> None: ...


@app.task(queue="bench")
async def shared(number: int, item: str, share: float) -> None: ...


@app.task(queue="bench", max_payload=60)
async def small(number: int, item: str) -> None: ...


PLAIN = {"item": ["pear", 'a "fig"\n', "é"], "number": [1, -(2**63), 2**63 - 1]}


def made(task: Any, columns: dict[str, Any], *, plain: bool = True) -> list[NewJob]:
    """Return the jobs of these columns, encoded together where that may be, or one by one."""
    options = WriteOptions(url="redis://", task=task and task.name, queue="bench", name="w")
    rows = RowEncoder(options, "w", task)
    if not plain:
        rows._plain = None
    return list(rows.jobs(pa.RecordBatch.from_pydict(columns)))


@pytest.mark.parametrize("task", [order, packed, gathered, None])
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"vip": [True, False, True]},
        {"share": [0.5, None, -0.0], "vip": [True, False, True]},
        {"share": pa.array([0.1, 1.5, None], pa.float32())},
    ],
)
def test_rows_that_are_encoded_together_are_those_that_are_encoded_alone(task: Any, more: dict[str, Any]) -> None:
    columns = {**more, **PLAIN}
    assert made(task, columns) == made(task, columns, plain=False)


def test_a_whole_number_is_a_float_where_one_is_asked_for_and_equal() -> None:
    columns = {**PLAIN, "number": [1, 2, 3], "share": [1, 2, 2**53]}
    assert made(shared, columns) == made(shared, columns, plain=False)
    with pytest.raises(PayloadError, match="share=9007199254740993"):
        made(shared, {**columns, "share": [1, 2, 2**53 + 1]})


@pytest.mark.parametrize(
    ("task", "columns", "path"),
    [
        (order, {**PLAIN, "share": [1.0, float("nan"), 2.0]}, "share"),
        (None, {**PLAIN, "share": [1.0, float("inf"), 2.0]}, "payload.share"),
        (order, {**PLAIN, "item": ["pear", None, "fig"]}, "item"),
        (order, {**PLAIN, "number": ["1", "2", "3"]}, "number"),
        (order, {**PLAIN, "vip": [1, 0, 1]}, "vip"),
    ],
)
def test_a_value_that_would_not_come_back_the_same_is_named_with_its_path(
    task: Any, columns: dict[str, Any], path: str
) -> None:
    with pytest.raises(PayloadError, match=r"write 'w': the row \(.*does not fit") as caught:
        made(task, columns)
    assert caught.value.path == path


def test_columns_that_are_no_arguments_are_told_with_a_row() -> None:
    with pytest.raises(PayloadError, match=r"the row \(number=1, colour='red'\) does not fit order\(\): .*'colour'"):
        made(order, {"number": [1], "colour": ["red"]})


def test_a_row_that_is_too_large_is_named_among_plain_ones() -> None:
    with pytest.raises(PayloadError, match=r"the row \(number=2, item='xxx.*small"):
        made(small, {"number": [1, 2, 3], "item": ["a", "x" * 60, "b"]})
