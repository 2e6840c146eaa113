"""What the tests of the pages in docs/from share: an app in memory whose clock stands still."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast import Holdfast
from holdfast.testing import ManualClock


@pytest.fixture
def app(holdfast_isolate: Callable[[Holdfast], Holdfast]) -> Holdfast:
    """An app with an empty store in memory, on `clock`."""
    return holdfast_isolate(Holdfast("memory://"))


@pytest.fixture
def clock(holdfast_clock: ManualClock) -> ManualClock:
    """The clock of the app's store."""
    return holdfast_clock
