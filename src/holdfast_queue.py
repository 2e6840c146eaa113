"""The start of the `holdfast` command: refuse to run where another package has taken the name `holdfast`.

PyPI has a `holdfast` of other people, with the same import name. In one environment each overwrites files of the other,
`holdfast/__init__.py` first of all. So the command begins in this file, which that package does not have, and imports
nothing of Holdfast before it has looked.
"""

import contextlib
import os
import sys
from importlib.util import find_spec

_OURS = __name__.replace("_", "-")
_OTHER = "holdfast"
_FILE = "holdfast/__init__.py"
_FOLDER = os.path.dirname(os.path.abspath(__file__))
_REMEDY = f"pip uninstall {_OTHER}, and then pip install --force-reinstall --no-deps {_OURS}"


def conflict(folder: str = _FOLDER) -> str | None:
    """Return what is wrong, and what to do, where `import holdfast` is not all that was installed in `folder`."""
    spec = find_spec("holdfast")
    found = spec and spec.origin
    if not found:
        return f"files of {_OURS} are missing in {folder}: {_REMEDY}"
    if os.path.realpath(found) != os.path.realpath(os.path.join(folder, _FILE)):
        return f"`import holdfast` finds {found}, which is not a file of {_OURS}: remove it ({_REMEDY})"
    other = _overlapping(folder)
    return other and f"{other} has the same files as {_OURS}, and is a project of other people: {_REMEDY}"


def _overlapping(folder: str) -> str | None:
    """Return the name and version of the other distribution where it is installed over ours, or ours over it."""
    with contextlib.suppress(OSError):  # as in a zip file, which has no other distributions
        for name in os.listdir(folder):
            if name.startswith(f"{_OTHER}-") and name.endswith(".dist-info") and _FILE in _files(folder, name):
                return name.removesuffix(".dist-info").replace("-", " ")
    return None


def _files(folder: str, name: str) -> list[str]:
    with open(os.path.join(folder, name, "RECORD"), encoding="utf-8") as record:
        return [line.split(",", 1)[0] for line in record]


def main() -> None:
    """The console entry point: run the command, or say why not and exit with 1."""
    trouble = conflict()
    if trouble:
        sys.exit(f"holdfast: {trouble}")
    from holdfast.__main__ import main as run

    run()
