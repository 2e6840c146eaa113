"""Stores that have no chains yet are not asked for them."""

from __future__ import annotations

import re

import pytest
from stores import UNCHAINED

from holdfast.testing.contract.blocker import Blockers
from holdfast.testing.contract.chain import Chains

CHAINED = {*vars(Chains), *vars(Blockers), "test_complete_from_outside"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What a store does not have yet is not part of its suite."""
    items[:] = [item for item in items if not _is_too_early(item.name)]


def _is_too_early(name: str) -> bool:
    test, _, rest = name.partition("[")
    words = re.split(r"[-\]]", rest)
    return words[0] in UNCHAINED and (test in CHAINED or "blocked" in words or "unblock" in words)
