"""Fixtures that every test may use, and a runner for `async def` tests."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest
import selection
from support import Gate
from xdist.scheduler import LoadScopeScheduling

from holdfast import Holdfast

LONGEST = 60.0


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--quick` runs the tests of `make quick`, `--chaos` those of `make chaos` as well."""
    parser.addoption("--quick", action="store_true", help="leave out what starts servers, Spark or many processes")
    parser.addoption("--chaos", action="store_true", help="run what takes too long for the ordinary tests, too")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out whole folders and files: some take seconds to import."""
    if not config.getoption("chaos") and selection.is_chaos(collection_path):
        return True
    return True if config.getoption("quick") and selection.is_left_out(collection_path) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is not quick; where tests run on several cores, what takes longest comes first."""
    if config.getoption("quick"):
        config.hook.pytest_deselected(items=[item for item in items if not selection.is_quick(item)])
        items[:] = [item for item in items if selection.is_quick(item)]
    if hasattr(config, "workerinput"):
        items.sort(key=selection.rank)


class GroupScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Keeps the tests of a group on one core. xdist's own `loadgroup` marks ids, which pytest 9 has made read-only."""

    def _split_scope(self, nodeid: str) -> str:
        return selection.group(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> GroupScheduling:
    """Schedule by our own groups, whatever `--dist` says."""
    return GroupScheduling(config, log)


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
