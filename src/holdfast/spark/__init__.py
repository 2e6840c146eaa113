"""Jobs from DataFrames, backlogs on a cluster, and the event log as tables: `pip install 'holdfast[spark]'`."""

from __future__ import annotations

from ..errors import MissingExtra

try:
    import pandas  # noqa: F401
    import pyarrow  # noqa: F401
    import pyspark  # noqa: F401
except ImportError as error:
    raise MissingExtra(f"holdfast.spark needs {error.name}, which is missing: pip install 'holdfast[spark]'") from error

from .session import refuse_remote, session

__all__ = ["refuse_remote", "session"]
