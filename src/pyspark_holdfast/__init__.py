"""Where Spark looks for data sources: modules named `pyspark_*` that have a `DefaultSource`."""
