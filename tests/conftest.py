"""Fixtures that every test may use, and a runner for `async def` tests."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import Gate

from holdfast import Holdfast

LONGEST = 60.0


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """An `async def` test runs in an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    arguments = {name: pyfuncitem.funcargs[name] for name in names}
    asyncio.run(asyncio.wait_for(pyfuncitem.obj(**arguments), LONGEST))
    return True


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The file of a store that is not there yet."""
    return tmp_path / "jobs.db"


@pytest.fixture
def url(path: Path) -> str:
    """The URL of a store in a file that is not there yet."""
    return f"sqlite:///{path}"


@pytest.fixture
def app(url: str) -> Holdfast:
    """An app on a fresh file."""
    return Holdfast(url)


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    """Where handlers in other processes wait until the test lets them pass."""
    with contextlib.closing(Gate(tmp_path / "gate")) as gate:
        yield gate
