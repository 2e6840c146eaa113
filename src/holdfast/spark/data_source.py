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
from .read.arrow import chosen_fields
from .read.options import frame_schema, parse
from .read.stream import LogReader
from .read.table_reader import TableReader
from .write.sink import Sink, StreamSink


class HoldfastSource(DataSource):
    """The data source that Spark knows as `holdfast`."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "holdfast"

    def schema(self) -> StructType:
        """Return the columns of the table, or those of them that the options name."""
        return frame_schema(self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of a table as it is now."""
        options = parse(self.options)
        if schema != chosen_fields(options.table, options.columns):
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
