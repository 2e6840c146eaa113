"""Settings for a Spark that has little to do: many small queries are sooner done than well compiled."""

from __future__ import annotations

import os
import shlex

_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
LEAN = {
    "spark.driver.defaultJavaOptions": _JAVA,
    "spark.executor.defaultJavaOptions": _JAVA,
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "2",
}


def lean_environment() -> dict[str, str]:
    """Return the environment of a command that starts a Spark of its own."""
    words = [word for name, value in LEAN.items() for word in ("--conf", f"{name}={value}")]
    return {**os.environ, "PYSPARK_SUBMIT_ARGS": shlex.join([*words, "pyspark-shell"])}
