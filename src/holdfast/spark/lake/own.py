"""A session of the lake's own, beside whoever uses the same Spark."""

from __future__ import annotations

from pyspark.sql import SparkSession

MEANT = {
    "spark.sql.session.timeZone": "UTC",  # days and minutes are those of UTC, whoever runs the lake
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.caseSensitive": "false",
}
"""Settings on which the rows of the tables depend."""


def session_of(spark: SparkSession) -> SparkSession:
    """Return another session of the same application, with its settings but for those that tables depend on."""
    made = spark.newSession()
    for name, value in {**spark.conf.getAll, **MEANT}.items():
        if made.conf.isModifiable(name):
            made.conf.set(name, value)
    return made
