"""`format("holdfast")`: what Spark calls to read a store's tables and to write jobs."""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from ..errors import ConfigError
from .read.options import parse
from .read.stream import LogReader
from .read.table_reader import TableReader
from .read.tables import SCHEMAS, TABLES
from .write.sink import Sink, StreamSink


class HoldfastSource(DataSource):
    """The data source that Spark knows as `holdfast`."""

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
        """Return a writer that enqueues the rows of a DataFrame."""
        return Sink(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Return a writer that enqueues the rows of a stream."""
        return StreamSink(self.options, schema, overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return a reader of the event log as it grows."""
        return LogReader(parse(self.options, stream=True))
