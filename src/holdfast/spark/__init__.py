"""Jobs from DataFrames, backlogs on a cluster, and the event log as tables: `pip install 'holdfast[spark]'`."""

from __future__ import annotations

from importlib.util import find_spec

from ..errors import MissingExtra

for _package in ("pyspark", "pyarrow", "pandas"):
    if find_spec(_package) is None:
        raise MissingExtra(f"holdfast.spark needs {_package}, which is missing: pip install 'holdfast[spark]'")

from .session import refuse_remote, session  # noqa: E402

__all__ = ["refuse_remote", "session"]
