"""The contract suite, on every built-in store."""

from __future__ import annotations

from pathlib import Path

import pytest
from stores import HARNESSES

from holdfast.testing.contract import Harness, StoreContract


class TestContract(StoreContract):
    @pytest.fixture(params=HARNESSES)
    def harness(self, request: pytest.FixtureRequest, tmp_path: Path) -> Harness:
        return HARNESSES[request.param](tmp_path)
