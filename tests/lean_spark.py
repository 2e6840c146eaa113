"""Settings for a Spark that has little to do: many small queries are sooner done than well compiled."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
LEAN = {
    "spark.driver.defaultJavaOptions": _JAVA,
    "spark.executor.defaultJavaOptions": _JAVA,
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "2",
}


def lean_path(*folders: Path | str) -> str:
    """Return the PYTHONPATH of a process that starts a lean Spark: these folders, and what this process has."""
    places = [Path(__file__).with_name("lean_python"), *folders, os.environ.get("PYTHONPATH", "")]
    return os.pathsep.join(str(place) for place in places if place)


def lean_environment(*folders: Path | str) -> dict[str, str]:
    """Return the environment of a command that starts a Spark of its own, and imports from these folders, too."""
    words = [word for name, value in LEAN.items() for word in ("--conf", f"{name}={value}")]
    submit = shlex.join([*words, "pyspark-shell"])
    return {**os.environ, "PYSPARK_SUBMIT_ARGS": submit, "PYTHONPATH": lean_path(*folders)}
