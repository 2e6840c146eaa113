"""The disk of a store: a small file system of its own, where this machine lets us mount one."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from pathlib import Path


class Disk:
    """A folder that can be full."""

    def __init__(self, folder: Path, megabytes: int) -> None:
        folder.mkdir()
        self.folder = folder
        mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=777", "holdfast-torture", str(folder)]
        done = subprocess.run(mount, capture_output=True, check=False) if os.geteuid() == 0 else None
        self.mounted = done is not None and done.returncode == 0
        """Whether it has an end: without one, it cannot be filled."""

    @property
    def _filler(self) -> Path:
        return self.folder / "filler"

    def fill(self) -> None:
        """Nothing more can be written."""
        descriptor = os.open(self._filler, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        size = 1 << 26
        while size >= 4096:
            try:
                os.posix_fallocate(descriptor, os.fstat(descriptor).st_size, size)
            except OSError:
                size //= 2
        os.close(descriptor)

    def free(self) -> None:
        """There is room again."""
        self._filler.unlink(missing_ok=True)

    def close(self) -> None:
        """The file system is gone."""
        if self.mounted:
            with suppress(subprocess.SubprocessError):
                subprocess.run(["umount", "-l", str(self.folder)], check=False, capture_output=True)
