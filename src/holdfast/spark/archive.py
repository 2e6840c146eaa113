"""Spark's classes, loaded once and kept for the next start (AppCDS): half the start-up time.

The archive is made by the first JVM of a user on a machine, when it ends, and is never part of anything shared. A JVM
checks it against its own jars and goes without when it does not fit, so that nothing here has to be right for Spark to
work.
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
from typing import Any

import pyspark

from . import cache
from .java import Java

OFF = "HOLDFAST_SPARK_ARCHIVE"
PATIENCE = 60.0
STALE = {"*.part": 24 * 3600.0, "*.jsa": 30 * 24 * 3600.0}
"""After how long a file that nobody finished, or nobody used, is removed."""


class Archive:
    """The file for one Java and one Spark: used when it is there, made when it is not."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._making: Path | None = None

    @classmethod
    def of(cls, java: Java) -> Archive | None:
        """Return the archive; `None` when it cannot be kept, or is not wanted."""
        folder = cache.lasting()
        if folder is None or os.environ.get(OFF) == "off":
            return None
        text = f"{java.program}|{java.version}|{pyspark.__version__}|{Path(pyspark.__file__).parent}"
        return cls(folder / f"{hashlib.blake2s(text.encode(), digest_size=8).hexdigest()}.jsa")

    def options(self) -> list[str]:
        """Return what the JVM is told. A file that does not fit is passed over in silence."""
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
        """What killed processes left behind, and archives for a Java or Spark that is gone, are removed."""
        for pattern, age in STALE.items():
            for left in self.path.parent.glob(pattern):
                with suppress(OSError):
                    if time.time() - left.stat().st_mtime > age:
                        left.unlink()

    def finish_with(self, context: Any) -> None:
        """When this process ends, the JVM writes the archive, which then takes its name."""
        if self._making is not None:
            atexit.register(self._finish, context._gateway, context)

    def _finish(self, gateway: Any, context: Any) -> None:
        assert self._making is not None
        process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
        with suppress(Exception):
            context.stop()
        try:
            if process is not None and process.stdin is not None:
                process.stdin.close()  # at which it ends
                process.wait(PATIENCE)
                if process.returncode == 0 and self._making.stat().st_size > 0:
                    os.replace(self._making, self.path)
        except (OSError, subprocess.SubprocessError):
            pass
        finally:
            self._making.unlink(missing_ok=True)
