"""Where Spark looks for data sources: modules named `pyspark_*` that have a `DefaultSource`."""

from holdfast.spark.data_source import HoldfastSource as DefaultSource

__all__ = ["DefaultSource"]
