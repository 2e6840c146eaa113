"""Start Spark: return the session that this process has, or a new, quiet one that finds its own Java."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

from ...errors import ConfigError
from ..errors import first_line
from .class_archive import ClassArchive
from .java import Java, find_java
from .master import is_local, refuse_unreachable
from .spark_conf import configured

LOG_LEVELS = ("off", "fatal", "error", "warn", "info", "debug", "trace")
_MASTER = re.compile(r"local(-cluster)?(\[.+\])?|spark://.+|yarn|k8s://.+")
_LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
_ALWAYS = {
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
}
_LOCAL = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "4",
}
"""On one machine no other host has to reach the driver, and few partitions are enough."""


def session(
    master: str | None = None,
    *,
    name: str = "holdfast",
    conf: Mapping[str, str] | None = None,
    progress: bool = False,
    log_level: str = "error",
) -> SparkSession:
    """Return this process's session; if there is none yet, start one on `master`, by default on this machine.

    `conf` overrides our own settings. With `progress`, Spark draws its bar; `log_level` is for its logs.
    """
    if log_level.lower() not in LOG_LEVELS:
        raise ConfigError(f"log_level={log_level!r} is none of {', '.join(LOG_LEVELS)}")
    if SparkContext._active_spark_context is not None:
        return _running(master, conf or {})
    wanted = {**configured(), **(conf or {})}
    master = master or wanted.get("spark.master") or "local[*]"
    if not _MASTER.fullmatch(master):
        raise ConfigError(f"master={master!r}: Spark knows local, local[2], spark://host:7077, yarn and k8s://…")
    refuse_unreachable(master)
    java = find_java()
    archive = ClassArchive.of(java) if is_local(master) else None
    settings = {**_settings(master, progress), **wanted, "spark.master": master}
    options = [*_java_options(log_level), *(archive.options() if archive else ())]
    settings["spark.driver.extraJavaOptions"] = " ".join(
        [*options, settings.get("spark.driver.extraJavaOptions", "")]
    ).strip()
    with _environment(java, master):
        spark = _started(name, master, settings)
    if archive:
        archive.finish_with(spark.sparkContext)
    return spark


def _started(name: str, master: str, settings: Mapping[str, str]) -> SparkSession:
    try:
        return SparkSession.builder.appName(name).config(map=settings).getOrCreate()
    except Exception as error:
        raise ConfigError(
            f"Spark does not start on {master!r}: {first_line(error)}; check the master, if it can be reached, and conf"
        ) from error


def _running(master: str | None, conf: Mapping[str, str]) -> SparkSession:
    spark = SparkSession.builder.getOrCreate()
    there = spark.sparkContext.master
    if master is not None and master != there:
        raise ConfigError(
            f"master={master!r}: this process has a session on {there!r} already; stop it first, or use it"
        )
    for name, value in conf.items():
        if spark.conf.isModifiable(name):
            spark.conf.set(name, value)
    return spark


def _settings(master: str, progress: bool) -> dict[str, str]:
    shown = {"spark.ui.showConsoleProgress": str(progress).lower()}
    return {**_ALWAYS, **shown, **(_LOCAL if is_local(master) else {})}


def _java_options(log_level: str) -> list[str]:
    return [f"-Dlog4j2.configurationFile=file:{_LOG_SETTINGS}", f"-Dholdfast.spark.log={log_level.lower()}"]


@contextmanager
def _environment(java: Java, master: str) -> Iterator[None]:
    """Give the JVM our Java and our Python while it starts, then restore the environment."""
    wanted = {"JAVA_HOME": str(java.home())}
    if "PYSPARK_PYTHON" not in os.environ:
        wanted["PYSPARK_PYTHON"] = sys.executable
    if is_local(master) and "SPARK_LOCAL_IP" not in os.environ:
        wanted["SPARK_LOCAL_IP"] = "127.0.0.1"
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
