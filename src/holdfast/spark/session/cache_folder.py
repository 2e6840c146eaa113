"""A folder for files that are made once for each user and machine; a temporary one where that cannot be written."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path


def lasting() -> Path | None:
    """Return the folder that the next process finds again; `None` when it cannot be written."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = Path(base) / "holdfast" / "spark"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK | os.X_OK) else None


def folder() -> Path:
    """Return a folder that can be written, the lasting one if possible."""
    return lasting() or temporary()


@cache
def temporary() -> Path:
    """Return a folder that is removed when this process ends."""
    made = Path(tempfile.mkdtemp(prefix="holdfast-spark-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def put(path: Path, text: str, mode: int = 0o644) -> Path:
    """Write a text to a file, atomically: other processes may write the same file at the same time."""
    if not path.exists() or path.read_text("utf-8") != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(name, mode)
        os.replace(name, path)
    return path
