"""Places where a handler's own writes and its job are in one database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from own_writes import Place, PostgresPlace, own_place, own_postgres


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, path: Path) -> Iterator[Place]:
    with own_place(request.param, path) as found:
        yield found


@pytest.fixture
def on_postgres() -> Iterator[PostgresPlace]:
    with own_postgres() as found:
        yield found
