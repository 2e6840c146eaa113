"""Jobs from DataFrames, backlogs on a cluster, and the event log as tables: `pip install 'holdfast[spark]'`."""

from __future__ import annotations

from importlib.util import find_spec

from ..errors import MissingExtra

for _package in ("pyspark", "pyarrow", "pandas"):
    if find_spec(_package) is None:
        raise MissingExtra(f"holdfast.spark needs {_package}, which is missing: pip install 'holdfast[spark]'")

from .fleet import Fleet, WorkerReport, fleet  # noqa: E402
from .mapper import map  # noqa: E402
from .release import release  # noqa: E402
from .report import WriteReport  # noqa: E402
from .session import refuse_remote, session  # noqa: E402
from .write import report, write  # noqa: E402

__all__ = [
    "Fleet",
    "WorkerReport",
    "WriteReport",
    "fleet",
    "map",
    "refuse_remote",
    "release",
    "report",
    "session",
    "write",
]
