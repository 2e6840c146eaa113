"""The settings that Spark has already: from spark-submit, the environment, or its file of defaults."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.find_spark_home import _find_spark_home

_LINE = re.compile(r"(spark\.[^\s=:]+)(?:\s*[=:]\s*|\s+)(.*)")


def configured() -> dict[str, str]:
    """Return those settings. Until a JVM runs, Python has to look for them itself."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # spark-submit has started a JVM, which knows them
        SparkContext._ensure_initialized()
        return dict(SparkConf().getAll())
    return {**dict(_defaults()), **dict(_submitted())}


def _defaults() -> Iterator[tuple[str, str]]:
    folder = os.environ.get("SPARK_CONF_DIR") or os.path.join(_find_spark_home(), "conf")
    try:
        lines = Path(folder, "spark-defaults.conf").read_text("utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        if found := _LINE.fullmatch(line.strip()):
            yield found[1], found[2].strip()


def _submitted() -> Iterator[tuple[str, str]]:
    """Yield the master and the settings of PYSPARK_SUBMIT_ARGS, as notebooks have it."""
    words = iter(shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "")))
    for word in words:
        name, equals, value = word.partition("=")
        if name == "--master":
            yield "spark.master", value if equals else next(words, "")
        elif name in ("--conf", "-c"):
            key, _, setting = (value if equals else next(words, "")).partition("=")
            yield key, setting
