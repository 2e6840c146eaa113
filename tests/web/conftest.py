"""Stores for tests of the server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import places
import pytest


@pytest.fixture(params=["sqlite", "postgres", "redis"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty store of each kind."""
    with places.place(request.param, tmp_path) as url:
        yield url
