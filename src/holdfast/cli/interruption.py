"""Ctrl-C in the middle of many steps: the step that is under way ends, and what was done is told."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import click

from ..worker.signals import heard


class Interruption:
    """Whether Ctrl-C was pressed: true from the first one on. The second ends the command wherever it is."""

    def __init__(self) -> None:
        self._count = 0

    def __bool__(self) -> bool:
        return self._count > 0

    def hear(self, number: int) -> None:
        """Take note of a signal."""
        self._count += 1
        if self._count > 1 or number != signal.SIGINT:
            raise KeyboardInterrupt
        os.write(2, b"\nstopping after this step; press Ctrl-C again to end at once\n")  # in the middle of anything


@contextmanager
def interruptible() -> Iterator[Interruption]:
    """Have Ctrl-C end the block after one of its steps, which looks at this between two of them."""
    interruption = Interruption()
    with heard(interruption.hear):
        yield interruption


def command_again(*more: str, without: Iterable[str] = ()) -> str:
    """Return the command of now for a shell, with more words, and without others (an option goes with its value)."""
    words, left_out = list(click.get_current_context().find_root().obj or ()), set(without)
    kept, skip = [], False
    for word in words:
        if skip:
            skip = False
        elif word.partition("=")[0] in left_out:
            skip = word.startswith("--") and "=" not in word
        else:
            kept.append(word)
    return shlex.join(["holdfast", *kept, *more])
