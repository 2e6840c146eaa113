"""Values that contain a part many times over: refused before anybody walks through all of it, or taken as they are."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast import Holdfast, PayloadTooLarge
from holdfast.codec import codec
from holdfast.codec.plain import UNCOUNTED, expanded
from holdfast.core.size import MOST_SIZE


def doubled(levels: int, wrap: Any = lambda value: [value, value]) -> Any:
    value: Any = [1]
    for _ in range(levels):
        value = wrap(value)
    return value


GRAPHS = {
    "lists": lambda: doubled(60),
    "dicts": lambda: doubled(40, lambda value: {"a": value, "b": value}),
    "wide": lambda: doubled(4, lambda value: [value] * 1000),
    "both": lambda: {"rows": [doubled(30), 1]},
}


@pytest.mark.parametrize("name", ["json", "msgpack"])
@pytest.mark.parametrize("graph", GRAPHS)
def test_a_part_that_is_there_a_billion_times_is_refused_at_once(name: str, graph: str) -> None:
    value = GRAPHS[graph]()
    assert expanded(value) > MOST_SIZE
    with pytest.raises(PayloadTooLarge, match="payload has more than 268435456 values, as parts of it are in it many"):
        codec(name).encode(value)


async def test_an_enqueue_is_refused_for_it(app: Holdfast) -> None:
    @app.task()
    async def work(value: Any) -> None: ...

    async with app:
        with pytest.raises(PayloadTooLarge, match="pass each part once, or store it elsewhere"):
            await work.enqueue(doubled(50))


@pytest.mark.parametrize("levels", [10, 17])
def test_what_fits_is_encoded_as_often_as_it_is_there(levels: int) -> None:
    value = doubled(levels)
    assert (expanded(value) > UNCOUNTED) == (levels == 17)
    assert codec("json").encode(value) == json.dumps(value, separators=(",", ":")).encode()


def test_what_is_not_plain_is_found_in_large_values_too() -> None:
    value = [*doubled(17), object()]
    with pytest.raises(Exception, match=r"payload\[2\] .*object"):
        codec("json").encode(value)
    with pytest.raises(Exception, match=r"payload"):
        codec("json").encode([doubled(17), {1: 2}])
