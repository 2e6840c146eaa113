"""A lake of eight hours that needed no Spark, and its events."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from drawn_history import SHOP, DrawnHistory
from plain_lake import write_lake

from holdfast import Event

BEGIN = datetime(2026, 11, 10, 7, 0, tzinfo=UTC)
HOURS = 8


@pytest.fixture(scope="session")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Event]]:
    """A lake of eight hours, and its events."""
    events = DrawnHistory(3, BEGIN, HOURS, SHOP).draw()
    folder = tmp_path_factory.mktemp("drawn") / "lake"
    return write_lake(folder, events, BEGIN + timedelta(hours=HOURS)), events
