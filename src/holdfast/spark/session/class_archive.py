"""An archive of Spark's loaded classes for the next start of a JVM (AppCDS). It halves the start-up time.

A user's first JVM on a machine writes the archive when it ends. A JVM checks the archive against its own jars and
starts without it when it does not fit, so that Spark works whatever goes wrong here.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import pyspark
from py4j.java_gateway import JavaGateway
from pyspark import SparkContext

from . import cache_folder
from .java import Java

OFF = "HOLDFAST_SPARK_ARCHIVE"
PATIENCE = 60.0
STALE = {"*.part": 24 * 3600.0, "*.jsa": 30 * 24 * 3600.0}
"""Seconds after which an unfinished or unused file is removed."""


class ClassArchive:
    """The file for one Java and one Spark: used when it exists, made when it does not."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._making: Path | None = None

    @classmethod
    def of(cls, java: Java) -> ClassArchive | None:
        """Return the archive; `None` when it cannot be kept or is switched off."""
        folder = cache_folder.lasting()
        if folder is None or os.environ.get(OFF) == "off":
            return None
        text = f"{java.program}|{java.version}|{pyspark.__version__}|{Path(pyspark.__file__).parent}"
        return cls(folder / f"{hashlib.blake2s(text.encode(), digest_size=8).hexdigest()}.jsa")

    def options(self) -> list[str]:
        """Return the options for the JVM. It ignores a file that does not fit, and says nothing."""
        quiet = ["-Xshare:auto", "-Xlog:disable", "-Xlog:all=error:stderr"]
        if self.path.exists():
            with suppress(OSError):
                os.utime(self.path)  # it is in use
            return [*quiet, f"-XX:SharedArchiveFile={self.path}"]
        self._sweep()
        handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=self.path.stem, suffix=".part")
        os.close(handle)
        self._making = Path(name)
        return [*quiet, f"-XX:ArchiveClassesAtExit={name}"]

    def _sweep(self) -> None:
        """Remove what killed processes left behind, and archives of a Java or Spark that is gone."""
        for pattern, age in STALE.items():
            for left in self.path.parent.glob(pattern):
                with suppress(OSError):
                    if time.time() - left.stat().st_mtime > age:
                        left.unlink()

    def finish_with(self, context: SparkContext) -> None:
        """Have the JVM write the archive when this process ends, and give the file its name."""
        if self._making is not None:
            atexit.register(self._finish, context._gateway, context)

    def _finish(self, gateway: JavaGateway, context: SparkContext) -> None:
        assert self._making is not None
        process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
        with suppress(Exception):
            context.stop()
        try:
            if process is not None and process.stdin is not None:
                process.stdin.close()  # the JVM ends
                process.wait(PATIENCE)
                if process.returncode == 0 and self._making.stat().st_size > 0:
                    os.replace(self._making, self.path)
        except (OSError, subprocess.SubprocessError):
            pass
        finally:
            self._making.unlink(missing_ok=True)
