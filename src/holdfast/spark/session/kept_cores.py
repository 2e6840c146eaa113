"""The cores that fleets keep while they run: whoever needs a core of the same Spark would wait for them to end."""

from __future__ import annotations

from collections.abc import Iterable
from threading import Thread
from weakref import WeakKeyDictionary, WeakSet

from pyspark import SparkContext
from pyspark.sql import SparkSession

from ...errors import ConfigError
from .master import local_cores

_keepers: WeakKeyDictionary[SparkContext, WeakSet[Thread]] = WeakKeyDictionary()


def keep_cores(context: SparkContext, threads: Iterable[Thread]) -> None:
    """Count a core as kept for each of these threads while it lives."""
    _keepers.setdefault(context, WeakSet()).update(threads)


def refuse_without_core(spark: SparkSession, what: str) -> None:
    """Raise when fleets keep every core of a Spark of one machine: a query would wait for as long as they run."""
    kept = sum(thread.is_alive() for thread in _keepers.get(spark.sparkContext, ()))
    cores = local_cores(spark.sparkContext.master)
    if cores is not None and kept >= cores:
        raise ConfigError(
            f"{what}: a fleet of {kept} workers keeps all {cores} cores of this Spark, and none is left to write rows; "
            "give it fewer workers, or Spark more cores (local[N]), or stop the fleet first"
        )
