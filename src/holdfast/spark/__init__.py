"""Jobs from DataFrames, backlogs on a cluster, and the event log as tables: `pip install 'holdfast-queue[spark]'`."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from ..distribution import require

require("holdfast.spark", "pyspark", "pyarrow", "pandas", extra="spark")

if TYPE_CHECKING:
    from .fleet.fleet import Fleet, WorkerReport, fleet
    from .map.map import map
    from .session.session import session
    from .store_url import refuse_remote
    from .write.hold import end_hold
    from .write.report import WriteReport
    from .write.write import report, write

__all__ = [
    "Fleet",
    "WorkerReport",
    "WriteReport",
    "end_hold",
    "fleet",
    "map",
    "refuse_remote",
    "report",
    "session",
    "write",
]

_HOMES = {
    "Fleet": "fleet.fleet", "WorkerReport": "fleet.fleet", "WriteReport": "write.report", "end_hold": "write.hold",
    "fleet": "fleet.fleet", "map": "map.map", "refuse_remote": "store_url", "report": "write.write",
    "session": "session.session", "write": "write.write",
}  # fmt: skip


class _SparkPackage(ModuleType):
    """Imports a public name when it is first asked for: the report of a lake needs none of them, and no PySpark."""

    def __getattr__(self, name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found: object = getattr(import_module(f".{_HOMES[name]}", __name__), name)
        setattr(self, name, found)
        return found

    def __setattr__(self, name: str, value: object) -> None:
        if name in _HOMES and isinstance(value, ModuleType):
            return  # `map` is the function, also after the folder `map` was imported
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _SparkPackage
