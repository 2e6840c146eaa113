"""One Spark session for the whole run: starting one takes seconds."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from lean_spark import LEAN, lean_path
from pyspark.sql import SparkSession
from spark_shop import Shop

from holdfast.spark import session


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session on this machine. Tests take views, tables and folders of their own."""
    folder: Path = tmp_path_factory.mktemp("spark")
    conf = {"spark.sql.warehouse.dir": str(folder / "warehouse"), "spark.local.dir": str(folder / "local"), **LEAN}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", lean_path())
        made = session("local[2]", name="tests", conf=conf)
    yield made
    made.stop()


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    """An app on a fresh SQLite file, in a module that executors can import."""
    made = Shop(tmp_path, f"sqlite:///{tmp_path}/jobs.db")
    yield made
    made.close()


@pytest.fixture
def closed() -> Iterator[int]:
    """A port on which nobody listens, and that nobody else can take meanwhile."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]
