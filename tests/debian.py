"""Debian's own Redis and Prometheus, in the environment that runs this, and Debian's Chromium, on the machine.

`python tests/debian.py` gets them, where apt-get is. Redis and Prometheus take no root: their packages are unpacked;
without Redis the tests do with Valkey alone, and those of the alert rules and of Grafana's dashboard need Prometheus.
Chromium has many libraries: it is installed, and the tests of the dashboard need it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PACKAGES = ("redis-server", "redis-tools", "libjemalloc2", "liblzf1")
ROOT = Path(sys.prefix) / "debian"
SERVER = ROOT / "redis-server"
"""A script that starts the server with the libraries that came along."""
PROMETHEUS, PROMTOOL = ROOT / "usr" / "bin" / "prometheus", ROOT / "usr" / "bin" / "promtool"
BROWSER = Path("/usr/bin/chromium")


def unpack(*packages: str) -> None:
    """The packages are in the environment. Raise when a step does not work here."""
    ROOT.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for package in packages:
            subprocess.run(["apt-get", "download", package], cwd=folder, check=True, capture_output=True)
        for file in Path(folder).glob("*.deb"):
            subprocess.run(["dpkg-deb", "-x", str(file), str(ROOT)], check=True, capture_output=True)


def unpack_redis() -> None:
    """The server is in the environment, with its libraries. Raise when a step does not work here."""
    unpack(*PACKAGES)
    libraries = sorted({str(file.parent) for file in (ROOT / "usr" / "lib").rglob("*.so.*")})
    start = f'#!/bin/sh\nexport LD_LIBRARY_PATH="{":".join(libraries)}"\nexec "{ROOT}/usr/bin/redis-server" "$@"\n'
    SERVER.write_text(start)
    SERVER.chmod(0o755)
    subprocess.run([SERVER, "--version"], check=True, capture_output=True)


def apt_get(*words: str) -> None:
    """Run apt-get as root. Raise when it does not work here."""
    root = [] if os.geteuid() == 0 else ["sudo", "--non-interactive"]
    command = [*root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "--yes", *words]
    subprocess.run(command, check=True, capture_output=True)


def install_browser() -> None:
    """Chromium is on the machine. Raise when it cannot be installed here."""
    install = ("install", "--no-install-recommends", "chromium")
    try:
        apt_get(*install)
    except subprocess.CalledProcessError:  # a new machine has no lists of packages, or old ones
        apt_get("update")
        apt_get(*install)


def main() -> None:
    if shutil.which("apt-get") and not BROWSER.exists():
        try:
            install_browser()
        except (OSError, subprocess.SubprocessError) as error:
            print(f"Chromium could not be installed, so the tests of the dashboard will fail: {error}")
    if shutil.which("apt-get") and not PROMTOOL.exists():
        try:
            unpack("prometheus")
        except (OSError, subprocess.SubprocessError) as error:
            print(f"Prometheus could not be fetched, so the tests of the alert rules will fail: {error}")
    if SERVER.exists() or shutil.which("redis-server") or not shutil.which("apt-get"):
        return
    try:
        unpack_redis()
    except (OSError, subprocess.SubprocessError) as error:
        SERVER.unlink(missing_ok=True)
        print(f"Debian's Redis could not be fetched, so the tests use Valkey alone: {error}")


if __name__ == "__main__":
    main()
