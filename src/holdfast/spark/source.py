"""`format("holdfast")`: a store's tables as DataFrames, and its log as a stream."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.types import StructType

from ..errors import ConfigError
from ..store.scan import Condition
from .filter import condition
from .option import ReadOptions, parse
from .schema import SCHEMAS, TABLES
from .share import Share, read, scan_of, shares, stored_table
from .sink import Sink, StreamSink
from .stream import LogReader


class HoldfastSource(DataSource):
    """What Spark knows as `holdfast`."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "holdfast"

    def schema(self) -> StructType:
        """Return the columns of the table."""
        table = self.options.get("table", "events").lower()
        if table not in TABLES:
            raise ConfigError(f"option table={table!r} is none of {', '.join(TABLES)}")
        return SCHEMAS[table]

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of a table as it is now."""
        options = parse(self.options)
        if schema != SCHEMAS[options.table]:
            raise ConfigError(f"the table {options.table} has a schema of its own; leave out .schema(…), and select")
        return FilteringReader(options) if _filters_are_pushed() else TableReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return what enqueues the rows of a DataFrame."""
        return Sink(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Return what enqueues the rows of a stream."""
        return StreamSink(self.options, schema, overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return a reader of the log as it grows."""
        return LogReader(parse(self.options, stream=True))


def _filters_are_pushed() -> bool:
    """True in the process in which Spark pushes filters; elsewhere it refuses a reader that could take them."""
    worker = "pyspark.sql.worker.data_source_pushdown_filters"
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return worker in sys.modules or getattr(main, "name", None) == worker


class TableReader(DataSourceReader):
    """Reads a table in shares."""

    def __init__(self, options: ReadOptions) -> None:
        self.options = options
        self.which: tuple[Condition, ...] = options.which

    def partitions(self) -> list[Share]:
        """Return the shares."""
        return shares(self.options, self.which, self.options.after, self.options.upto)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a share."""
        return read(self.options, partition)


class FilteringReader(TableReader):
    """The same, where Spark offers filters."""

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:
        """Yield the filters that are left to Spark; the store does the others.

        Where gaps are rows, all are left: the store knows nothing of such a row, and it must meet the filters, too.
        """
        options = self.options
        if options.table == "events" and options.on_gap == "count":
            yield from filters
            return
        with scan_of(options.url) as scan:
            for filter in filters:
                found = condition(options.table, filter)
                if found is not None and scan.takes(stored_table(options.table), found):
                    self.which = (*self.which, found)
                else:
                    yield filter
