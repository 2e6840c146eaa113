"""The pipe through which a worker process reports to its keeper."""

from __future__ import annotations

import asyncio
import os

import msgspec

from ..worker import Report
from .child import BEGUN


class ReportPipe:
    """Read what one process reports. `begun` is set when its worker claims, `report` when it has ended in order."""

    def __init__(self, begun: asyncio.Event) -> None:
        self._begun = begun
        self._read, self.write = os.pipe()
        self._heard = b""
        self.report: Report | None = None
        os.set_blocking(self._read, False)
        asyncio.get_running_loop().add_reader(self._read, self._hear)

    def started(self) -> None:
        """Close our copy of the process's end, as the process has its own."""
        os.close(self.write)

    def close(self) -> None:
        """Read what the process said last, and close."""
        self._hear()
        asyncio.get_running_loop().remove_reader(self._read)
        os.close(self._read)

    def _hear(self) -> None:
        try:
            while told := os.read(self._read, 65536):
                self._heard += told
        except BlockingIOError:
            pass
        else:
            asyncio.get_running_loop().remove_reader(self._read)  # it is at its end, and would be told over and over
        *lines, self._heard = self._heard.split(b"\n")
        for line in lines:
            if line == BEGUN:
                self._begun.set()
            else:
                self.report = msgspec.json.decode(line, type=Report)
