"""Values of very many levels are refused at once, whatever they are made of."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import msgspec
import pydantic
import pytest

from holdfast import Holdfast, PayloadError
from holdfast.codec import codec, refusal

LEVELS = 100_000


@dataclasses.dataclass
class Deep:
    """What may hold itself, as often as anybody likes."""

    a: Deep | int | None


class Struct(msgspec.Struct):
    """What may hold anything."""

    a: Any


class Model(pydantic.BaseModel):
    """The same, by pydantic's rules."""

    a: Any


def nested(wrap: Callable[[Any], Any]) -> Any:
    value: Any = 1
    for _ in range(LEVELS):
        value = wrap(value)
    return value


SHAPES: dict[str, tuple[Callable[[], Any], Any]] = {
    "lists": (lambda: nested(lambda value: [value]), Any),
    "dicts": (lambda: nested(lambda value: {"a": value}), Any),
    "annotated": (lambda: nested(lambda value: [value]), list[list[Any]]),
    "dataclasses": (lambda: nested(Deep), Deep),
    "struct": (lambda: Struct(nested(lambda value: [value])), Struct),
    "tuple": (lambda: (nested(lambda value: [value]),), tuple[Any]),
}


@pytest.mark.parametrize("name", ["json", "msgpack"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_value_of_a_hundred_thousand_levels_is_refused_after_the_first_few(
    name: str, shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    refused = refusal._refusal
    monkeypatch.setattr(refusal, "_refusal", lambda codec, part: (asked.append(part), refused(codec, part))[1])
    make, annotation = SHAPES[shape]
    with pytest.raises(PayloadError) as caught:
        codec(name).encode(make(), annotation)
    assert str(caught.value) == "payload is nested deeper than 64 levels: flatten it, or pass it as text"
    assert len(asked) < 100


def test_a_model_of_a_hundred_thousand_levels_is_refused() -> None:
    with pytest.raises(PayloadError, match="payload is a Model, which JSON cannot carry"):
        codec("json").encode(Model(a=nested(lambda value: [value])), Model)


def test_the_argument_that_is_too_deep_is_named() -> None:
    app = Holdfast("memory://")

    @app.task()
    async def send(to: str, items: Any) -> None: ...

    with pytest.raises(PayloadError, match="items is nested deeper than 64 levels") as caught:
        send.args("ann", nested(lambda value: [value]))
    assert caught.value.path == "items"
    with pytest.raises(PayloadError, match="payload is nested deeper than 64 levels"):
        app.queue("q").args(nested(lambda value: {"a": value}))
