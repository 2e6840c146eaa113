"""`format("holdfast")`: a store's tables as DataFrames, and its log as a stream."""

from __future__ import annotations

from collections.abc import Iterator

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
from .option import ReadOptions, parse
from .schema import SCHEMAS, TABLES
from .share import Share, read, shares
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
        return TableReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return what enqueues the rows of a DataFrame."""
        return Sink(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Return what enqueues the rows of a stream."""
        return StreamSink(self.options, schema, overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return a reader of the log as it grows."""
        return LogReader(parse(self.options, stream=True))


class TableReader(DataSourceReader):
    """Reads a table in shares.

    It takes no filters: Spark 4.3 keeps one reader for each loaded frame, so that the filters of a frame's first use
    would hold for every other. What the options choose is chosen by the store; the rest is left to Spark.
    """

    def __init__(self, options: ReadOptions) -> None:
        self.options = options

    def partitions(self) -> list[Share]:
        """Return the shares."""
        return shares(self.options, self.options.after, self.options.upto)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a share."""
        return read(self.options, partition)
