"""The oldest PostgreSQL that Holdfast supports, for tests: Debian's where it is installed, or else out of a wheel.

The wheel is unpacked into the environment that runs this, without root; nothing of it is imported.
"""

from __future__ import annotations

import functools
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

OLDEST = 15
DEBIAN = Path(f"/usr/lib/postgresql/{OLDEST}")
"""Preferred, for it has a compiler (JIT), which the wheel has not."""
WHEEL = "pgserver==0.0.9"
"""Has a PostgreSQL 15. It was built for Python 3.11, which does not matter: the server alone is wanted."""
UNPACKED = Path(sys.prefix) / f"postgresql-{OLDEST}"


@functools.cache
def home() -> Path:
    """Return the folder that has the server's `bin`."""
    if (DEBIAN / "bin" / "postgres").exists():
        return DEBIAN
    if not UNPACKED.exists():
        unpack()
    return UNPACKED / "pgserver" / "pginstall"


def unpack() -> None:
    """The wheel is in the environment, whoever else unpacks it at the same time."""
    with tempfile.TemporaryDirectory(dir=sys.prefix) as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        subprocess.run([*command, "--python-version=3.11", WHEEL], cwd=folder, check=True, capture_output=True)
        (wheel,) = Path(folder).glob("*.whl")
        whole = Path(folder) / "whole"
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(whole)
        for program in whole.glob("pgserver/pginstall/bin/*"):
            program.chmod(0o755)  # a wheel does not say so
        try:
            whole.rename(UNPACKED)
        except OSError:
            if not UNPACKED.exists():
                raise
