"""Jobs from DataFrames, backlogs on a cluster, and the event log as tables: `pip install 'holdfast-queue[spark]'`."""

from __future__ import annotations

from ..distribution import require

require("holdfast.spark", "pyspark", "pyarrow", "pandas", extra="spark")

from .fleet.fleet import Fleet, WorkerReport, fleet  # noqa: E402
from .map.map import map  # noqa: E402
from .session.session import session  # noqa: E402
from .store_url import refuse_remote  # noqa: E402
from .write.hold import end_hold  # noqa: E402
from .write.report import WriteReport  # noqa: E402
from .write.write import report, write  # noqa: E402

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
