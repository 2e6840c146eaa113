"""How the suite's tests run: each in an event loop, on a bench of its own, with a look for leaks afterwards."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ..clock import ManualClock
from .bench import Bench
from .harness import Harness

LONGEST = 60.0


class Case:
    """A part of the suite. Its tests are coroutines that take a bench; subclasses run them with pytest."""

    @pytest.fixture
    def harness(self) -> Harness:
        """Return the place for one test's jobs; override it with your store's."""
        raise NotImplementedError("override the fixture `harness` to return your store's Harness")

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name, test in list(vars(cls).items()):
            if name.startswith("test_") and inspect.iscoroutinefunction(test):
                setattr(cls, name, _on_a_bench(test))


def _on_a_bench(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Return a plain test that opens a bench, runs the coroutine on it, and looks for leaks."""

    @functools.wraps(test)
    def run(self: Case, harness: Harness, **arguments: Any) -> None:
        asyncio.run(asyncio.wait_for(_run(functools.partial(test, self), harness, arguments), LONGEST))

    parameters = list(inspect.signature(test).parameters.values())
    fixture = inspect.Parameter("harness", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    run.__signature__ = inspect.Signature([parameters[0], fixture, *parameters[2:]])  # type: ignore[attr-defined]
    return run


async def _run(test: Callable[..., Awaitable[None]], harness: Harness, arguments: dict[str, Any]) -> None:
    clock = ManualClock()
    store = harness.make(clock)
    await store.open()
    bench = Bench(harness, store, clock)
    try:
        await test(bench, **arguments)
        await bench.replayed()
        await bench.counted()
        left = await bench.leftovers()
        await bench.replayed()
        await bench.counted()
        assert not left, f"after every job had gone, these were left: {dict(left)}"
    finally:
        await bench.close()
