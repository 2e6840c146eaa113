"""A session starts by itself, is quiet, and is one for all."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from holdfast.errors import ConfigError
from holdfast.spark import refuse_remote, session


def test_the_session_of_this_process_is_used_again(spark: SparkSession) -> None:
    assert session().sparkContext is spark.sparkContext
    assert session("local[2]").sparkContext is spark.sparkContext


def test_another_master_is_refused_while_a_session_runs(spark: SparkSession) -> None:
    with pytest.raises(ConfigError, match=r"this process has a session on 'local\[2\]' already; stop it first"):
        session("spark://elsewhere:7077")


def test_memory_is_refused(spark: SparkSession) -> None:
    with pytest.raises(ConfigError, match="cannot see this one's memory"):
        refuse_remote("memory://", spark)
