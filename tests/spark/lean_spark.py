"""Settings for a Spark that has little to do: many small queries are sooner done than well compiled."""

from __future__ import annotations

_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
LEAN = {
    "spark.driver.extraJavaOptions": _JAVA,
    "spark.executor.extraJavaOptions": _JAVA,
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "2",
}
