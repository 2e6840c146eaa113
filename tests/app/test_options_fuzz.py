"""Every option of every public way in: whatever it is given works, or is refused at once by an error that names it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from holdfast import At, ConfigError, Cron, Dedup, Every, Holdfast, Rate, Retention, Retry, Sandbox
from holdfast.app.decorator import Decorator
from holdfast.app.options import AppOptions, TaskOptions, WorkerOptions
from holdfast.client.options import JobOptions

ODD: list[Any] = [
    None, True, False, 0, 1, -1, 1.5, -0.5, float("nan"), float("inf"), float("-inf"), 1e300, 10**30, -(10**30), 2**63,
    "", "1", "x", "\ud800", "\0", "x" * 5000, b"x", [], ["\ud800"], [None], (), {}, {"x": 1}, {1: "x"}, {"x": "\ud800"},
    object(), int, timedelta(days=-1), timedelta.max, datetime(2030, 1, 1), datetime.max, lambda: None,
]  # fmt: skip
"""What nobody should give for most options, and somebody will."""


def app() -> Holdfast:
    return Holdfast("memory://")


async def work() -> None: ...


def _task(name: str, value: Any) -> None:
    made = app()
    made.task(**{name: value})(work)


def _queue(name: str, value: Any) -> None:
    app().queue("q", **{name: value})


def _options(name: str, value: Any) -> None:
    app().task()(work).options(**{name: value}).args()


def _plain_options(name: str, value: Any) -> None:
    app().queue("q").args({}, **{name: value})


def _schedule(name: str, value: Any) -> None:
    made = app()
    call = made.task()(work).args()
    made.schedule(**{"name": "s", "spec": Every(60), "call": call, name: value})


def _worker(name: str, value: Any) -> None:
    made = app()
    made.task()(work)
    made.worker(**{name: value})


def _flow(name: str, value: Any) -> None:
    app().flow(**{"flow_id": "f", name: value})


def _keywords(function: Any, *without: str) -> list[str]:
    return [
        name
        for name, each in inspect.signature(function).parameters.items()
        if each.kind is not each.VAR_KEYWORD and name not in ("self", *without)
    ]


def _of(kind: type, **needed: Any) -> Callable[[str, Any], None]:
    return lambda name, value: kind(**{**needed, name: value}) and None


def _dedup(name: str, value: Any) -> None:
    _options("dedup", Dedup(**{"key": "k", name: value}))


QUEUE_SETTINGS = (
    "paused",
    "priority",
    "concurrency",
    "key_concurrency",
    "rate",
    "key_rate",
    "result_ttl",
    "retention",
    "history",
)
WAYS: dict[str, tuple[Callable[[str, Any], None], list[str]]] = {
    "Holdfast": (_of(Holdfast, url="memory://"), [*_keywords(Holdfast, "store"), *AppOptions.__annotations__]),
    "task": (_task, [*_keywords(Decorator.__call__, "fn"), *TaskOptions.__annotations__]),
    "queue": (_queue, [*_keywords(Holdfast.queue, "name"), *QUEUE_SETTINGS]),
    "options": (_options, [name for name in JobOptions.__annotations__ if name != "connection"]),
    "plain options": (_plain_options, [name for name in JobOptions.__annotations__ if name != "connection"]),
    "schedule": (_schedule, _keywords(Holdfast.schedule)),
    "worker": (_worker, ["queues", *WorkerOptions.__annotations__]),
    "flow": (_flow, _keywords(Holdfast.flow)),
    "Retry": (_of(Retry), list(Retry.__struct_fields__)),
    "Rate": (_of(Rate, count=1), list(Rate.__struct_fields__)),
    "Retention": (_of(Retention), list(Retention.__struct_fields__)),
    "Sandbox": (_of(Sandbox), list(Sandbox.__struct_fields__)),
    "Dedup": (_dedup, list(Dedup.__struct_fields__)),
    "Cron": (_of(Cron, text="* * * * *"), ["text", "tz"]),
    "Every": (_of(Every, seconds=60), ["seconds", "anchor"]),
    "At": (_of(At), ["when"]),
}  # fmt: skip
CASES = [(way, name) for way, (_, names) in WAYS.items() for name in names]


def named(error: Exception, way: str, name: str) -> bool:
    """True when the message says which option it is about."""
    also = {"url": {"URL"}, "count": {"Rate("}, "text": {"Cron("}, "seconds": {"Every("}, "flow_id": {"flow"}}
    if way == "worker" and name == "queues":
        also = {"queues": {"queue "}}
    words = {name, *also.get(name, ())} | ({"schedule"} if way == "schedule" else set())
    return any(word in str(error) for word in words)


@pytest.mark.parametrize(("way", "name"), CASES, ids=lambda value: str(value).replace(" ", "-"))
def test_an_option_works_or_is_refused_by_name(way: str, name: str) -> None:
    use = WAYS[way][0]
    wrong = []
    for value in ODD:
        try:
            use(name, value)
        except ConfigError as error:
            if not named(error, way, name):
                wrong.append((value, f"unnamed: {error}"))
        except Exception as error:
            wrong.append((value, f"{type(error).__name__}: {error}"))
    assert wrong == []
