"""The results of a map as DataFrames, which Spark reads from the store when they are asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from ...app.task import AnyTask
from ..write.run_ranges import RunRange
from ..write.write import FORMAT
from .result_type import spark_type


class MapResults:
    """What the store has for the rows of one map."""

    def __init__(self, spark: SparkSession, options: Mapping[str, str], task: AnyTask) -> None:
        self._spark = spark
        self._where = {"url": options["url"], "queue": options["queue"], "idPrefix": f"{options['name']}:"}
        self._task = task

    def whole(self) -> DataFrame:
        """Return one row of results for each id."""
        last = F.max_by(F.struct(_ended(), "attempts", "result", "error"), "run").alias("last")
        ours = self._read().groupBy(F.col("id").alias("job_id")).agg(last)
        typed = _typed(F.col("last.result"), self._task)
        return ours.select("job_id", "last.state", "last.attempts", typed.alias("result"), "last.error")

    def of(self, runs: Sequence[RunRange]) -> DataFrame:
        """Return one row of results for each of these runs, of which there is at least one."""
        ranges = self._spark.createDataFrame([tuple(each) for each in runs], "first long, last long")
        numbers = F.broadcast(ranges.select(F.explode(F.sequence("first", "last")).alias("run")))
        found = self._read(runs=f"{runs[0][0]}-{runs[-1][1]}").join(numbers, "run", "left_semi")
        typed = _typed(F.col("result"), self._task)
        return found.select(F.col("id").alias("job_id"), _ended(), "attempts", typed.alias("result"), "error")

    def _read(self, **more: str) -> DataFrame:
        return self._spark.read.format(FORMAT).options(table="results", **self._where, **more).load()


def _ended() -> Column:
    """Return the state: the result is the chain's, and so is its end."""
    return F.coalesce("chain_state", "state").alias("state")


def _typed(result: Column, task: AnyTask) -> Column:
    """Return the result in the type of the task's return annotation, else as JSON text."""
    text, kind = result.cast("string"), spark_type(task.signature.returns)
    if kind is None:
        return text
    wrapped = StructType([StructField("v", kind)])  # Spark reads no bare number or string as JSON
    return F.from_json(F.concat(F.lit('{"v":'), text, F.lit("}")), wrapped)["v"]
