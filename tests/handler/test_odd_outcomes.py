"""Outcomes that cannot be told as they are: the attempt ends all the same, and its neighbours are not held up."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from support import PATIENCE, burst, eventually, working

from holdfast import ConfigError, Holdfast, Retention, Retry, State
from holdfast.store.contract import Complete


class Veiled(Exception):
    """An exception that does not show its fields."""

    def __getattribute__(self, name: str) -> Any:
        if name == "__dict__":
            raise RuntimeError("look elsewhere")
        return super().__getattribute__(name)


class Delegating(Exception):
    """An exception that looks for ever where its fields are."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def with_field(name: Any) -> Exception:
    error = ValueError("x")
    vars(error)[name] = 1
    return error


def bent() -> Exception:
    error: Any = SyntaxError("x", ("f", 1, 2, "t"))
    error.lineno, error.offset, error.text = "a", "b", 5
    return error  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "make",
    [lambda: with_field("name\udcff"), lambda: with_field(5), Veiled, Delegating, bent],
    ids=["half a surrogate pair", "a name that is a number", "veiled", "delegating", "bent"],
)
async def test_whatever_a_handler_raises_its_attempt_ends_and_others_go_on(app: Holdfast, make: Any) -> None:
    @app.task(retry=Retry(failures=1))
    async def bad() -> None:
        raise make()

    @app.task()
    async def good(n: int) -> int:
        return n

    async with app:
        failed = await bad.enqueue()
        handles = [await good.enqueue(n) for n in range(5)]
        report = await burst(app, slots=3)
        assert (report.failed, report.completed, report.lost) == (1, 5, 0)
        assert (await failed.job()).state is State.FAILED
        assert [await handle.result() for handle in handles] == [0, 1, 2, 3, 4]


async def test_an_outcome_that_cannot_be_written_is_told_as_a_failure(
    app: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle = app.store.settle_and_claim

    async def picky(session: Any, settlements: Any, *rest: Any, **options: Any) -> Any:
        if any(isinstance(entry, Complete) and entry.result == b'"bad"' for entry in settlements):
            raise OverflowError("too large")
        return await settle(session, settlements, *rest, **options)

    monkeypatch.setattr(app.store, "settle_and_claim", picky)

    @app.task(retry=Retry(failures=1))
    async def echo(word: str) -> str:
        return word

    async with working(app, slots=3):
        bad = await echo.enqueue("bad")
        assert [await echo.call(word) for word in ("a", "b")] == ["a", "b"]
        await eventually(lambda: _is_failed(bad))
        error = (await bad.job()).error
        assert error is not None
        assert (error.type, error.message) == (
            "UnwritableOutcome",
            "its outcome could not be written: OverflowError",
        )


async def test_a_store_that_takes_nothing_for_a_while_hears_the_outcome_when_it_does_again(
    app: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever its error is called: the outcome is as it was, and is told again after a pause."""
    settle, open_files = app.store.settle_and_claim, asyncio.Event()
    troubles: list[Any] = []
    app.hooks.add("worker_error", troubles.append)
    open_files.set()

    async def short_of_files(*args: Any, **options: Any) -> Any:
        if not open_files.is_set():
            raise OSError("too many open files")
        return await settle(*args, **options)

    monkeypatch.setattr(app.store, "settle_and_claim", short_of_files)

    @app.task(retry=Retry(failures=1))
    async def work() -> int:
        open_files.clear()
        return 1

    async with working(app):
        handle = await work.enqueue()
        await eventually(lambda: len(troubles) > 2, "it pauses, and tries again")
        open_files.set()
        assert await handle.result(PATIENCE) == 1


async def test_a_job_that_came_with_a_reply_nobody_could_read_runs(
    app: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The turn settled one job and claimed the next, says the store; the worker knows nothing of that."""
    settle = app.store.settle_and_claim
    unread: list[Any] = []

    async def unreadable(session: Any, settlements: Any, *rest: Any, **options: Any) -> Any:
        turn = await settle(session, settlements, *rest, **options)
        if settlements and turn.claimed and not unread:
            unread.append(turn)
            raise ValueError("what is this?")
        return turn

    monkeypatch.setattr(app.store, "settle_and_claim", unreadable)

    @app.task()
    async def echo(n: int) -> int:
        return n

    async with app:
        handles = [await echo.enqueue(n) for n in range(4)]
        async with working(app, slots=1):
            assert [await handle.result(PATIENCE) for handle in handles] == [0, 1, 2, 3]
    assert len(unread) == 1


async def test_a_hook_that_ends_the_process_does_not(app: Holdfast) -> None:
    @app.on("complete")
    async def leave(happening: Any) -> None:
        raise SystemExit(1)

    @app.on("claim")
    def leave_too(happening: Any) -> None:
        raise SystemExit(1)

    @app.task()
    async def work() -> int:
        return 1

    async with working(app):
        assert [await work.call() for _ in range(2)] == [1, 1]


async def test_the_end_of_time_is_the_last_year_that_can_be_shown(app: Holdfast) -> None:
    @app.task()
    async def work() -> None: ...

    async with app:
        handle = await work.options(run_at=datetime.max.replace(tzinfo=UTC)).enqueue()
        assert (await handle.job()).run_at.year == 9999
        later = await work.options(delay=9e11).enqueue()
        assert (await later.job()).run_at.year == 9999


async def test_settings_that_would_harm_every_job_are_refused(app: Holdfast) -> None:
    @app.task()
    async def work() -> None: ...

    with pytest.raises(ConfigError, match=r"Retention\(completed=1e\+17\): seconds, from 0 on"):
        Retention(completed=1e17)
    with pytest.raises(ConfigError, match="names that begin with holdfast- are Holdfast's own"):
        work.options(headers={"holdfast-failed": "1"})
    async with app:
        with pytest.raises(ConfigError, match="timeout=0 leaves no time to run"):
            await work.adjust(timeout=0)


async def _is_failed(handle: Any) -> bool:
    return (await handle.job()).state is State.FAILED
