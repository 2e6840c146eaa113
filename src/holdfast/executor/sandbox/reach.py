"""What any sandbox can read: Python, what is installed for it, system libraries, and the source that it imports."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

SYSTEM = (
    "/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache", "/etc/localtime",
    "/usr/share/zoneinfo", "/dev/urandom", "/dev/random", "/dev/zero",
)  # fmt: skip
WRITABLE = ("/dev/null",)
_MODULES = (".py", ".pyc", ".so")


def readable() -> list[str]:
    """Return the files and folders that can be read, with all that is in them."""
    installed = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    ours = Path(__file__).parents[2]
    found = [*SYSTEM, *installed, str(ours), os.path.join(sys.prefix, "pyvenv.cfg")]
    for entry in sys.path:
        found += [entry] if _is_installed(entry, installed) or os.path.isfile(entry) else _modules(entry)
    return _there(found)


def listable() -> list[str]:
    """Return the folders of which the names can be seen: Python looks there for modules."""
    return _there(entry for entry in sys.path if os.path.isdir(entry))


def _is_installed(entry: str, installed: Iterable[str]) -> bool:
    return any(Path(entry).is_relative_to(folder) for folder in installed)


def _modules(folder: str) -> Iterator[str]:
    """Yield the modules and packages of a folder of source; whatever else is there stays out of reach."""
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        if entry.name.endswith(_MODULES) or entry.name == "__pycache__" or _is_package(entry):
            yield entry.path


def _is_package(entry: os.DirEntry[str]) -> bool:
    return entry.is_dir() and os.path.exists(os.path.join(entry.path, "__init__.py"))


def _there(paths: Iterable[str]) -> list[str]:
    return sorted({path for path in paths if path and os.path.exists(path)})
