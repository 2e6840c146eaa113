"""Where a system runs: each peer in an environment of its own, under .bench/, made on first use."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.system import System

ROOT = Path(__file__).resolve().parents[2]
INSTALLING = 300
"""Seconds until an installation is given up."""


class NotInstallable(Exception):
    """A system's packages could not be installed; the message says which."""

    word = "not installable"


def command(system: System) -> list[str]:
    """The start of the command line that runs the system's script, its packages installed."""
    if system.script.endswith(".mjs"):
        if shutil.which("node") is None:
            raise NotInstallable(f"{system.name}: there is no node on this machine")
        return ["node", str(_node_script(system))]
    return [_python(system), "-m", system.script]


def _python(system: System) -> str:
    if not system.packages:
        return sys.executable
    home = ROOT / ".bench" / system.script.rpartition(".")[2]
    python = home / "bin" / "python"
    if _is_new(home, system):
        _install(system, sys.executable, "-m", "venv", "--clear", str(home))
        _install(system, str(python), "-m", "pip", "install", "-qq", "--disable-pip-version-check", *system.packages)
        _mark(home, system)
    return str(python)


def _node_script(system: System) -> Path:
    """node resolves packages from where the script lies, so a copy lies beside them."""
    source = Path(system.script)
    home = ROOT / ".bench" / source.stem
    if _is_new(home, system):
        home.mkdir(parents=True, exist_ok=True)
        _install(system, "npm", "install", "--silent", "--prefix", str(home), *system.packages)
        _mark(home, system)
    for shared in source.parent.glob("_*.mjs"):
        shutil.copy(shared, home)
    return Path(shutil.copy(source, home))


def _is_new(home: Path, system: System) -> bool:
    mark = home / ".installed"
    return not mark.exists() or mark.read_text() != _wanted(system)


def _mark(home: Path, system: System) -> None:
    (home / ".installed").write_text(_wanted(system))


def _wanted(system: System) -> str:
    return f"{sys.version_info[:2]} {' '.join(system.packages)}"


def _install(system: System, *arguments: str) -> None:
    try:
        subprocess.run(arguments, check=True, stdout=sys.stderr, timeout=INSTALLING)
    except (OSError, subprocess.SubprocessError) as error:
        raise NotInstallable(f"{system.name}: {' '.join(system.packages)} could not be installed: {error}") from error
