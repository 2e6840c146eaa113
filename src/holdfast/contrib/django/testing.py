"""Tests of Django projects: run the jobs that a test has enqueued, in its own thread and transaction.

Jobs of an alias with a `DATABASE` are enqueued, run and read on the connection of the test, so that `TestCase` rolls
them back, and `TransactionTestCase` flushes them. Those of an alias with a `URL` are kept in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from ...testing.drain import Ran, drain
from .aliases import get_app, made
from .configuration import DEFAULT
from .store import AliasStore

MOST = 10_000


def run_jobs(
    alias: str = DEFAULT, queues: Sequence[str] | None = None, *, raise_errors: bool = False, limit: int = MOST
) -> list[Ran]:
    """Run all jobs of an alias that are due, here and now, and those that they enqueue; return what ran, in order.

    Handlers run one after the other: `def` ones in the thread of the test, with its connection, `async def` ones in
    an event loop. See `holdfast.testing.drain`.
    """
    return get_app(alias).sync(arun_jobs(alias, queues, raise_errors=raise_errors, limit=limit))


async def arun_jobs(
    alias: str = DEFAULT, queues: Sequence[str] | None = None, *, raise_errors: bool = False, limit: int = MOST
) -> list[Ran]:
    """Do as `run_jobs`, in an `async def` test."""
    return await drain(get_app(alias), queues, raise_errors=raise_errors, limit=limit)


def forget_jobs() -> None:
    """Forget the jobs of aliases with a `URL`, which tests keep in memory. pytest does this before each test."""
    for app in made().values():
        cast(AliasStore, app.store).forget()


class JobsMixin:
    """For test cases of projects with an alias that has a `URL`: each test begins without its jobs."""

    def setUp(self) -> None:
        """Forget the jobs of the test before."""
        forget_jobs()
        super().setUp()  # type: ignore[misc]

    def run_jobs(self, alias: str = DEFAULT, **options: Any) -> list[Ran]:
        """Do as the function of this name."""
        return run_jobs(alias, **options)
