import sys
import types

from holdfast.store.sqlite import SqliteStore
from holdfast.testing.contract import Harness

sys.modules["my_package"] = types.ModuleType("my_package")
sys.modules["my_package"].MyStore = SqliteStore  # type: ignore[attr-defined]

# piece 1
assert isinstance(MyHarness.make(type("Harness", (), {"url": "memory://"})()), SqliteStore)
assert issubclass(MyHarness, Harness)

# piece 2
assert issubclass(TestMine, Case)
