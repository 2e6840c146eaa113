"""Handlers that raise errors of somebody else's making, in each executor; processes import this module."""

from __future__ import annotations

import json
from typing import Any

from holdfast import Holdfast, Retry


class BadRequest(Exception):
    """An error of a third party, which says of itself whether to try again."""

    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}")
        self.retryable = status >= 500


class Refused(Exception):
    """An error of a third party with its own word."""

    kind = "permanent"


class Odd(Exception):
    """An error that cannot be asked."""

    @property
    def retryable(self) -> bool:
        raise RuntimeError("not now")


ERRORS: dict[str, Any] = {
    "value": lambda: ValueError("no such price"),
    "below": lambda: json.JSONDecodeError("no JSON", "", 0),
    "key": lambda: KeyError("price"),
    "client": lambda: BadRequest(400),
    "server": lambda: BadRequest(503),
    "word": lambda: Refused("by word"),
    "odd": lambda: Odd("ask later"),
}
RETRY = Retry(failures=2, initial=0.001, permanent=(ValueError, "error_tasks.Unheard"))
app = Holdfast("memory://errors")


async def inline(what: str) -> None:
    raise ERRORS[what]()


def thread(what: str) -> None:
    raise ERRORS[what]()


def process(what: str) -> None:
    raise ERRORS[what]()


TASKS = {
    "inline": app.task(retry=RETRY)(inline),
    "thread": app.task(retry=RETRY)(thread),
    "process": app.task(retry=RETRY, executor="process", name="process")(process),
}
inline, thread, process = TASKS.values()  # type: ignore[assignment]
