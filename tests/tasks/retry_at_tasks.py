"""Handlers whose failures say when they are tried again, in each executor; processes import this module."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from holdfast import Holdfast, Permanent, Retry, RetryAt, Sandbox

WHEN = datetime(2100, 1, 2, tzinfo=UTC)


class Busy(Exception):
    """An error of a third party, which says when to come back."""

    def __init__(self, **fields: Any) -> None:
        super().__init__("busy")
        vars(self).update(fields)


class Evil(Busy):
    """An error that cannot be asked."""

    @property
    def retry_at(self) -> float:
        raise RuntimeError("not now")

    def retry_after(self) -> float:
        return 5.0


def chained() -> RetryAt:
    error = RetryAt(delay=40)
    error.__cause__ = KeyError("price")
    return error


ERRORS: dict[str, Any] = {
    "delay": lambda: RetryAt(delay=30, error=ValueError("no")),
    "timedelta": lambda: RetryAt(delay=timedelta(seconds=31), error=ValueError("no")),
    "chained": chained,
    "alone": lambda: RetryAt(delay=41),
    "permanent": lambda: RetryAt(delay=42, error=Permanent("not at all")),
    "at": lambda: RetryAt(WHEN, ValueError("no")),
    "past": lambda: RetryAt(datetime(1969, 1, 1, tzinfo=UTC), ValueError("no")),
    "wrong": lambda: RetryAt(float("nan"), ValueError("no")),
    "naive": lambda: RetryAt(datetime(2100, 1, 1), ValueError("no")),
    "retry_after": lambda: Busy(retry_after=50),
    "retry_after as a timedelta": lambda: Busy(retry_after=timedelta(seconds=51)),
    "retry_at": lambda: Busy(retry_at=WHEN),
    "retry_at in seconds": lambda: Busy(retry_at=WHEN.timestamp()),
    "both": lambda: Busy(retry_at=WHEN, retry_after=5),
    "one of both": lambda: Busy(retry_at=float("nan"), retry_after=52),
}
GARBAGE: dict[str, Any] = {
    "huge": lambda: Busy(retry_after=1e300),
    "infinite": lambda: Busy(retry_after=float("inf"), retry_at=float("-inf")),
    "no number": lambda: Busy(retry_after=float("nan"), retry_at=float("nan")),
    "negative": lambda: Busy(retry_after=-5),
    "true": lambda: Busy(retry_after=True, retry_at=False),
    "text": lambda: Busy(retry_after="30", retry_at="Fri, 31 Dec 1999 23:59:59 GMT"),
    "none": lambda: Busy(retry_after=None, retry_at=None),
    "a time without a zone": lambda: Busy(retry_at=datetime(2100, 1, 1)),
    "far away": lambda: Busy(retry_at=10**400, retry_after=10**400),
    "evil": Evil,
}
ERRORS |= GARBAGE
RETRY = Retry(failures=2, initial=2000, maximum=2000)
app = Holdfast("memory://retry-at")


async def inline(what: str) -> None:
    raise ERRORS[what]()


def thread(what: str) -> None:
    raise ERRORS[what]()


def process(what: str) -> None:
    raise ERRORS[what]()


def sandbox(what: str) -> None:
    raise ERRORS[what]()


TASKS = {
    "inline": app.task(retry=RETRY)(inline),
    "thread": app.task(retry=RETRY)(thread),
    "process": app.task(retry=RETRY, executor="process")(process),
    "sandbox": app.task(retry=RETRY, executor="sandbox", sandbox=Sandbox())(sandbox),
}
inline, thread, process, sandbox = TASKS.values()  # type: ignore[assignment]
