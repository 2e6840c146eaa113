"""Signals: SIGTERM and SIGINT are handled once for the whole process, and passed to all that stop with them."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from ..errors import ConfigError

NUMBERS = (signal.SIGTERM, signal.SIGINT)
OnSignal = Callable[[int], None]
"""Called in the main thread, in the middle of whatever runs there: it only passes the signal on."""


class SignalListeners:
    """The functions that hear the signals of this process. Without any, the handlers of before are put back."""

    def __init__(self) -> None:
        self._listeners: list[OnSignal] = []
        self._witnesses: list[OnSignal] = []
        """Functions that hear signals and do nothing about them."""
        self._before: dict[int, Any] = {}
        self._gate = threading.RLock()  # a signal may come in the middle of anything, in this very thread
        self._handler = self._on_signal  # one object, to know it again

    @contextmanager
    def heard(self, hears: OnSignal, *, acts: bool = True) -> Iterator[None]:
        """Call `hears` with the number of each signal within the block, beside all the others.

        While only those hear it that do not act, the old handler does what it would have done without them.
        """
        among = self._listeners if acts else self._witnesses
        with self._gate:
            self._listen()
            among.append(hears)
        try:
            yield
        finally:
            with self._gate:
                among.remove(hears)
                if not self._listeners and not self._witnesses:
                    self._stop_listening()

    def _listen(self) -> None:
        """Handle signals from now on. Handlers of an event loop (`loop.add_signal_handler`) are called as well."""
        wanted = [number for number in NUMBERS if signal.getsignal(number) is not self._handler]
        if wanted and not _in_main_thread():
            raise ConfigError(
                "signals=True: Python hears signals in its main thread only, where nobody listens for workers yet: "
                "run one with signals=True there, or have a handler of yours call worker.stop(), from any thread"
            )
        for number in wanted:
            self._before[number] = signal.signal(number, self._handler)

    def _stop_listening(self) -> None:
        """Put the old handlers back. Only the main thread can: elsewhere signals are passed on to them."""
        if not _in_main_thread():
            return
        for number, before in self._before.items():
            if signal.getsignal(number) is self._handler:  # a handler that was set since stays
                signal.signal(number, signal.SIG_DFL if before is None else before)
        self._before.clear()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        listeners = tuple(self._listeners)
        for hears in (*listeners, *self._witnesses):
            hears(number)
        if not listeners:
            self._pass_on(number, frame)

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        """Do what the old handler would have done, as no function hears the signal any more."""
        before = self._before.pop(number, None)
        signal.signal(number, signal.SIG_DFL if before is None else before)
        if callable(before):
            before(number, frame)
        elif before is not signal.SIG_IGN:
            os.kill(os.getpid(), number)


def stops(stop: Callable[..., object]) -> OnSignal:
    """Return what hears of signals for a worker: the first stops it, the others skip the drain."""
    first = iter((True,))

    def on_signal(number: int) -> None:
        stop(drain=next(first, False), why=signal.Signals(number).name)

    return on_signal


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


heard = SignalListeners().heard
"""Of this process: a handler of signals is one for all."""
