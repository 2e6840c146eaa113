"""Questions to the tables of a lake, in SQL, answered by delta-rs: no Spark and no Java is needed to look."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from deltalake import QueryBuilder

from .table import Table


def query(tables: Mapping[str, Table], sql: str) -> pa.Table:
    """Return the rows that a SELECT gives, over tables by these names."""
    builder = QueryBuilder()
    for name, table in tables.items():
        builder.register(name, table.delta)
    return pa.table(builder.execute(sql).read_all())
