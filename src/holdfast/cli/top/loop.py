"""The loop: look at the store now and then, draw when something has changed, obey keys at once."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections import deque
from collections.abc import Iterator

from ...app.app import Holdfast
from ...core.visible import visible
from ...store import shown
from ...telemetry.recent import Recent
from .actions import carry_out
from .data import TopData, TopReader
from .detail import job_lines
from .frame import Canvas, Middle, body_height, frame
from .listing import arranged
from .lists import listing
from .press import press
from .state import Intent, TopState
from .terminal import Terminal

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)

FIRST_LOOK = 0.05
"""Seconds between two looks until there is something to see."""


class TopLoop:
    """One screen on one store."""

    def __init__(self, app: Holdfast, recent: Recent, terminal: Terminal, state: TopState, interval: float) -> None:
        self._app = app
        self._recent = recent
        self._terminal = terminal
        self._state = state
        self._interval = interval
        self._reader = TopReader(app, recent, shown(app.store.url))
        self._data = self._reader.now()
        self._keys: deque[str] = deque()
        self._changed = asyncio.Event()
        self._look = asyncio.Event()
        self._anew = True
        self._ended_by: int | None = None
        self._over = False
        self._doing: set[asyncio.Task[None]] = set()

    async def run(self) -> int:
        """Run until a key or a signal ends it; return the exit code."""
        self._terminal.listen(self._on_key, self._end)
        looking = asyncio.create_task(self._keep_looking())
        try:
            with self._signals():
                while not self._over:
                    self._draw()
                    await self._changed.wait()
                    self._changed.clear()
                    while self._keys:
                        self._press(self._keys.popleft())
        finally:
            self._terminal.unlisten()
            for task in (looking, *self._doing):
                task.cancel()
            await asyncio.gather(looking, *self._doing, return_exceptions=True)
        return 0 if self._ended_by in (None, signal.SIGINT) else 128 + self._ended_by

    # --- looking

    async def _keep_looking(self) -> None:
        while True:
            if not self._state.frozen:
                self._data = await self._reader.read(self._state)
                self._changed.set()
            with contextlib.suppress(TimeoutError):
                pause = self._interval if self._recent.has_looked else min(FIRST_LOOK, self._interval)
                await asyncio.wait_for(self._look.wait(), pause)
            self._look.clear()

    # --- drawing

    def _canvas(self) -> Canvas:
        width, height = self._terminal.size()
        return Canvas(width, height, color="NO_COLOR" not in os.environ, ascii_only=self._terminal.ascii_only)

    def _parts(self) -> Middle:
        return parts_of(self._app, self._data, self._state, ascii_only=self._terminal.ascii_only)

    def _draw(self) -> None:
        lines = frame(self._data, self._state, self._parts(), self._canvas(), self._interval)
        self._terminal.draw(lines, anew=self._anew)
        self._anew = False

    # --- keys and signals

    def _on_key(self, key: str) -> None:
        self._keys.append(key)
        self._changed.set()

    def _press(self, key: str) -> None:
        if key == "ctrl-l":
            self._anew = True
            return
        before = (self._state.job, self._state.jobs, self._state.view)
        page = body_height(self._data, self._state, self._canvas())
        intent = press(self._state, key, self._parts().rows, self._data, page)
        if (self._state.job, self._state.jobs, self._state.view) != before:
            self._show_other(before)
        if intent is not None:
            self._obey(intent)

    def _show_other(self, before: tuple[object, object, object]) -> None:
        """Forget what belongs to another list or job, and look at once."""
        if self._state.job != before[0]:
            self._reader.forget_job()
        if self._state.jobs != before[1]:
            self._reader.forget_jobs()
        self._data = self._reader.now(self._data.trouble)
        self._look.set()

    def _obey(self, intent: Intent) -> None:
        if intent.kind == "quit":
            self._end()
        elif intent.kind == "refresh":
            self._look.set()
        else:
            task = asyncio.create_task(self._do(intent))
            self._doing.add(task)
            task.add_done_callback(self._doing.discard)

    async def _do(self, intent: Intent) -> None:
        try:
            self._state.say(await carry_out(self._app, intent))
            await self._recent.look()
        except Exception as error:
            self._state.say(visible(f"not done: {error}"), error=True)
        self._look.set()
        self._changed.set()

    def _end(self, number: int | None = None) -> None:
        self._ended_by, self._over = number, True
        self._changed.set()

    def _resized(self) -> None:
        self._anew = True
        self._changed.set()

    def _stop_job(self) -> None:
        """Ctrl-Z: the shell gets its terminal back until this is continued."""
        self._terminal.give_back()
        os.kill(os.getpid(), signal.SIGSTOP)

    def _continued(self) -> None:
        self._terminal.resume()
        self._resized()

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        handlers = {number: lambda number=number: self._end(number) for number in ENDING}
        others = {signal.SIGWINCH: self._resized, signal.SIGTSTP: self._stop_job, signal.SIGCONT: self._continued}
        for number, handler in {**handlers, **others}.items():
            loop.add_signal_handler(number, handler)
        try:
            yield
        finally:
            for number in (*handlers, *others):
                loop.remove_signal_handler(number)


def parts_of(app: Holdfast, data: TopData, state: TopState, *, ascii_only: bool) -> Middle:
    """Return what the view on the screen shows in the middle."""
    if state.view == "job":
        return Middle(lines=job_lines(app, data.detail, data.now_ms))
    found = listing(data, state, ascii_only=ascii_only)
    tab = state.tab
    return Middle(found, arranged(found, tab.sort, reverse=tab.reverse, wanted=tab.wanted))
