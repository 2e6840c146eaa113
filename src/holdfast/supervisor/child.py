"""In a worker process: report to the keeper, and end when the keeper is gone."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress

import msgspec

from ..worker import Report

KEEPER = "HOLDFAST_KEEPER"
"""Where the environment names two descriptors: one whose other end the keeper holds, and one for what it is told."""
BEGUN = b"begun"


class Parent:
    """The keeper of this process, if it has one."""

    def __init__(self) -> None:
        given = os.environ.pop(KEEPER, None)
        self._life, self._line = map(int, given.split(",")) if given else (-1, -1)
        for number in (self._life, self._line) if self else ():
            os.set_inheritable(number, False)

    def __bool__(self) -> bool:
        return self._life >= 0

    def watch(self, stop: Callable[[], object]) -> None:
        """Call `stop` when the keeper is gone."""
        if not self:
            return
        loop = asyncio.get_running_loop()

        def gone() -> None:
            loop.remove_reader(self._life)
            stop()

        loop.add_reader(self._life, gone)

    def begun(self) -> None:
        """Tell the keeper that the worker claims."""
        if self:
            self._say(BEGUN)

    def ended(self, report: Report) -> None:
        """Tell the keeper what the worker did."""
        if self:
            self._say(msgspec.json.encode(report))

    def _say(self, line: bytes) -> None:
        with suppress(OSError):  # the keeper is gone
            os.write(self._line, line + b"\n")
