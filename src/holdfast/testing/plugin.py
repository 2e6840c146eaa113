"""The pytest plugin: a manual clock, and apps on stores of their own. It is there as soon as Holdfast is installed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from ..app.app import Holdfast
from .clock import ManualClock
from .isolate import isolate


@pytest.fixture
def holdfast_clock() -> ManualClock:
    """A clock that stands still until the test moves it: `holdfast_clock.advance(seconds)`."""
    return ManualClock()


@pytest.fixture
def holdfast_isolate(holdfast_clock: ManualClock) -> Iterator[Callable[[Holdfast], Holdfast]]:
    """`holdfast_isolate(app)`: the app works on an empty store in memory, with `holdfast_clock`, in this test."""
    with ExitStack() as stack:
        yield lambda app: stack.enter_context(isolate(app, holdfast_clock))


@pytest.fixture(autouse=True)
def _holdfast_django() -> None:
    """Have each test of a Django project begin without jobs of the one before, where they are kept in memory."""
    if (django := sys.modules.get("holdfast.contrib.django.testing")) is not None:
        django.forget_jobs()
