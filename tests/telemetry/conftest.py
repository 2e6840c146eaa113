"""Fixtures of the telemetry's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from spans import Recorder, recording


@pytest.fixture
def spans() -> Iterator[Recorder]:
    """Every span is recorded while the test runs."""
    with recording() as recorder:
        yield recorder
